"""Cuts for placements of lanes (loop, V, wave, two directions), where every holder has one stage in each.

A lane goes through all holders, down or up. So the cut is made holder by holder: what is left then is a row of gaps,
one for each lane, or one for two lanes that meet. Whether holders from one on can share given gaps depends on nothing
else, so gaps that they cannot are remembered.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

from pipesched.pipeline.cutting.task import CutTask, Ends

MOST_STARTS = 20_000  # places where lanes begin: of more only the evenest are tried

State = tuple[int, ...]  # how far each lane has come


class Lanes(NamedTuple):
    """The holders in the order of the first lane, and which lanes go through them the other way."""

    order: Sequence[int]
    is_back: Sequence[bool]


def lanes_of(task: CutTask) -> Lanes | None:
    """Return the lanes of a task; None where its holders do not stand in lanes."""
    count = len(task.weights)
    order = task.holders[:count]
    rows = [task.holders[start : start + count] for start in range(0, task.stages, count)]
    if len({*order}) < count or any(row not in (order, order[::-1]) for row in rows):
        return None
    return Lanes(order, [row != order for row in rows])


class LaneSearch:
    """Looks for a cut within a cost, until it has looked at `most` stages."""

    def __init__(self, task: CutTask, lanes: Lanes, most: int) -> None:
        self.task, self.lanes, self.most = task, lanes, most
        self.count, self.held = len(lanes.order), task.held(0) if task.room is not None else None
        backs = [*lanes.is_back]
        self.meets = [lane > 0 and backs[lane] and not backs[lane - 1] for lane in range(len(backs))]
        self.starts = [*self._starts()]

    def _starts(self) -> Iterator[list[int]]:
        """Yield the items at which lanes begin, the evenest first: where a lane meets the one before, None is free."""
        task, lanes = self.task, len(self.lanes.is_back)
        fixed = [lane for lane in range(1, lanes) if not self.meets[lane]]
        if comb(task.items, len(fixed)) > MOST_STARTS:
            near = [self._near(lane / lanes) for lane in fixed]
            yield from ([0, *start, task.items] for start in _products(near, MOST_STARTS))
            return
        even = [task.work[-1] * lane / lanes for lane in fixed]

        def distance(start: Sequence[int]) -> float:
            return sum(abs(task.work[item] - wanted) for item, wanted in zip(start, even, strict=True))

        starts = combinations(range(1, task.items), len(fixed))
        yield from ([0, *start, task.items] for start in sorted(starts, key=distance))

    def _near(self, share: float) -> list[int]:
        """Return the items by how far the work before them is from a share of all."""
        work = self.task.work
        return sorted(range(1, self.task.items), key=lambda item: abs(work[item] - share * work[-1]))

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost; None if there is none, or none was found."""
        limits, looked = self.task.limits(cost), [self.most]
        if sum(limits) < self.task.work[-1]:
            return None
        for start in self.starts:
            found = _LaneGaps(self, start, limits, looked).cut()
            if found is not None or looked[0] <= 0:
                return found
        return None


def _products(columns: Sequence[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Yield ascending choices of one item of each column, by the sum of their places, up to so many."""
    given = 0
    for total in range(sum(map(len, columns))):
        for places in _places(total, [len(column) - 1 for column in columns]):
            chosen = [column[place] for column, place in zip(columns, places, strict=True)]
            if all(one < other for one, other in pairwise(chosen)):
                yield chosen
                given += 1
                if given >= most:
                    return


def _places(total: int, limits: Sequence[int]) -> Iterator[list[int]]:
    if len(limits) == 1:
        if total <= limits[0]:
            yield [total]
        return
    for first in range(min(total, limits[0]) + 1):
        yield from ([first, *rest] for rest in _places(total - first, limits[1:]))


class _LaneGaps:
    """The gaps that lanes leave, from their starts on."""

    def __init__(self, search: LaneSearch, start: Sequence[int], limits: Sequence[int], looked: list[int]) -> None:
        task, self.search, self.looked = search.task, search, looked
        self.work, self.held, order = task.work, search.held, search.lanes.order
        self.limits = [limits[holder] for holder in order]
        self.room = None if task.room is None else [task.room[holder] for holder in order]
        self.spare = [0] * (search.count + 1)  # what the holders from one on may have together
        for number in range(search.count - 1, -1, -1):
            self.spare[number] = self.spare[number + 1] + self.limits[number]
        self.back = search.lanes.is_back
        bounds: list[tuple[int, int]] = []  # of each lane; two that meet share theirs
        entries = iter(start)
        left = next(entries)
        for lane in range(len(self.back)):
            if search.meets[lane]:
                bounds.append(bounds[-1])
            else:
                right = next(entries)
                bounds.append((left, right))
                left = right
        self.bounds = bounds
        self.failed: set[tuple[int, State]] = set()

    def cut(self) -> Ends | None:
        """Return a cut from these starts on, None if there is none."""
        lanes, count = range(len(self.back)), self.search.count
        for lane in lanes:
            sharing = self.bounds.count(self.bounds[lane])
            if self.bounds[lane][1] - self.bounds[lane][0] < sharing * count:
                return None
        state = tuple(right if back else left for back, (left, right) in zip(self.back, self.bounds, strict=True))
        path = [state]
        options = [self._next(0, state)]
        while options:
            following = next(options[-1], None)
            if following is None or self.looked[0] <= 0:
                self.failed.add((len(options) - 1, path.pop()))
                options.pop()
                continue
            if len(options) == count:
                return self._ends([*path, following])
            if (len(options), following) not in self.failed:
                path.append(following)
                options.append(self._next(len(options), following))
        return None

    def _next(self, number: int, state: State) -> Iterator[State]:
        """Yield how far the lanes may come with one holder more."""
        is_last, remaining = number == self.search.count - 1, self._remaining(state)
        if remaining > self.spare[number]:
            return
        needed = remaining - self.spare[number + 1]
        room = None if self.room is None else self.room[number]
        yield from self._moved(number, state, (), self.limits[number], room, needed, is_last)

    def _remaining(self, state: State) -> int:
        work, total = self.work, 0
        for lane, at in enumerate(state):
            left, right = self.bounds[lane]
            total += work[at] - work[left] if self.back[lane] else work[right] - work[at]
            if self.search.meets[lane]:  # both count what is between the two, and what is beyond the other
                total -= work[right] - work[left]
        return total

    def _moved(
        self, number: int, state: State, moved: State, limit: int, room: int | None, needed: int, is_last: bool
    ) -> Iterator[State]:
        lane = len(moved)
        if lane == len(state):
            yield moved
            return
        work, at, back = self.work, state[lane], self.back[lane]
        self.looked[0] -= 1
        for end in self._ends_of(number, state, moved, limit, needed, is_last):
            begin, behind = (end, at) if back else (at, end)
            used = work[behind] - work[begin]
            if used > limit:
                return
            left = room
            if left is not None and self.held is not None:
                left -= self.held[behind] - self.held[begin]
                if left < 0:
                    return
            yield from self._moved(number, state, (*moved, end), limit - used, left, needed - used, is_last)

    def _ends_of(
        self, number: int, state: State, moved: State, limit: int, needed: int, is_last: bool
    ) -> Iterator[int] | range:
        """Return how far a lane may come, nearest first, so that the holders behind have an item each."""
        lane = len(moved)
        at, back, behind = state[lane], self.back[lane], self.search.count - 1 - number
        left, right = self.bounds[lane]
        meets, is_met = self.search.meets[lane], lane + 1 < len(state) and self.search.meets[lane + 1]
        if meets:
            left = moved[lane - 1]
        elif is_met:
            right = state[lane + 1] - behind - 1
        far, near = (left + behind, at - 1) if back else (right - behind, at + 1)
        if is_last:  # it takes what is left; of two lanes that meet the first one item
            near = near if is_met else left if back else right
            return range(near, near + (left <= near <= right))
        if lane == len(state) - 1 and needed > 0:  # less would be too much for the holders behind
            work = self.work
            if back:
                near = min(near, bisect_right(work, work[at] - needed) - 1)
            else:
                near = max(near, bisect_left(work, work[at] + needed))
        return range(near, far - 1, -1) if back else range(near, far + 1)

    def _ends(self, path: Sequence[State]) -> Ends:
        """Return the ends of the stages of a way through all holders."""
        ends: list[int] = []
        for lane, back in enumerate(self.back):
            places = [state[lane] for state in path]
            ends += places[-2::-1] if back else places[1:]
        return ends

"""The least length at which the activations of a device can all be kept, offloaded or recomputed, in whole numbers.

For a length, every row of `stays` is an inequality on how many activations of each chunk are offloaded and recomputed
(the others are kept). Where no whole numbers keep them all, every schedule is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.core.integer_points import may_hold
from pipesched.core.integers import round_up
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.stays import DeviceStays, StayCosts, StayInequality, lane_back, lane_out

MOST_DOUBLINGS = 60

System = tuple[list[list[int]], list[int]]  # rows and limits


def sharing_lanes(windows: Sequence[DeviceStays], problem: Problem) -> list[tuple[DeviceStays, ...]]:
    """Return the windows in groups: devices that share their lanes together, where the times of both are known."""
    if problem.lanes != "pair" or not any(window.allowed.offload and not window.alone for window in windows):
        return [(window,) for window in windows]
    pairs: dict[int, list[DeviceStays]] = {}
    for window in windows:
        pairs.setdefault(problem.lane_pair(window.device), []).append(window)
    return [tuple(group) for group in pairs.values()]


def shortest(group: Sequence[DeviceStays], least: int, quantum: int) -> int:
    """Return the least length in ticks, a multiple of `quantum` from `least` on, that is not refuted for these devices.

    No schedule is shorter than that, if none is shorter than `least`.
    """
    counts = _Counts(group)
    refuted, step = round_up(least, quantum), quantum
    if counts.may_be(refuted):
        return least
    for _ in range(MOST_DOUBLINGS):
        if counts.may_be(refuted + step):
            break
        refuted, step = refuted + step, 2 * step
    else:
        return refuted
    open_ = refuted + step
    while open_ - refuted > quantum:
        middle = refuted + (open_ - refuted) // (2 * quantum) * quantum
        refuted, open_ = (refuted, middle) if counts.may_be(middle) else (middle, open_)
    return open_


class _Counts:
    """The inequalities on the numbers of actions on some devices."""

    def __init__(self, group: Sequence[DeviceStays]) -> None:
        self.chunks = [chunk for window in group for chunk in window.chunks]
        self.actions = [
            (number, action)
            for number, _ in enumerate(self.chunks)
            for action in ("offload", "recompute")
            if getattr(group[0].allowed, action)
        ]
        self.rows: list[StayInequality] = []
        self.slots = []
        first = 0
        for window in group:
            before, after = first, len(self.chunks) - first - len(window.chunks)
            self.rows += [row._replace(costs=_padded(row.costs, before, after)) for row in window.rows()]
            self.slots += [(slots, before, after) for view in window.views() for slots in window.slots(view)]
            first += len(window.chunks)
        if len(group) > 1:
            self.rows += [lane_out(group), lane_back(group)]

    def may_be(self, length: int) -> bool:
        """Return False if no numbers of actions keep all inequalities for a length."""
        rows, limits = self._enough()
        for costs, most in self._inequalities(length):
            kept = sum(chunk.microbatches * cost.keep for chunk, cost in zip(self.chunks, costs, strict=True))
            rows.append([getattr(costs[number], action) - costs[number].keep for number, action in self.actions])
            limits.append(most - kept)
            if limits[-1] < 0 and all(entry >= 0 for entry in rows[-1]):
                return False
        return not self.actions or may_hold(*_without_needless(rows, limits))

    def _inequalities(self, length: int) -> Iterator[tuple[tuple[StayCosts, ...], int]]:
        for row in self.rows:
            if length >= row.least:
                yield row.costs, row.slope * length + row.offset
        for slots, before, after in self.slots:
            for costs, most in slots.rows_at(length):
                yield _padded(costs, before, after), most

    def _enough(self) -> System:
        """Return the rows that no chunk has more actions than activations."""
        numbers = sorted({number for number, _ in self.actions})
        rows = [[int(number == chunk) for number, _ in self.actions] for chunk in numbers]
        return rows, [self.chunks[number].microbatches for number in numbers]


def _padded(costs: tuple[StayCosts, ...], before: int, after: int) -> tuple[StayCosts, ...]:
    """Return costs of one device among those of several."""
    nothing = StayCosts(0, 0, 0)
    return (*[nothing] * before, *costs, *[nothing] * after)


def _without_needless(rows: list[list[int]], limits: list[int]) -> System:
    """Return the rows without those that hold whatever the numbers are."""
    kept = [(row, limit) for row, limit in zip(rows, limits, strict=True) if limit < 0 or any(one > 0 for one in row)]
    return [row for row, _ in kept], [limit for _, limit in kept]

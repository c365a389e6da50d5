"""How layers are cut into stages: the layout of least largest work of a device, exact where it can be.

`balanced_layout` is where one begins. Of alike layers it counts (`_least_largest`). Of layers that differ it makes a
`CutTask`, for which `least_cut` chooses a search: by runs, by all cuts where they are few, by lanes, or some cuts. The
searches are the classes behind it; each says by `any_within` whether some cut costs no more than so much.

Where every device has its stages in one run (`RunSearch`) the search is exact, for any lists. A stage costs no less
with more items, so within a cost and the memory the ends that it may have from a given begin are all those up to a
furthest one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain, combinations, groupby, islice, pairwise, starmap
from math import comb
from typing import NamedTuple

from pipesched.pipeline.layers.layers import WORK, LayerCosts, Layers, least_counts
from pipesched.pipeline.problem.costs import SIZES, Memory
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.quantities import grains_per_unit, to_fraction


class Group(NamedTuple):
    """The stages that share devices, those of one device, or of two that mirror each other; and those devices."""

    stages: Sequence[int]
    devices: Sequence[int]


def balanced_layout(
    layers: Layers, placement: Placement, microbatches: int, memory: Memory, speeds: Sequence[Fraction] | None = None
) -> tuple[int, ...]:
    """Return the layout with the least largest work of a device, by its speed (None: all 1).

    Of alike layers it is one with the least largest stage; the first of alike stages have more layers, since they begin
    first and end last. Of layers that differ, where devices have several stages and there are very many cuts, the work
    is at most 1.005 times the least. Memory is kept where it can be: with one stage a device, the best layout is taken
    with which 1F1B fits the budget. If there is none, or for other placements, the best with which every device has
    memory for one microbatch; if there is none, the best of all. There must be enough layers for every stage to have
    something to do.
    """
    groups = _groups(placement)
    if not layers.layer.is_cut_by_counts:
        return _by_items(layers, groups, memory, _in_flight(placement, microbatches), speeds)
    slowness = [Fraction(1) if speeds is None else _slowness(group, speeds) for group in groups]
    for in_flight in _in_flight(placement, microbatches):
        most, stages, limits = [layers.count] * len(groups), len(layers.layout), memory.budget or ()
        # how many layers each group has memory for; -1 where not even what is beside the layers fits
        for number, (group, devices) in enumerate(groups) if limits else ():
            left = min(to_fraction(limits[device]) for device in devices)
            for stage in group:
                left -= layers.beside(stage, stages, "static")
                left -= in_flight[stage] * layers.beside(stage, stages, "activation")
            held = max(in_flight[stage] for stage in group)
            each = layers.layer.amount("static") + held * layers.layer.amount("activation")
            most[number] = -1 if left < 0 else _times(left, each, layers.count)
        layout = _least_largest(layers, groups, most, slowness)
        if layout is not None:
            return layout
    return _least_largest(layers, groups, [layers.count] * len(groups), slowness) or layers.layout


def _by_items(
    layers: Layers,
    groups: Sequence[Group],
    memory: Memory,
    in_flight: Sequence[Sequence[int]],
    speeds: Sequence[Fraction] | None,
) -> tuple[int, ...]:
    """Return the best layout of layers that differ; what stands beside them is the first and the last item of all."""
    ways = [*((memory.budget, flying) for flying in in_flight), (None, in_flight[-1])]
    items = {key: item_amounts(layers, key) for key in (*WORK, *SIZES)}
    work = [sum(parts, Fraction(0)) for parts in zip(*(items[key] for key in WORK), strict=True)]
    slowness = [_slowness(group, speeds) for group in groups]
    holders = {stage: number for number, (stages, _) in enumerate(groups) for stage in stages}

    def sums(values: Sequence[Fraction], scale: int) -> tuple[int, ...]:
        return tuple(accumulate((int(value * scale) for value in values), initial=0))

    for budget, flying in ways:
        limits = [] if budget is None else [min(to_fraction(budget[device]) for device in its) for _, its in groups]
        scale = grains_per_unit([*items["static"], *items["activation"], *limits])
        task = CutTask(
            work=sums(work, grains_per_unit(work)),
            static=sums(items["static"], scale),
            activation=sums(items["activation"], scale),
            holders=tuple(holders[stage] for stage in range(len(holders))),
            weights=tuple(int(one * grains_per_unit(slowness)) for one in slowness),
            room=None if budget is None else tuple(int(limit * scale) for limit in limits),
            flying=tuple(flying),
        )
        ends = least_cut(task)
        if ends is not None:
            before = len(beside_layers(layers.first))
            inner = (end - before for end in ends[:-1])
            return tuple(end - begin for begin, end in pairwise((0, *inner, layers.count)))
    return layers.layout


def beside_layers(part: LayerCosts) -> list[LayerCosts]:
    """Return the items that a part beside the layers is: one, or none where it takes no time and no memory."""
    return [] if part.is_nothing else [part]


def item_amounts(layers: Layers, key: str) -> list[Fraction]:
    """Return what each item has of a field of LayerCosts: what stands before the layers, each layer, what is behind."""
    first, last = ([one.amount(key) for one in beside_layers(part)] for part in (layers.first, layers.last))
    return [*first, *(end - begin for begin, end in pairwise(layers.layer.sums(key, layers.count))), *last]


def largest_work(layers: Layers, placement: Placement, speeds: Sequence[Fraction] | None) -> tuple[int, Fraction]:
    """Return the device with the most work, and how long it works on a microbatch (the mean of several ways)."""
    groups = _groups(placement)
    columns = [layers.amounts(key) for key in WORK]
    stages = [sum(map(to_fraction, parts), Fraction(0)) for parts in zip(*columns, strict=True)]
    works = [sum((stages[stage] for stage in group.stages), Fraction(0)) * _slowness(group, speeds) for group in groups]
    most = max(range(len(groups)), key=works.__getitem__)
    return _slowest(groups[most], speeds), works[most]


def _slowness(group: Group, speeds: Sequence[Fraction] | None) -> Fraction:
    """Return how long the slowest device of a group, which runs its part of the microbatches, takes for unit work."""
    speed = Fraction(1) if speeds is None else speeds[_slowest(group, speeds)]
    return 1 / (len(group.devices) * speed)


def _slowest(group: Group, speeds: Sequence[Fraction] | None) -> int:
    return group.devices[0] if speeds is None else min(group.devices, key=speeds.__getitem__)


def _groups(placement: Placement) -> list[Group]:
    devices: dict[tuple[int, ...], list[int]] = {}
    for device in range(placement.last + 1):
        devices.setdefault(tuple(placement.stages_on(device)), []).append(device)
    return [*starmap(Group, devices.items())]


def _in_flight(placement: Placement, microbatches: int) -> list[list[int]]:
    """Return the microbatches that each stage holds, for each way to count them: those of 1F1B, and a single one."""
    stages = len(placement.devices)
    single = [1] * stages
    if placement.ways != [tuple(range(stages))]:
        return [single]
    return [[min(stages - stage, microbatches) for stage in range(stages)], single]


def _times(amount: Fraction, each: Fraction, most: int) -> int:
    """Return how often `each` goes into an amount, at most `most` times."""
    return min(most, int(amount / each)) if each else most


def _least_largest(
    layers: Layers, groups: Sequence[Group], most: Sequence[int], slowness: Sequence[Fraction]
) -> tuple[int, ...] | None:
    """Return the best layout with no more layers in a group than `most`: groups are filled first, then their stages."""
    stages, each = len(layers.layout), layers.layer.work
    least = least_counts(stages, layers.first, layers.last)
    beside = [sum((layers.beside(n, stages, key) for key in WORK), Fraction(0)) for n in range(stages)]
    start = [sum(least[stage] for stage in group) for group, _ in groups]
    own = [sum((beside[stage] for stage in group), Fraction(0)) for group, _ in groups]
    by_speed = [work * slow for work, slow in zip(own, slowness, strict=True)]
    filled = _spread(layers.count, start, by_speed, [each * slow for slow in slowness], range(len(groups)), most)
    if filled is None:
        return None
    largest = max((work + count * each) * slow for work, count, slow in zip(own, filled, slowness, strict=True))
    kept = [_times(largest / slow - work, each, limit) for work, limit, slow in zip(own, most, slowness, strict=True)]
    group_of = {stage: number for number, (group, _) in enumerate(groups) for stage in group}
    of_stages = [group_of[stage] for stage in range(stages)]
    shared = _spread(layers.count, least, beside, [each] * stages, of_stages, kept)
    return None if shared is None else tuple(shared)


def _spread(
    count: int,
    start: Sequence[int],
    beside: Sequence[Fraction],
    each: Sequence[Fraction],
    group_of: Sequence[int],
    most: Sequence[int],
) -> list[int] | None:
    """Return `count` layers over parts, each to where the least work is; None where `most` of a group forbids it."""
    # since the layers are alike, no exchange of layers between two parts can lower the largest
    counts, totals = [*start], [0] * len(most)
    for part, number in enumerate(counts):
        totals[group_of[part]] += number
    if any(total > limit for total, limit in zip(totals, most, strict=True)):
        return None
    heap = [(beside[part] + (number + 1) * each[part], number, part) for part, number in enumerate(counts)]
    heapify(heap)
    left = count - sum(counts)
    while left and heap:
        part = heappop(heap)[2]
        if totals[group_of[part]] < most[group_of[part]]:
            counts[part] += 1
            totals[group_of[part]] += 1
            left -= 1
            heappush(heap, (beside[part] + (counts[part] + 1) * each[part], counts[part], part))
    return None if left else counts


class CutItems(NamedTuple):
    """For the cuts of a solve (`solver/cuts/chain.py`): times at speed 1, memory, latencies, in the problem's units."""

    forward: Sequence[Fraction]
    gradient: Sequence[Fraction]  # of what must run before the gradient goes on: I, or a whole backward
    weight: Sequence[Fraction]  # of W; 0 with whole backwards
    pair: Sequence[Fraction] | None  # of a pair F&B, where it may be shorter than its parts
    p2p: Sequence[Fraction]
    static: Sequence[Fraction]
    held: Sequence[Sequence[Fraction]]  # by one microbatch, in each way to count it: of a stage the largest sum counts
    links: Sequence[Sequence[Fraction]] | None = None  # from device to device, that the model has beside the problem's


Ends = Sequence[int]  # where each stage ends; the last one at the number of items
Decide = Callable[[int | None], Ends | None]  # a cut that costs no more than so much (None: anything), if there is one
COMMON = 8  # sizes of items, of which a bound counts how many holders take
NEAR = 64  # a part of the cost: with less between the bounds each next try asks for less than the best cut


class CutTask(NamedTuple):
    """Items to cut into stages of at least one item each, so that the largest cost of a holder is the least.

    A holder is a device, or two that mirror each other.
    """

    work: tuple[int, ...]  # like `static` and `activation` that of the first 0, 1, .. items together
    static: tuple[int, ...]
    activation: tuple[int, ...]
    holders: tuple[int, ...]  # the number of the holder of each stage
    weights: tuple[int, ...]  # the cost of a holder is the work of its stages times its weight
    room: tuple[int, ...] | None  # the memory of each holder (None: no limit)
    flying: tuple[int, ...]  # of each stage the microbatches whose activations it holds at once

    @property
    def items(self) -> int:
        return len(self.work) - 1

    @property
    def stages(self) -> int:
        return len(self.holders)

    def held(self, stage: int) -> list[int]:
        """Return the memory of the first 0, 1, .. items together, in a stage."""
        count = self.flying[stage]
        return [static + count * size for static, size in zip(self.static, self.activation, strict=True)]

    def cost(self, ends: Ends) -> int:
        loads = [0] * len(self.weights)
        for holder, (begin, end) in zip(self.holders, pairwise((0, *ends)), strict=True):
            loads[holder] += self.work[end] - self.work[begin]
        return max(load * weight for load, weight in zip(loads, self.weights, strict=True))

    def limits(self, cost: int | None) -> list[int]:
        """Return the work that each holder may have with no more than a cost."""
        return [self.work[-1] if cost is None else cost // weight for weight in self.weights]

    def least(self) -> int:
        """Return a cost that no cut is below: all work in proportion to what holders cost."""
        low, high = -1, max(self.weights) * self.work[-1]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if sum(self.limits(middle)) >= self.work[-1] else (middle, high)
        return high

    def may_hold(self, limits: Sequence[int]) -> bool:
        """Return whether holders with these limits may take all work, and all items of the commonest sizes."""
        sizes = sorted(end - begin for begin, end in pairwise(self.work))
        common = [(size, len(sizes) - bisect_left(sizes, size)) for size, _ in Counter(sizes).most_common(COMMON)]
        needed = [(1, self.work[-1]), *((size, count) for size, count in common if size)]
        return all(sum(limit // size for limit in limits) >= count for size, count in needed)


FEW = 200_000  # cuts, of which the best is found
NEARLY = 5  # thousandths above the least cost, where there are more
MOST_LOOKED = 400_000  # stages that are looked at for one cost


@lru_cache(maxsize=256)
def least_cut(task: CutTask) -> Ends | None:
    """Return where the stages of the best cut end; None if none is within memory, or none was found."""
    if task.items < task.stages:
        return None
    runs = RunSearch(task)
    if runs.is_laid:
        return runs.best()
    if comb(task.items - 1, task.stages - 1) <= FEW:
        return least_cost(task, EverySearch(task).any_within)
    lanes = LaneSearch(task, MOST_LOOKED)
    search = lanes if lanes.is_laid else EverySearch(task, MOST_LOOKED)
    return least_cost(task, search.any_within, NEARLY)


def least_cost(task: CutTask, decide: Decide, above: int = 0) -> Ends | None:
    """Return a cut of the least cost, or of no more than 1 + `above` / 1000 of it; None if none is within memory.

    `decide` is asked with costs between a bound and the best cut so far.
    """
    best = decide(None)
    if best is None:
        return None
    low, high = task.least() - 1, task.cost(best)
    while low + 1 < high and 1000 * high > (1000 + above) * (low + 1):
        middle = high - 1 if not above and (high - low) * NEAR < high else (low + high) // 2
        found = decide(middle)
        if found is None:
            low = middle
        else:
            best, high = found, task.cost(found)
    return best


MOST_PAIRS = 1_000_000  # of items, for which the most even of the best cuts is looked for


class RunSearch:
    """Where runs may end: the stages of one holder, side by side.

    Each is looked at only from the begins that the runs before and behind it leave.
    """

    def __init__(self, task: CutTask) -> None:
        self.task = task
        self.runs = [(holder, len([*group])) for holder, group in groupby(task.holders)]
        self.is_laid = len(self.runs) == len(task.weights)  # whether each holder has one run
        before = [*accumulate((count for _, count in self.runs), initial=0)][:-1]  # stages
        self.begins = [range(one, task.items - task.stages + one + 1) if one else range(1) for one in before]
        self.held = [task.held(stage) if task.room is not None else () for stage in before]

    def best(self) -> Ends | None:
        """Return the best cut, and of such cuts one of the most even; None if none is within memory."""
        found = least_cost(self.task, self.any_within)
        return self._evenest(self.task.cost(found)) if found and self.task.items**2 <= MOST_PAIRS else found

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost, with the longest runs first."""
        opened = self._open(cost)
        return self._cut(opened) if 0 in opened[0] else None

    def _open(self, cost: int | None) -> list[dict[int, int]]:
        """Return for each run its furthest end from each begin from which the rest can be cut."""
        limits, room = self.task.limits(cost), self.task.room
        most = [[(self.task.work, limits[holder]), *([] if room is None else [(held, room[holder])])]
                for (holder, _), held in zip(self.runs, self.held, strict=True)]  # fmt: skip

        def furthest(begin: int, run: int) -> int:
            return min(bisect_right(sums, sums[begin] + limit) - 1 for sums, limit in most[run])

        numbers, windows, last = range(len(self.runs)), list[range](), 0
        firsts = [self.task.items]
        for run in reversed(numbers):  # from the end: the first begin from which a run reaches that of the run behind
            ends = (bisect_left(sums, sums[firsts[-1]] - limit) for sums, limit in most[run])
            firsts.append(max(*ends, self.begins[run].start))
        for run in numbers:  # from item 0: the last begin that the runs before may reach
            last = min(last, self.begins[run].stop - 1)
            windows.append(range(firsts[-1 - run], last + 1))
            last = furthest(last, run)
        opened: list[dict[int, int]] = []
        possible = [self.task.items]  # begins of the run behind
        for run in reversed(numbers):
            found = {}
            for begin in windows[run]:
                place = bisect_right(possible, furthest(begin, run))
                if place and possible[place - 1] >= begin + self.runs[run][1]:
                    found[begin] = possible[place - 1]
            opened.append(found)
            possible = [*found]
        return opened[::-1]

    def _evenest(self, cost: int) -> Ends:
        """Return the cut within a cost with the least sum of squares of the items of holders, of such with more behind.

        Behind, less is in flight: most schedules hold the most microbatches on the first device.
        """
        best, chosen = {self.task.items: 0}, list[dict[int, int]]()
        for (_, count), furthest in zip(reversed(self.runs), reversed(self._open(cost)), strict=True):
            found = {}
            for begin, last in furthest.items():
                ends = (end for end in range(begin + count, last + 1) if end in best)
                found[begin] = min(((end - begin) ** 2 + best[end], end) for end in ends)
            best = {begin: squares for begin, (squares, _) in found.items()}
            chosen.append({begin: end for begin, (_, end) in found.items()})
        return self._cut(chosen[::-1])

    def _cut(self, ends_of: Sequence[Mapping[int, int]]) -> Ends:
        """Return the ends of stages whose runs end there: of equal numbers of items, or the first have one more."""
        ends, begin = list[int](), 0
        for (_, count), end_of in zip(self.runs, ends_of, strict=True):
            each, more = divmod(end_of[begin] - begin, count)
            ends += [begin + part * each + min(part, more) for part in range(1, count + 1)]
            begin = end_of[begin]
        return ends


class EverySearch:
    """Goes through the cuts within a cost, until it finds one, or has looked at `most` beginnings (None: all)."""

    def __init__(self, task: CutTask, most: int | None = None) -> None:
        self.task, self.most = task, most
        self.held = {count: task.held(task.flying.index(count)) for count in {*task.flying}} if task.room else {}
        self.is_last = [holder not in task.holders[stage + 1 :] for stage, holder in enumerate(task.holders)]

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost; None if there is none, or none was found.

        `spare` is the work that holders may have above all there is: what a holder leaves of its limit is lost to it.
        """
        task, work = self.task, self.task.work
        limits, room = task.limits(cost), [*task.room] if task.room is not None else None
        spare, stage, end, ends, looked = sum(limits) - work[-1], 0, 0, [0], 0
        lost: list[int] = []
        while stage >= 0 and spare >= 0 and looked != self.most:
            looked += 1
            begin, holder = ends[-1], task.holders[stage]
            end = max(end, begin) + 1
            if stage == task.stages - 1:
                end = max(end, task.items)
            left = limits[holder] - (work[min(end, task.items)] - work[begin])
            is_over = end > task.items - (task.stages - 1 - stage) or left < 0
            held = 0
            if room is not None and not is_over:
                sums = self.held[task.flying[stage]]
                held = sums[end] - sums[begin]
                is_over = held > room[holder]
            if is_over:  # and so is every later end
                stage, end = stage - 1, ends.pop()
                if stage >= 0:
                    holder, gone = task.holders[stage], lost.pop()
                    limits[holder] += work[end] - work[ends[-1]]
                    spare += gone
                    if room is not None:
                        sums = self.held[task.flying[stage]]
                        room[holder] += sums[end] - sums[ends[-1]]
                continue
            gone = left if self.is_last[stage] else 0
            if gone > spare:
                continue
            limits[holder] = left
            spare -= gone
            lost.append(gone)
            if room is not None:
                room[holder] -= held
            ends.append(end)
            stage += 1
            if stage == task.stages:
                return ends[1:]
            end = 0
        return None


MOST_STARTS = 20_000  # places where lanes begin: of more only the evenest are tried

State = tuple[int, ...]  # how far each lane has come


class LaneSearch:
    """Looks for a cut within a cost, until it has looked at `most` stages.

    The holders stand in lanes: the first goes through all of them, and each other in the same order, or in the reverse.
    A V of holders A and B, whose lane 0 goes forward from item 0 and lane 1 back from the end, until they meet at m:

        items   0      a      m      b     end
        stages  |  A   |  B   |  B   |  A   |      states: (0, end), then (a, b) behind A, (m, m) behind B

    A state is how far each lane has come. The search goes holder by holder, depth first, and remembers what failed.
    """

    def __init__(self, task: CutTask, most: int) -> None:
        self.task, self.most, self.work, self.count = task, most, task.work, len(task.weights)
        self.held = task.held(0) if task.room is not None else None
        self.order = task.holders[: self.count]
        lanes = [task.holders[start : start + self.count] for start in range(0, task.stages, self.count)]
        is_known = all(lane in (self.order, self.order[::-1]) for lane in lanes)
        self.is_laid = is_known and len({*self.order}) == self.count
        self.back = [lane != self.order for lane in lanes]
        self.meets = [lane > 0 and back and not self.back[lane - 1] for lane, back in enumerate(self.back)]

    @cached_property
    def starts(self) -> list[list[int]]:
        """The items at which lanes begin, and the end, the evenest first: a lane that meets the one before has none."""
        work, items, lanes = self.work, self.task.items, len(self.back)
        fixed = [lane for lane in range(1, lanes) if not self.meets[lane]]
        if comb(items, len(fixed)) <= MOST_STARTS:
            even = [work[-1] * lane / lanes for lane in fixed]
            every = combinations(range(1, items), len(fixed))
            found = sorted(every, key=lambda start: sum(abs(work[at] - to) for at, to in zip(start, even, strict=True)))
            return [[0, *start, items] for start in found]
        shares = [lane / lanes * work[-1] for lane in fixed]
        near = [sorted(range(1, items), key=lambda item: abs(work[item] - part)) for part in shares]
        limits = [len(row) - 1 for row in near]
        everywhere = chain.from_iterable(_places(total, limits) for total in range(sum(map(len, near))))
        chosen = ([row[at] for row, at in zip(near, places, strict=True)] for places in everywhere)
        rising = (start for start in chosen if all(one < other for one, other in pairwise(start)))
        return [[0, *start, items] for start in islice(rising, MOST_STARTS)]

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost; None if there is none, or none was found."""
        limits, room = self.task.limits(cost), self.task.room or [0] * self.count
        if not self.task.may_hold(limits):
            return None
        self.limits, self.room = ([of[holder] for holder in self.order] for of in (limits, room))
        # what the holders from one on may have together, and room
        self.spare, self.roomy = ([*accumulate(of[::-1], initial=0)][::-1] for of in (self.limits, self.room))
        self.looked = self.most
        for start in self.starts:
            found = self._cut(start)
            if found is not None or self.looked <= 0:
                return found
        return None

    def _cut(self, start: Sequence[int]) -> Ends | None:
        """Return a cut whose lanes begin at these items, None if there is none."""
        gaps, bounds = pairwise(start), list[tuple[int, int]]()  # of each lane; two that meet share theirs
        for meets in self.meets:
            bounds.append(bounds[-1] if meets else next(gaps))
        if any(right - left < bounds.count((left, right)) * self.count for left, right in bounds):
            return None
        self.bounds, failed = bounds, set[tuple[int, State]]()
        path = [tuple(right if back else left for back, (left, right) in zip(self.back, bounds, strict=True))]
        options = [self._next(0, path[0])]
        while options:
            following = next(options[-1], None)
            if following is None or self.looked <= 0:
                failed.add((len(options) - 1, path.pop()))
                options.pop()
            elif len(options) == self.count:
                places = zip(*path, following, strict=True)  # of each lane
                ways = (at[-2::-1] if back else at[1:] for back, at in zip(self.back, places, strict=True))
                return [*chain.from_iterable(ways)]
            elif (len(options), following) not in failed:
                path.append(following)
                options.append(self._next(len(options), following))
        return None

    def _next(self, number: int, state: State) -> Iterator[State]:
        """Yield how far the lanes may come with one holder more."""
        needed = self._remaining(state, self.work) - self.spare[number + 1]
        filling = 0 if self.held is None else self._remaining(state, self.held) - self.roomy[number + 1]
        if needed <= self.limits[number] and filling <= self.room[number]:
            yield from self._moved(number, state, (), self.limits[number], self.room[number], needed, filling)

    def _remaining(self, state: State, sums: Sequence[int]) -> int:
        """Return what the lanes have of some sums beyond where they are: all that is not cut yet."""
        total = 0
        for at, (left, right), back, meets in zip(state, self.bounds, self.back, self.meets, strict=True):
            total += sums[at] - sums[left] if back else sums[right] - sums[at]
            if meets:  # both count what is between the two, and what is beyond the other
                total -= sums[right] - sums[left]
        return total

    def _moved(
        self, number: int, state: State, moved: State, limit: int, room: int, needed: int, filling: int
    ) -> Iterator[State]:
        """Yield where the lanes may be behind a holder, of which the first are `moved`.

        Of work and memory it may take `limit` and `room` more, and has to take `needed` and `filling`.
        """
        lane = len(moved)
        if lane == len(state):
            yield moved
            return
        work, at, back = self.work, state[lane], self.back[lane]
        self.looked -= 1
        for end in self._ends_of(number, state, moved, needed, filling):
            begin, behind = (end, at) if back else (at, end)
            used = work[behind] - work[begin]
            held = 0 if self.held is None else self.held[behind] - self.held[begin]
            if used > limit or held > room:
                return
            left = (limit - used, room - held, needed - used, filling - held)
            yield from self._moved(number, state, (*moved, end), *left)

    def _ends_of(self, number: int, state: State, moved: State, needed: int, filling: int) -> range:
        """Return how far the lane behind `moved` may come, nearest first; the holders behind have an item each."""
        lane = len(moved)
        at, back, behind = state[lane], self.back[lane], self.count - 1 - number
        left, right = self.bounds[lane]
        meets, is_met = self.meets[lane], lane + 1 < len(state) and self.meets[lane + 1]
        if meets:
            left = moved[lane - 1]
        elif is_met:
            right = state[lane + 1] - behind - 1
        far, near = (left + behind, at - 1) if back else (right - behind, at + 1)
        if not behind:  # it takes what is left; of two lanes that meet the first one item
            near = near if is_met else left if back else right
            return range(near, near + (left <= near <= right))
        if lane == len(state) - 1:  # the last lane takes at least what the holder still has to take
            for sums, least in ((self.work, needed), (self.held or (), filling)):
                if least > 0 and back:
                    near = min(near, bisect_right(sums, sums[at] - least) - 1)
                elif least > 0:
                    near = max(near, bisect_left(sums, sums[at] + least))
        return range(near, far - 1, -1) if back else range(near, far + 1)


def _places(total: int, limits: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of this sum, each up to its limit."""
    if len(limits) == 1:
        yield from [[total]] * (total <= limits[0])
        return
    for first in range(min(total, limits[0]) + 1):
        yield from ([first, *rest] for rest in _places(total - first, limits[1:]))

"""Layouts: how many of a model's layers each stage has. Equal counts, or the exact least largest work of a device."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise, starmap
from typing import NamedTuple

from pipesched.pipeline.cutting.runs import CutTask, least_cut
from pipesched.pipeline.layers import WORK, Layers, least_counts
from pipesched.pipeline.memory import SIZES, Memory
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.quantities import Exact, grains_per_unit, to_fraction


class Group(NamedTuple):
    """The stages that share devices, those of one device, or of two that mirror each other; and those devices."""

    stages: Sequence[int]
    devices: Sequence[int]


def equal_layout(count: int, least: Sequence[int]) -> tuple[int, ...]:
    """Return `count` layers in equal numbers; where these cannot be, the first stages have one more.

    `least` are the fewest layers of each stage (see least_counts), which are no more than `count` together.
    """
    each, more = divmod(count, len(least))
    if each:
        return tuple(each + (stage < more) for stage in range(len(least)))
    spare = count - sum(least)
    return tuple(1 if number or (stage == 0 and spare) else 0 for stage, number in enumerate(least))


def balanced_layout(
    layers: Layers, placement: Placement, microbatches: int, memory: Memory, speeds: Sequence[Fraction] | None = None
) -> tuple[int, ...]:
    """Return the layout with the least largest work of a device, by its speed (None: all 1).

    Of alike layers it is one with the least largest stage; the first of alike stages have more layers, since they begin
    first and end last. Of layers that differ, where devices have several stages and there are very many cuts, the work
    is at most 1.005 times the least. Memory is kept where it can be: with one stage a device, the best layout is taken
    with which 1F1B fits the budget; if there is none, or for other placements, the best with which every device has
    memory for one microbatch; if there is none, the best of all. There must be enough layers for every stage to have
    something to do.
    """
    groups = _groups(placement)
    if not layers.layer.is_cut_by_counts:
        return _by_items(layers, groups, memory, _in_flight(placement, microbatches), speeds)
    slowness = [Fraction(1) if speeds is None else _slowness(group, speeds) for group in groups]
    for in_flight in _in_flight(placement, microbatches):
        layout = _least_largest(layers, groups, _most_layers(layers, groups, memory, in_flight), slowness)
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
    for budget, flying in ways:
        ends = least_cut(_task(layers, groups, budget, flying, speeds))
        if ends is not None:
            before = 0 if layers.first.is_nothing else 1
            inner = (end - before for end in ends[:-1])
            return tuple(end - begin for begin, end in pairwise((0, *inner, layers.count)))
    return layers.layout


def _task(
    layers: Layers,
    groups: Sequence[Group],
    budget: Sequence[Exact] | None,
    flying: Sequence[int],
    speeds: Sequence[Fraction] | None,
) -> CutTask:
    """Return what is to be cut, in integers."""
    items = {key: _items(layers, key) for key in (*WORK, *SIZES)}
    work = [sum(parts, Fraction(0)) for parts in zip(*(items[key] for key in WORK), strict=True)]
    slowness = [_slowness(group, speeds) for group in groups]
    limits = [] if budget is None else [min(to_fraction(budget[device]) for device in its) for _, its in groups]
    scale = grains_per_unit([*items["static"], *items["activation"], *limits])
    holders = {stage: number for number, (stages, _) in enumerate(groups) for stage in stages}

    def sums(values: Sequence[Fraction], scale: int) -> tuple[int, ...]:
        return tuple(accumulate((int(value * scale) for value in values), initial=0))

    return CutTask(
        work=sums(work, grains_per_unit(work)),
        static=sums(items["static"], scale),
        activation=sums(items["activation"], scale),
        holders=tuple(holders[stage] for stage in range(len(holders))),
        weights=tuple(int(one * grains_per_unit(slowness)) for one in slowness),
        room=None if budget is None else tuple(int(limit * scale) for limit in limits),
        flying=tuple(flying),
    )


def _items(layers: Layers, key: str) -> list[Fraction]:
    """Return what each item has: what stands before the layers, each layer, what stands behind them."""
    first, last = ([] if part.is_nothing else [part.amount(key)] for part in (layers.first, layers.last))
    return [*first, *(end - begin for begin, end in pairwise(layers.layer.sums(key, layers.count))), *last]


def largest_work(
    layers: Layers, placement: Placement, speeds: Sequence[Fraction] | None = None
) -> tuple[int, Fraction]:
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


def _most_layers(layers: Layers, groups: Sequence[Group], memory: Memory, in_flight: Sequence[int]) -> list[int]:
    """Return how many layers each group has memory for; -1 where not even what is beside the layers fits."""
    if memory.budget is None:
        return [layers.count] * len(groups)
    stages, most = len(layers.layout), []
    for group, devices in groups:
        left = min(to_fraction(memory.budget[device]) for device in devices)
        for stage in group:
            left -= layers.beside(stage, stages, "static")
            left -= in_flight[stage] * layers.beside(stage, stages, "activation")
        held = max(in_flight[stage] for stage in group)
        each = layers.layer.amount("static") + held * layers.layer.amount("activation")
        most.append(-1 if left < 0 else _times(left, each, layers.count))
    return most


def _times(amount: Fraction, each: Fraction, most: int) -> int:
    """Return how often `each` goes into an amount, at most `most` times."""
    return min(most, int(amount / each)) if each else most


def _least_largest(
    layers: Layers, groups: Sequence[Group], most: Sequence[int], slowness: Sequence[Fraction]
) -> tuple[int, ...] | None:
    """Return the best layout with no more layers in a group than `most`; None if there is none.

    First whole groups are filled, which gives the largest work; then their stages, with no more than that in any group.
    """
    stages, each = len(layers.layout), layers.layer.work
    least = least_counts(stages, layers.first, layers.last)
    beside = [sum((layers.beside(n, stages, key) for key in WORK), Fraction(0)) for n in range(stages)]
    start = [sum(least[stage] for stage in group) for group, _ in groups]
    own = [sum((beside[stage] for stage in group), Fraction(0)) for group, _ in groups]
    numbers = [*range(len(groups))]
    by_speed = [work * slow for work, slow in zip(own, slowness, strict=True)]
    filled = _spread(layers.count, start, by_speed, [each * slow for slow in slowness], numbers, most)
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
    """Return `count` layers over parts that have `start` of them, each next one to where the least work is with it.

    No group has more than its `most`; None where that cannot be. Since the layers are alike, the largest part is the
    least possible: an exchange of layers between two parts cannot lower it.
    """
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

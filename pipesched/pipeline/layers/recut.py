"""The same model as other stages: layers cut anew or fused, open cuts, and what balance could gain.

Families ask for `fitted_to`, solves for `settled` and `open_cut`, each of a Problem; both cut by `recut`, or `fuse`. A
`cutter` is a model on GPUs, which cuts itself. From `is_cut_open` on stands what a search of the best cut needs: its
items, and `cut_at`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb
from typing import Any, TypeVar

from pipesched.core.arrays import total
from pipesched.errors import NotApplicable
from pipesched.pipeline.layers.cutting import CutItems, balanced_layout, beside_layers, item_amounts, largest_work
from pipesched.pipeline.layers.layers import (
    BALANCED,
    BEST,
    GIVEN,
    PARTS,
    TIMES,
    WORK,
    LayerCosts,
    Layers,
    equal_layout,
    least_counts,
    summed,
    weighed_mean,
)
from pipesched.pipeline.layers.layout_text import StageItems
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import SideItem, divisors
from pipesched.pipeline.problem.costs import AVERAGED, HALVES, SIZES, STATIC_PARTS, Costs, Entry, added
from pipesched.pipeline.problem.placement import Placement, named_placement
from pipesched.pipeline.problem.problem import NO_STEP, Problem
from pipesched.pipeline.problem.quantities import Exact, to_fraction
from pipesched.pipeline.problem.units import SHARED, Shares, shares_of

Record = TypeVar("Record", Costs, LayerCosts)
MOST_KNOWN = 2**53  # cuts that are counted


def fuse(problem: Problem, stages: int) -> Problem:
    """Return `problem` with its stages merged into `stages` equal contiguous groups, and its placement left open.

    Costs, activations and static memory add up; the p2p latencies inside a group are dropped, and side work goes into
    the groups of its stages. Raises NotApplicable when the groups cannot be equal.
    """
    if stages == problem.stages:
        return problem
    if problem.stages % stages:
        raise NotApplicable(
            f"needs a multiple of {stages} stages to fuse into {stages}; there are {problem.stages}", "stages"
        )
    size, costs, memory, layers = problem.stages // stages, problem.costs, problem.memory, problem.layers
    groups = [slice(first, first + size) for first in range(0, problem.stages, size)]
    times = {key: column for key in TIMES if (column := getattr(costs, key)) is not None}
    fused: dict[str, Any] = {key: tuple(added(column[group]) for group in groups) for key, column in times.items()}
    held: dict[str, Any] = {key: tuple(added(getattr(memory, key)[group]) for group in groups) for key in SIZES}
    for key in AVERAGED:
        parts = getattr(memory, key)
        held[key] = parts[:stages] if len({*parts}) == 1 else _means(parts, memory.activation, problem, groups)
    of_slices = dict[str, Any]()
    for key in SHARED:  # the parts of the work of a group are means, weighed by the work of each
        rows: tuple[Shares, ...] = getattr(problem.slices, key)
        if len(rows) > 1:
            columns = [_means(column, times[key], problem, groups) for column in zip(*rows, strict=True)]
            of_slices[key] = tuple(shares_of(mean, problem.slices.tokens) for mean in zip(*columns, strict=True))
    if layers is not None:
        items = tuple(StageItems(*map(sum, zip(*layers.items[group], strict=True))) for group in groups if layers.items)
        layers = replace(layers, layout=tuple(sum(layers.layout[group]) for group in groups), items=items)
    return replace(
        problem,
        stages=stages,
        placement=None,
        costs=replace(costs, **fused, p2p=costs.p2p[size - 1 :: size], resolution=problem.ticks.per_unit),
        slices=replace(problem.slices, **of_slices),
        memory=replace(memory, **held),
        layers=layers,
        side=_side_into(problem, stages) if problem.side else (),
    )


def _means(
    parts: Sequence[Exact], weights: Sequence[Entry], problem: Problem, groups: Sequence[slice]
) -> tuple[Exact, ...]:
    """Return the mean of parts in each group, each weighed by what it is of, over all microbatches."""
    rows = ((one, 1) if isinstance(one, tuple) else ((one,), problem.microbatches) for one in weights)
    sums = [sum(map(to_fraction, row), Fraction(0)) * count for row, count in rows]
    weighed = [*zip(sums, map(to_fraction, parts), strict=True)]
    return tuple(weighed_mean(weighed[group]) for group in groups)


def _side_into(problem: Problem, stages: int) -> tuple[SideItem, ...]:
    """Return the side work of a problem with another number of stages: each item goes into the same part of them."""
    return tuple(replace(item, into=item.into * stages // problem.stages) for item in problem.side)


def can_be_cut(problem: Problem) -> bool:
    """Return whether the stages of a problem may be cut anew.

    It has no placement yet, and layers without a given layout, or a model that it was derived from.
    """
    has_layers = problem.layers is not None and problem.layers.rule != GIVEN
    return (has_layers or problem.cutter is not None) and problem.placement is None


def recut(problem: Problem, placement: Placement) -> Problem:
    """Return `problem`, which can be cut anew, cut for a placement, which it then has: `best` as `balanced`.

    Raises NotApplicable where some stage would have nothing to do.
    """
    if problem.cutter is not None:
        return problem.cutter.cut(problem, placement)
    layers, stages = problem.layers, len(placement.devices)
    assert layers is not None  # can_be_cut
    least = least_counts(stages, layers.first, layers.last)
    if layers.count < sum(least):
        raise NotApplicable(
            f"{stages} stages need at least {sum(least)} layers; the model has {layers.count}", "layers"
        )
    layers = replace(layers, layout=equal_layout(layers.count, least))
    if layers.rule in (BEST, BALANCED):
        weighed = layers.weighed(problem.units)
        parts: dict[str, Any] = {}  # whose `static` is all that stays of them, as cuts count it against a budget
        for key in PARTS:
            part: LayerCosts = getattr(weighed, key)
            if any(getattr(part, size) for size in STATIC_PARTS):
                left = [
                    summed([getattr(part, size)], Fraction(1, by)) for size, by in divisors(problem.sharding).items()
                ]
                stays: dict[str, Any] = {**dict.fromkeys(STATIC_PARTS, 0), "static": summed(left)}
                parts[key] = replace(part, **stays)
        weighed = replace(weighed, **parts)
        layout = balanced_layout(weighed, placement, problem.microbatches, problem.memory, speeds_of(problem))
        layers = replace(layers, layout=layout)
    return _made_of(layers, problem, stages=stages, placement=placement, layers=layers)


def fitted_to(problem: Problem, placement: Placement) -> Problem:
    """Return `problem` on a placement: cut for it if it may be cut anew, else fused to its number of stages; one each.

    Raises NotApplicable where the groups of stages cannot be equal, or some stage would have nothing to do, and for a
    second copy of the stages in a problem with a step.
    """
    if len(placement.ways) > 1 and problem.has_step:
        raise NotApplicable(NO_STEP, "placement")
    if placement not in problem.known:
        made = recut(problem, placement) if can_be_cut(problem) else fuse(problem, len(placement.devices))
        problem.known[placement] = replace(made, placement=placement)
    found: Problem = problem.known[placement]
    return found


def settled(problem: Problem, placement: Placement) -> Problem:
    """Return `problem` with its number of stages on a placement, for which they are cut anew if they may be."""
    return recut(problem, placement) if can_be_cut(problem) else replace(problem, placement=placement)


def one_way(problem: Problem, *, split: bool) -> Problem:
    """Return `problem` with its backward as halves alone, or whole: the other way then follows from that."""

    def alone(given: Record) -> Record:
        whole = given.whole
        if whole is None:
            return given
        half: Any = whole if split else summed([whole], Fraction(1, 2))
        changed: dict[str, Any] = {"whole": None} | ({} if split else dict.fromkeys(HALVES, half))
        return replace(given, **changed)

    layers = problem.layers
    if layers is not None:
        layers = replace(layers, **{key: alone(getattr(layers, key)) for key in PARTS})
    return replace(problem, costs=replace(alone(problem.costs), split=split), layers=layers)


def opened(problem: Problem) -> Problem:
    """Return `problem` with its placement left open, and the stages that it has, for which no other cut is found."""
    layers = None if problem.layers is None else replace(problem.layers, rule=GIVEN)
    return replace(problem, placement=None, layers=layers, cutter=None)


def balanced_for(problem: Problem) -> Problem:
    """Return `problem` with the layout that its rule finds for its placement (left open: for loop, or linear).

    The placement stays open where it was. Layers without a rule stay as they are, and too few for so many stages.
    """
    layers = problem.layers
    if layers is None or layers.rule == GIVEN:
        return problem
    if problem.placement is None and layers.count < sum(least_counts(problem.stages, layers.first, layers.last)):
        return problem  # who asks for so many stages says that
    placement = problem.placement or _likely_placement(problem.devices, problem.stages)
    return replace(recut(problem, placement), placement=problem.placement)


def cut_again(problem: Problem) -> Problem:
    """Return `problem` with its stages cut for its budget, on the placement that it has, if a rule cuts them."""
    if problem.cutter is not None and problem.placement is not None:
        return recut(replace(problem, placement=None), problem.placement)
    return balanced_for(problem)


def open_cut(problem: Problem, stages: int) -> Problem:
    """Return `problem`, whose layers may be cut anew, cut into a number of stages; its placement stays open.

    Raises NotApplicable where some stage would have nothing to do.
    """
    return replace(recut(problem, _likely_placement(problem.devices, stages)), placement=None)


def _likely_placement(devices: int, stages: int) -> Placement:
    """Return the placement for which stages are cut while none is known."""
    return named_placement("linear" if stages % devices else "loop", devices, stages)


def _made_of(layers: Layers, problem: Problem, /, **others: Any) -> Problem:
    """Return `problem` with the costs and the memory that a layout of layers makes, and with these `others`.

    Of its own one latency, the split of the backward, budget, unit, and parts that all stages have alike stay.
    """
    costs, memory, stages, latencies = problem.costs, problem.memory, len(layers.layout), layers.latencies
    times: dict[str, Any] = {key: None if getattr(layers.layer, key) is None else layers.amounts(key) for key in TIMES}
    p2p = (costs.p2p[0] if costs.p2p else 0,) * (stages - 1) if latencies is None else latencies
    shares: dict[str, Any] = {key: layers.shares(key) or (getattr(memory, key)[0],) * stages for key in AVERAGED}
    sizes: dict[str, Any] = {key: layers.amounts(key) for key in SIZES}
    return replace(
        problem,
        costs=replace(costs, **times, p2p=p2p, resolution=layers.resolution),
        memory=replace(memory, **shares, **sizes),
        side=problem.side if stages == problem.stages else _side_into(problem, stages),
        **others,
    )


def speeds_of(problem: Problem) -> list[Fraction] | None:
    """Return the speed of each device, by which cuts weigh their work; None where all have 1."""
    return None if problem.speed is None else [*map(to_fraction, problem.speed)]


def saved_by_moving(schedule: Schedule) -> Fraction:
    """Return by how many ticks less the bottleneck works at best, once work of one stage has moved away from it.

    That is one layer, where the layers are known, which goes to the device with the least work; where they differ, it
    is the layer at either edge of a stage that saves most, and goes to the next stage. Else it is its smallest stage,
    and of a single stage any part of it. The bottleneck then works as long as the next device, as the mean of all, or
    as without that stage: the longest of these.
    """
    problem, device, works = schedule.problem, schedule.bottleneck, schedule.useful_ticks
    others = [work for there, work in enumerate(works) if there != device]
    if problem.layers is not None and not problem.layers.layer.is_cut_by_counts:
        placement, speeds, layers = problem.settled_placement, speeds_of(problem), problem.layers
        least = layers.layout if layers.items else least_counts(problem.stages, layers.first, layers.last)
        layers = layers.weighed(problem.units)
        largest = [largest_work(layers, placement, speeds)[1]]
        for stage, there in ((stage, stage + step) for stage in placement.stages_on(device) for step in (-1, 1)):
            layout = [*layers.layout]
            if 0 <= there < problem.stages and layout[stage] > least[stage]:
                layout[stage] -= 1
                layout[there] += 1
                largest.append(largest_work(replace(layers, layout=tuple(layout)), placement, speeds)[1])
        return (largest[0] - min(largest)) * problem.microbatches * problem.ticks.per_unit
    if problem.layers is not None:
        count = problem.microbatches // len(problem.settled_placement.ways)  # of which a device runs layers
        factors = problem.units.factors("work")[:count]
        layer = int(problem.layers.layer.work * problem.ticks.per_unit * sum(factors, Fraction(0)))
        after = max([works[device] - layer, *others, min(others) + layer]) if others else works[device]
        return Fraction(max(works[device] - after, 0))
    stages, model = problem.settled_placement.stages_on(device), problem.model
    # what the device works on each, of which it may run half of the microbatches
    each = [
        sum(total(model.ticks[cost][stage, model.where[stage] == device]) for cost in ("forward", "backward"))
        for stage in stages
    ]
    left = works[device] - min(each) if len(stages) > 1 else 0
    return works[device] - max(Fraction(max([left, *others])), Fraction(sum(works), problem.devices))


def balance(problem: Problem) -> tuple[int, Fraction, Fraction] | None:
    """Return the device with the largest work on the mean microbatch, that work, and the largest with equal counts.

    None where it is not given by layers, where losses stand on several stages, and where equal counts cannot be.
    """
    if problem.layers is None or problem.layers.items:
        return None
    layers, placement, speeds = problem.layers.weighed(problem.units), problem.settled_placement, speeds_of(problem)
    device, work = largest_work(layers, placement, speeds)
    least = least_counts(problem.stages, layers.first, layers.last)
    if layers.count < sum(least):
        return None
    counts = equal_layout(layers.count, least)
    return device, work, largest_work(replace(layers, layout=counts), placement, speeds)[1]


def is_cut_open(problem: Problem) -> bool:
    """Return whether a solve may choose which layers make a stage: no layout is given, and not equal counts."""
    if problem.cutter is not None:
        return problem.cutter.is_open
    return problem.layers is not None and problem.layers.rule in (BEST, BALANCED)


def seeks_best(problem: Problem) -> bool:
    """Return whether a run looks for the cut of least makespan under its algorithm."""
    if problem.cutter is not None:
        return problem.cutter.seeks_best
    return problem.layers is not None and problem.layers.rule == BEST


def kinds_of_items(problem: Problem) -> Sequence[object]:
    """Return what each item is, in all that counts in a stage; of alike items that is the same."""
    if problem.cutter is not None:
        return problem.cutter.kinds
    layers = problem.layers
    assert layers is not None  # is_cut_open
    listed = [getattr(layers.layer, key) for key in layers.layer.lengths]
    inside = zip(*listed, strict=True) if listed else [()] * layers.count
    return [*beside_layers(layers.first), *inside, *beside_layers(layers.last)]


def all_cuts(problem: Problem) -> int | None:
    """Return the number of all cuts of a problem whose cut is open; None above 2^53."""
    count = comb(len(kinds_of_items(problem)) - 1, problem.stages - 1)
    return count if count <= MOST_KNOWN else None


def at_spans(problem: Problem, spans: Sequence[tuple[int, int]]) -> Problem:
    """Return `problem`, on its placement, with stages of these items, which need not stand side by side.

    Only its tables by stage count: what its layers are is that of `problem`.
    """
    if problem.cutter is not None:
        return problem.cutter.at_spans(problem, spans)
    layers = problem.layers
    assert layers is not None  # is_cut_open
    first = len(beside_layers(layers.first))
    other = layers.at([tuple(min(max(end - first, 0), layers.count) for end in span) for span in spans])  # type: ignore[misc]
    return _made_of(other, problem)


def layers_before(problem: Problem) -> list[int]:
    """Return how many layers the first 0, 1, .. items are."""
    if problem.cutter is not None:
        return problem.cutter.layers_before
    layers = problem.layers
    assert layers is not None  # is_cut_open
    first, last = (len(beside_layers(part)) for part in (layers.first, layers.last))
    return [*[0] * first, *range(layers.count + 1), *[layers.count] * last]


def items_of(problem: Problem) -> CutItems:
    """Return the items of a problem whose cut is open: what stands beside the layers is the first and the last one."""
    if problem.cutter is not None:
        return problem.cutter.cut_items(problem)
    layers, costs, memory = problem.layers, problem.costs, problem.memory
    assert layers is not None  # is_cut_open
    forward, gradient, weight = (item_amounts(layers, key) for key in WORK)
    whole = [one + other for one, other in zip(gradient, weight, strict=True)]
    whole = whole if layers.layer.whole is None else item_amounts(layers, "whole")
    is_either = costs.split and layers.layer.whole is not None
    if is_either:  # the least of both ways, up to the gradient and in all; where microbatches differ it is not told
        known = zip(whole, gradient, weight, strict=True)
        least = [(min(one, own), min(one, own + other)) for one, own, other in known]
        least = [(Fraction(0), Fraction(0))] * len(least) if layers.layer.is_table else least
        gradient, weight = [own for own, _ in least], [both - own for own, both in least]
    activation, latency = item_amounts(layers, "activation"), to_fraction(costs.p2p[0] if costs.p2p else 0)
    inside = [latency] * (layers.count - 1) if layers.p2p is None else [*map(to_fraction, layers.p2p)]
    outside = latency if layers.p2p is None else Fraction(0)
    before, behind = (inside[0], inside[-1]) if inside else (outside, outside)
    if layers.layer.retain is None:
        retain = [to_fraction(memory.retain[0])] * len(activation)
    else:
        retain = item_amounts(layers, "retain")
    most = Fraction(1) if is_either else max(retain)
    retained = [size * min(part, most) for size, part in zip(activation, retain, strict=True)]
    return CutItems(
        forward=forward,
        gradient=gradient if costs.split else whole,
        weight=weight if costs.split else [Fraction(0)] * len(whole),
        pair=None if costs.overlap is None else item_amounts(layers, "overlap"),
        p2p=[before] * len(beside_layers(layers.first)) + inside + [behind] * len(beside_layers(layers.last)),
        static=item_amounts(layers, "static"),
        held=[activation, retained] if costs.split else [activation],
    )


def ends_of(problem: Problem) -> tuple[int, ...]:
    """Return the item behind each stage."""
    if problem.cutter is not None:
        return problem.cutter.ends
    assert problem.layers is not None  # is_cut_open
    first, last = (len(beside_layers(part)) for part in (problem.layers.first, problem.layers.last))
    *ends, end = accumulate(problem.layers.layout)
    return (*(first + one for one in ends), first + end + last)


def cut_at(problem: Problem, ends: Sequence[int]) -> Problem:
    """Return `problem`, on its placement, with stages that end before these items."""
    if problem.cutter is not None:
        made = problem.cutter.cut_at(problem, ends)
        return replace(made, costs=replace(made.costs, split=problem.costs.split))
    layers = problem.layers
    assert layers is not None  # is_cut_open
    first, count = len(beside_layers(layers.first)), layers.count
    places = [min(max(end - first, 0), count) for end in (0, *ends)]
    layers = replace(layers, layout=tuple(end - begin for begin, end in pairwise(places)))
    return _made_of(layers, problem, layers=layers)


def with_layout(problem: Problem, layout: Sequence[int]) -> Problem:
    """Return `problem`, whose layers may be cut anew, with a layout that is given, for any number of stages."""
    assert problem.layers is not None  # can_be_cut
    layers = replace(problem.layers, layout=tuple(layout), rule=GIVEN)
    return _made_of(layers, problem, stages=len(layout), layers=layers)


def layout_of(problem: Problem) -> tuple[int, ...]:
    """Return the layers of each stage of a problem whose cut is open."""
    if problem.cutter is not None:
        return problem.cutter.layers_of_stages
    assert problem.layers is not None  # is_cut_open
    return problem.layers.layout


def work_of_largest(problem: Problem) -> int:
    """Return the ticks of the device with the most work, of all its microbatches, divided by the number of all."""
    model = problem.model
    work = model.ticks["forward"] + model.ticks["backward"]
    return max(int(work[model.where == device].sum()) for device in range(problem.devices)) // model.microbatches

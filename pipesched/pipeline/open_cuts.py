"""Cuts that are open: whether a problem's are, its items, and the problem on another cut of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

from pipesched.pipeline.cutting.items import CutItems
from pipesched.pipeline.layers import BALANCED, LayerCosts, Layers
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.recut import costs_of, memory_of


def is_cut_open(problem: Problem) -> bool:
    """Return whether a solve may choose which layers make a stage: no layout is given, and not equal counts."""
    if problem.cutter is not None:
        return problem.cutter.is_open
    return problem.layers is not None and problem.layers.rule == BALANCED


def items_of(problem: Problem) -> CutItems:
    """Return the items of a problem whose cut is open: what stands beside the layers is the first and the last one."""
    if problem.cutter is not None:
        return problem.cutter.cut_items(problem)
    layers, costs, memory = problem.layers, problem.costs, problem.memory
    assert layers is not None  # is_cut_open
    times = {key: _items(layers, key) for key in ("forward", "backward_input", "backward_weight")}
    halves = zip(times["backward_input"], times["backward_weight"], strict=True)
    whole = [one + other for one, other in halves]
    activation = _items(layers, "activation")
    if layers.layer.retain is None:
        retain = [to_fraction(memory.retain[0])] * len(activation)
    else:
        retain = _items(layers, "retain")
    retained = [size * part for size, part in zip(activation, retain, strict=True)]
    return CutItems(
        forward=times["forward"],
        gradient=times["backward_input"] if costs.split else whole,
        weight=times["backward_weight"] if costs.split else [Fraction(0)] * len(whole),
        pair=None if costs.overlap is None else _items(layers, "overlap"),
        p2p=_latencies(layers, to_fraction(costs.p2p[0] if costs.p2p else 0)),
        static=_items(layers, "static"),
        held=[activation, retained] if costs.split else [activation],
    )


def _items(layers: Layers, key: str) -> list[Fraction]:
    """Return what each item has of a field of LayerCosts."""
    inside = layers.layer.sums(key, layers.count)
    return [
        *(part.amount(key) for part in _beside(layers.first)),
        *(end - begin for begin, end in pairwise(inside)),
        *(part.amount(key) for part in _beside(layers.last)),
    ]


def _beside(part: LayerCosts) -> list[LayerCosts]:
    return [] if part.is_nothing else [part]


def _latencies(layers: Layers, latency: Fraction) -> list[Fraction]:
    """Return the latency of each boundary between items."""
    inside = [latency] * (layers.count - 1) if layers.p2p is None else [*map(to_fraction, layers.p2p)]
    outside = latency if layers.p2p is None else Fraction(0)
    first, last = (inside[0], inside[-1]) if inside else (outside, outside)
    return [first] * len(_beside(layers.first)) + inside + [last] * len(_beside(layers.last))


def ends_of(problem: Problem) -> tuple[int, ...]:
    """Return the item behind each stage."""
    if problem.cutter is not None:
        return problem.cutter.ends
    assert problem.layers is not None  # is_cut_open
    first, last = (len(_beside(part)) for part in (problem.layers.first, problem.layers.last))
    *ends, end = accumulate(problem.layers.layout)
    return (*(first + one for one in ends), first + end + last)


def cut_at(problem: Problem, ends: Sequence[int]) -> Problem:
    """Return `problem`, on its placement, with stages that end before these items."""
    if problem.cutter is not None:
        made = problem.cutter.cut_at(problem, ends)
        return replace(made, costs=replace(made.costs, split=problem.costs.split))
    layers = problem.layers
    assert layers is not None  # is_cut_open
    first, count = len(_beside(layers.first)), layers.count
    places = [min(max(end - first, 0), count) for end in (0, *ends)]
    layers = replace(layers, layout=tuple(end - begin for begin, end in pairwise(places)))
    return replace(
        problem, costs=costs_of(problem.costs, layers), memory=memory_of(problem.memory, layers), layers=layers
    )


def layout_of(problem: Problem) -> tuple[int, ...]:
    """Return the layers of each stage of a problem whose cut is open."""
    if problem.cutter is not None:
        return problem.cutter.layers_of_stages
    assert problem.layers is not None  # is_cut_open
    return problem.layers.layout


def largest_work(problem: Problem) -> int:
    """Return the ticks of a device with the most work on a microbatch."""
    return max(works_of(problem))


def works_of(problem: Problem) -> list[int]:
    """Return the ticks that each device works on a microbatch; in a mirrored placement it runs half of them."""
    works, count = [0] * problem.devices, problem.microbatches
    for microbatches, devices, ticks in problem.directions(count):
        for device, *times in zip(devices, ticks.forward, ticks.backward, strict=True):
            works[device] += sum(times) * len(microbatches) * problem.slices.count
    return [work // count for work in works]

"""What comes and goes beside activations: whole weights and gradients where they are sharded, and side work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import GRADIENTS, WEIGHTS

WHOLE_WEIGHTS, WHOLE_GRADIENTS, SIDE = "weights", "gradients", "side"


class Stay(NamedTuple):
    """What a device holds of a class from a start to an end, in ticks and grains."""

    device: int
    what: str
    start: int
    end: int
    grains: int


def stays(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Stay]:
    """Yield what comes and goes beside activations, by the times of all operations."""
    if problem.sharding.divides(WEIGHTS):
        yield from _weights(problem, plan, starts)
    if problem.sharding.divides(GRADIENTS):
        yield from _gradients(problem, plan, starts, ends)
    if problem.side:
        yield from _side(problem, plan, starts, ends)


def _weights(problem: Problem, plan: Plan, starts: Sequence[int]) -> Iterator[Stay]:
    """Yield the whole weights of each turn, from the start of UNSHARD to RESHARD."""
    there, sizes = problem.settled_placement.devices, problem.step_grains.weights
    for stage, (gathers, frees) in enumerate(zip(*map(plan.index.rows, ("UNSHARD", "RESHARD")), strict=True)):
        for gather, free in zip(gathers, frees, strict=True):
            yield Stay(there[stage], WHOLE_WEIGHTS, starts[gather], starts[free], sizes[stage])


def _gradients(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Stay]:
    """Yield whole gradients, from the start of the first B or W to the end of the reduction."""
    index, there, sizes = plan.index, problem.settled_placement.devices, problem.step_grains.gradients
    kinds = [kind for kind in "BW" if kind in index.letters]
    each = problem.sharding.reduces_each
    for stage, reductions in enumerate(index.rows("REDUCE_GRAD")):
        rows = [index.row(kind, stage) for kind in kinds]
        parts = [row[part :: index.slices] for row in rows for part in range(index.slices)]
        needed = zip(*parts, strict=True) if each else [[*chain(*rows)]] * len(reductions)
        for numbers, reduction in zip(needed, reductions, strict=False):
            first = min((starts[number] for number in numbers if starts[number] >= 0), default=0)
            yield Stay(there[stage], WHOLE_GRADIENTS, first, ends[reduction], sizes[stage])


def _side(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Stay]:
    """Yield activations of side work, and its outputs and their gradients on the device of the stage they go into."""
    index, grains, there = plan.index, problem.step_grains, problem.settled_placement.devices
    runs_on = {number: device for device, row in enumerate(plan.step_slots) for _, number in row}
    for number, item in enumerate(problem.side):
        forwards = index.row("E", number)
        backwards = index.row("G", number) if item.backward is not None else ()
        into, output, held = there[item.into], grains.side_output[number], grains.side_activation[number]
        used = index.row("F", item.into)[:: index.slices]
        for forward, last, use in zip(forwards, backwards or forwards, used, strict=False):
            yield Stay(runs_on.get(forward, into), SIDE, starts[forward], ends[last], held)
            yield Stay(into, SIDE, ends[forward], starts[use], output)
        for last, there_at in zip(backwards, _gradient_ends(plan, item.into, ends), strict=False):
            yield Stay(into, SIDE, there_at, starts[last], output)


def _gradient_ends(plan: Plan, stage: int, ends: Sequence[int]) -> Iterator[int]:
    """Yield when the input gradients of all slices of each microbatch are there."""
    index = plan.index
    rows = [index.row(kind, stage)[part :: index.slices] for kind in index.gradients for part in range(index.slices)]
    return (max(map(ends.__getitem__, numbers)) for numbers in zip(*rows, strict=True))

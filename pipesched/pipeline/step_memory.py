"""What comes and goes beside activations: whole weights and gradients where they are sharded, and side work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        for microbatch, reduction in enumerate(reductions):
            part = index.in_units(range(microbatch, microbatch + 1)) if each else slice(None)
            first = [starts[number] for row in rows for number in row[part] if starts[number] >= 0]
            yield Stay(there[stage], WHOLE_GRADIENTS, min(first, default=0), ends[reduction], sizes[stage])


def _side(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Stay]:
    """Yield activations of side work, and its outputs and their gradients on the device of the stage they go into."""
    index, grains, there = plan.index, problem.step_grains, problem.settled_placement.devices
    runs_on = {number: device for device, order in enumerate(plan.orders) for number in order if number >= index.passes}
    for number, item in enumerate(problem.side):
        forwards, backwards = index.row("E", number), index.row("G", number) if item.backward is not None else ()
        into, output = there[item.into], grains.side_output[number]
        for microbatch, forward in enumerate(forwards):
            last = backwards[microbatch] if backwards else forward
            held = grains.side_activation[number]
            yield Stay(runs_on.get(forward, into), SIDE, starts[forward], ends[last], held)
            used = index.row("F", item.into)[microbatch * index.slices]
            yield Stay(into, SIDE, ends[forward], starts[used], output)
            if backwards:
                yield Stay(into, SIDE, _gradient_end(plan, item.into, microbatch, ends), starts[last], output)


def _gradient_end(plan: Plan, stage: int, microbatch: int, ends: Sequence[int]) -> int:
    """Return when the input gradient of all slices of a microbatch is there."""
    index = plan.index
    part = index.in_units(range(microbatch, microbatch + 1))
    return max(ends[number] for kind in index.gradients for number in index.row(kind, stage)[part])

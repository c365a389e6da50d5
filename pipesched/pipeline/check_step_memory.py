"""What a step holds beside activations, for the check: restated from the problem and the times of its operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from pipesched.pipeline.check_program import level_is, reduces_each
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, to_fraction
from pipesched.pipeline.schedule import Schedule

Changes = tuple[Sequence[int], Sequence[int]]  # times in ticks, and what is taken then (less than 0: freed) in grains
DIVIDED_AT = {  # the levels that divide what a rank keeps of a stage
    "weights": ("weights",),
    "gradients": ("gradients", "weights"),
    "states": ("optimizer", "gradients", "weights"),
}


def step_changes(schedule: Schedule) -> Iterator[tuple[int, Changes]]:
    """Yield what comes and goes beside activations, each column with its device: takes or frees alone."""
    for device, first, last, sizes in (*_of_stages(schedule), *_of_side_work(schedule)):
        yield device, (first, sizes)
        yield device, (last, [-size for size in sizes])


Stays = tuple[int, list[int], list[int], list[int]]  # a device, when stays begin and end, and their sizes


def _of_stages(schedule: Schedule) -> Iterator[Stays]:
    """Yield whole weights from UNSHARD to RESHARD, and whole gradients from the first B or W to their reduction."""
    problem, index = schedule.problem, schedule.plan.index
    starts, ends = schedule.start_ticks, schedule.end_ticks
    for stage, device in enumerate(problem.settled_placement.devices):
        if level_is(problem, "weights"):
            gathers, frees = index.row("UNSHARD", stage), index.row("RESHARD", stage)
            whole = [_grains(schedule, problem.memory.weights[stage])] * len(gathers)
            yield device, [starts[n] for n in gathers], [starts[n] for n in frees], whole
        if level_is(problem, "gradients", "weights") and problem.mode == "train":
            rows = [index.row(kind, stage) for kind in "BW" if kind in index.letters]
            width = index.slices if reduces_each(problem) else index.units
            reductions = index.row("REDUCE_GRAD", stage)
            late = max(ends, default=0)  # what a plan lacks starts below 0
            columns = [starts[n] if starts[n] >= 0 else late for row in rows for n in row]
            firsts = [
                min(min(columns[at : at + width]) for at in range(first, len(columns), index.units))
                for first in range(0, index.units, width)
            ]
            size = _grains(schedule, problem.memory.gradients[stage])
            yield device, firsts, [ends[n] for n in reductions], [size] * len(reductions)


def _of_side_work(schedule: Schedule) -> Iterator[Stays]:
    """Yield activations of side work, its outputs until they are used, and the gradients of these until then."""
    problem, index = schedule.problem, schedule.plan.index
    starts, ends, slices = schedule.start_ticks, schedule.end_ticks, schedule.plan.index.slices
    places = problem.settled_placement.devices
    runs_on = {number: device for device, row in enumerate(schedule.plan.step_slots) for _, number in row}
    for side, item in enumerate(problem.side):
        forwards, into = index.row("E", side), places[item.into]
        held, output = _grains(schedule, item.activation), _grains(schedule, item.output)
        lasts = forwards if item.backward is None else index.row("G", side)
        for device in item.devices:
            here = [at for at, number in enumerate(forwards) if runs_on[number] == device]
            first, last = [starts[forwards[at]] for at in here], [ends[lasts[at]] for at in here]
            yield device, first, last, [held] * len(here)
        used = [starts[number] for number in index.row("F", item.into)[::slices]]
        yield into, [ends[number] for number in forwards], used, [output] * len(used)
        if item.backward is not None:
            rows = [index.row(kind, item.into)[part::slices] for kind in "BI" if kind in index.letters
                    for part in range(slices)]  # fmt: skip
            there = [max(map(ends.__getitem__, each)) for each in zip(*rows, strict=True)]
            yield into, there, [starts[number] for number in lasts], [output] * len(there)


def _grains(schedule: Schedule, size: Exact) -> int:
    return int(to_fraction(size) * schedule.problem.grains.per_unit)


def kept_of(problem: Problem, stage: int) -> Fraction:
    """Return what stays of the weights, the gradients and the optimizer states of a stage."""
    kept = Fraction(0)
    for key, levels in DIVIDED_AT.items():
        parts = problem.shard.ranks if problem.shard is not None and problem.shard.level in levels else 1
        kept += to_fraction(getattr(problem.memory, key)[stage]) / parts
    return kept

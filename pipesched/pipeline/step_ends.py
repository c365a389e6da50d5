"""What a step adds before and behind the passes of each stage at least, in every schedule: for lower bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import GRADIENTS, WEIGHTS
from pipesched.pipeline.units import FORWARD_ONLY


class StepEnds(NamedTuple):
    """Ticks by stage: before its first F, behind each of its B or W, and behind each of its input gradients.

    `reduced` is what follows the reduction of a stage at least, `updated` what follows that of all its gradients, tied
    ones included.
    """

    released: Sequence[int]
    behind_last: Sequence[int]
    behind_gradient: Sequence[int]
    reduced: Sequence[int] = ()
    updated: Sequence[int] = ()


def gathers(problem: Problem) -> bool:
    """Return whether the weights of stages are gathered."""
    return problem.costs.gather is not None or problem.sharding.divides(WEIGHTS)


def reduces(problem: Problem) -> bool:
    """Return whether the gradients of stages are reduced."""
    is_asked = problem.costs.reduce is not None or problem.sharding.divides(GRADIENTS)
    return is_asked and problem.mode != FORWARD_ONLY


def updates(problem: Problem) -> bool:
    """Return whether stages have optimizers."""
    return problem.costs.optimizer is not None and problem.mode != FORWARD_ONLY


def tied_stages(problem: Problem) -> tuple[int, ...]:
    """Return the first and the last stage where they reduce tied gradients between two devices."""
    there = problem.settled_placement.devices
    is_asked = problem.costs.tied is not None and problem.mode != FORWARD_ONLY
    return (0, problem.stages - 1) if is_asked and there[0] != there[-1] else ()


def step_ends(problem: Problem) -> StepEnds:
    """Return what the step of a problem adds; nothing, where it has none.

    Before the first F of a stage all stages of its device up to it are gathered, one after another, and side work into
    it has run. Behind the last B or W come its reduction, that of tied gradients, and optimizers: its own or, where
    gradients are clipped by their norm, those of any device.
    """
    count = problem.stages
    if not problem.has_step:
        return StepEnds(*[(0,) * count] * 3)
    ticks, ends = problem.step_ticks, tied_stages(problem)
    own = ticks.optimizer if updates(problem) else (0,) * count
    updated = [max(own[one] for one in ends) if stage in ends else own[stage] for stage in range(count)]
    if problem.clip:
        there = problem.settled_placement.devices
        slowest = max(sum(own[s] for s in range(count) if there[s] == device) for device in range(problem.devices))
        updated = [slowest] * count
    reduced = [after + (ticks.tied if stage in ends else 0) for stage, after in enumerate(updated)]
    lasts = ticks.reduce if reduces(problem) else (0,) * count
    behind = [time + after for time, after in zip(lasts, reduced, strict=True)]
    released, gradients = _gathered(problem), [0] * count
    for number, item in enumerate(problem.side):
        before, after = (least_side(problem, number, key) for key in ("forward", "backward"))
        released[item.into] = max(released[item.into], before)
        if item.backward is not None:
            gradients[item.into] = max(gradients[item.into], after)
    return StepEnds(released, behind, gradients, reduced, updated)


def _gathered(problem: Problem) -> list[int]:
    """Return when the weights of each stage can be there: behind those of earlier stages of its device."""
    found = [0] * problem.stages
    for device in range(problem.devices if gathers(problem) else 0):
        stages = problem.settled_placement.stages_on(device)
        for stage, ticks in zip(stages, accumulate(problem.step_ticks.gather[s] for s in stages), strict=True):
            found[stage] = ticks
    return found


def least_side(problem: Problem, number: int, key: str) -> int:
    """Return the least that side work of any microbatch takes before (or behind) the pass of its stage, in ticks."""
    item, ticks = problem.side[number], problem.step_ticks
    home = problem.settled_placement.devices[item.into]
    return min(
        ticks.side_lasts(key, number, microbatch, device) + (ticks.side_p2p[number] if device != home else 0)
        for device in item.devices
        for microbatch in distinct_microbatches(problem, number, key)
    )


def distinct_microbatches(problem: Problem, number: int, key: str) -> range:
    """Return microbatches among which are all times of an item's "forward" or "backward"."""
    times = getattr(problem.side[number], key)
    return range(problem.microbatches if times is not None and len(times) > 1 else 1)


def side_times(problem: Problem, number: int, key: str) -> Iterator[int]:
    """Yield for each microbatch the least that an item's "forward" or "backward" lasts on any of its devices."""
    devices, each = problem.side[number].devices, distinct_microbatches(problem, number, key)
    lasts = [
        min(problem.step_ticks.side_lasts(key, number, microbatch, device) for device in devices) for microbatch in each
    ]
    yield from lasts * (problem.microbatches // len(lasts))


def step_times(problem: Problem) -> Iterator[int]:
    """Yield all durations and latencies of a step that occur, in ticks."""
    ticks = problem.step_ticks
    yield from (*ticks.gather, *ticks.reduce, *ticks.optimizer, ticks.tied, *ticks.side_p2p)
    for number, item in enumerate(problem.side):
        for key in ("forward", "backward"):
            for microbatch in distinct_microbatches(problem, number, key):
                yield from (ticks.side_lasts(key, number, microbatch, device) for device in item.devices)

"""The smallest budget at which any order exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.errors import NoSchedule
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units


class Relief(NamedTuple):
    """What a schedule may do with an activation, besides keeping it, until its backward needs it."""

    offload: bool = False
    recompute: bool = False


KEEP = Relief()


def activation_floor(problem: Problem, device: int, relief: Relief = KEEP) -> int:
    """The activation memory, in grains, that a device needs for any order at all.

    The stage that runs needs its whole activation, while the earlier stages of the same device hold theirs of that
    microbatch: all of it, a checkpoint if it may be recomputed, nothing if it may be offloaded. A mirrored device
    serves each direction alone, one stage at a time.
    """
    home, count, sizes = problem.home(), problem.microbatches, problem.memory.activation
    if home.mirrored:
        first_and_last = (0, count - 1)  # one of each direction, if there are two
        used = [s for s in home.stages_on(device) if device in {home.device(s, m, count) for m in first_and_last}]
        return max((sizes[stage] for stage in used), default=0)
    floor = held = 0
    for stage in home.stages_on(device):
        floor = max(floor, held + sizes[stage])
        held += _held(problem, relief)[stage]
    return floor


def _held(problem: Problem, relief: Relief) -> Sequence[int]:
    """The least that each stage holds of a microbatch between its forward and its backward."""
    if relief.offload:
        return (0,) * problem.stages
    return problem.memory.checkpointed if relief.recompute else problem.memory.activation


def require_floor(problem: Problem, relief: Relief = KEEP) -> None:
    """Raise NoSchedule when a device's budget is below its floor, with what would make it fit."""
    scale, unit = problem.memory.scale, problem.memory.unit
    for device, room in enumerate(problem.room()):
        floor = activation_floor(problem, device, relief)
        if room is None or room >= floor:
            continue
        static = problem.static_memory(device)
        least = in_units(floor + static, scale)
        budget = in_units(room + static, scale)
        would_fit = [f"a budget of {least} {unit} on device {device}"]
        if _largest(problem, device) <= room and not problem.home().mirrored:
            would_fit.append("fewer stages a device")
        would_fit += _reliefs_that_fit(problem, room=room, device=device)
        raise NoSchedule(
            f"device {device} needs at least {least} {unit} for one microbatch, and its budget is {budget}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )


def _largest(problem: Problem, device: int) -> int:
    """The largest activation of a stage on a device, in grains: what the device must hold at least."""
    return max(problem.memory.activation[stage] for stage in problem.home().stages_on(device))


def _reliefs_that_fit(problem: Problem, *, device: int, room: int) -> list[str]:
    """The ways of `solve` to do with the room that a device has."""
    ways = [("recompute (solve --recompute)", Relief(recompute=True))]
    if problem.costs.offload is not None:
        ways.append(("offload (solve --offload)", Relief(offload=True)))
    return [text for text, relief in ways if activation_floor(problem, device, relief) <= room]

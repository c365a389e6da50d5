"""The smallest budget at which any order exists."""

from __future__ import annotations

from pipesched.errors import NoSchedule
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units


def activation_floor(problem: Problem, device: int) -> int:
    """The activation memory, in grains, that a device needs for any order at all: one of every stage that it holds.

    The last stage of a device runs its first forward while the earlier ones still hold that microbatch. A mirrored
    device serves each direction alone, one stage at a time.
    """
    home, count, sizes = problem.home(), problem.microbatches, problem.memory.activation
    if not home.mirrored:
        return sum(sizes[stage] for stage in home.stages_on(device))
    first_and_last = (0, count - 1)  # one of each direction, if there are two
    used = [s for s in home.stages_on(device) if device in {home.device(s, m, count) for m in first_and_last}]
    return max((sizes[stage] for stage in used), default=0)


def require_floor(problem: Problem) -> None:
    """Raise NoSchedule when a device's budget is below its floor, with what would make it fit."""
    scale, unit = problem.memory.scale, problem.memory.unit
    for device, room in enumerate(problem.room()):
        floor = activation_floor(problem, device)
        if room is None or room >= floor:
            continue
        static = problem.static_memory(device)
        least = in_units(floor + static, scale)
        budget = in_units(room + static, scale)
        would_fit = [f"a budget of {least} {unit} on device {device}"]
        if len(problem.home().stages_on(device)) > 1 and not problem.home().mirrored:
            would_fit.append("fewer stages a device")
        raise NoSchedule(
            f"device {device} needs at least {least} {unit} for one microbatch, and its budget is {budget}",
            device=device,
            floor=least,
            budget=budget,
            would_fit=would_fit,
        )

"""Which placements a budget allows at all, and if none, what would."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.errors import NoSchedule
from pipesched.pipeline.floor import KEEP, Relief, activation_floor, require_floor
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units


def feasible(problems: Sequence[Problem], relief: Relief = KEEP) -> list[Problem]:
    """Those of `problems` whose devices all have room for one microbatch. Raises NoSchedule when there is none."""
    reasons: dict[int, NoSchedule] = {}
    fitting = []
    for place, problem in enumerate(problems):
        try:
            require_floor(problem, relief)
            fitting.append(problem)
        except NoSchedule as reason:
            reasons[place] = reason
    if fitting:
        return fitting
    nearest = min(reasons, key=lambda place: least_budget(problems[place], relief))
    raise _with_ways_out(reasons[nearest], problems[nearest], relief)


def least_budget(problem: Problem, relief: Relief = KEEP) -> int:
    """The smallest budget, the same for every device, that any order can keep, in grains. List scheduling keeps it."""
    return max(
        activation_floor(problem, device, relief) + problem.static_memory(device) for device in range(problem.devices)
    )


def _with_ways_out(reason: NoSchedule, problem: Problem, relief: Relief) -> NoSchedule:
    """`reason` with what would fit: the smallest budget for all devices, and other ways to hold less."""
    least = in_units(least_budget(problem, relief), problem.memory.scale)
    ways = [f"a budget of {least} {problem.memory.unit} on every device, the smallest that any order can keep"]
    ways += [way for way in reason.would_fit if not way.startswith("a budget")]
    return NoSchedule(reason.reason, device=reason.device, floor=reason.floor, budget=reason.budget, would_fit=ways)

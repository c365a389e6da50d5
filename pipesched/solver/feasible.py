"""The cases of a solve, one for each placement that the budget allows; and if it allows none, which changes would."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.errors import NoSchedule, Remedy
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.least_capacity import least_capacity, require_least_capacity
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.solver.case import Case
from pipesched.solver.keeping import KeepingCase
from pipesched.solver.placements import placed
from pipesched.solver.policy import DEFAULT, SolvePolicy
from pipesched.solver.saving import SavingCase


def cases_of(
    problem: Problem,
    placement: str | Sequence[str] | None,
    objective: str,
    allowed: Allowed,
    policy: SolvePolicy = DEFAULT,
) -> list[Case]:
    """Return a case for each placement of `placed` on which one microbatch fits.

    Raises NoSchedule where none does, and ConfigError as `placed` does.
    """
    fitting = feasible(placed(problem, placement), allowed)
    if any(allowed):
        return [SavingCase(settled, objective, allowed, policy=policy) for settled in fitting]
    return [KeepingCase(settled, objective, policy=policy) for settled in fitting]


def feasible(problems: Sequence[Problem], allowed: Allowed = KEEP_ONLY) -> list[Problem]:
    """Return those of `problems` whose devices all hold one microbatch.

    Raises NoSchedule, with changes that would help, when there is none.
    """
    reasons: dict[int, NoSchedule] = {}
    fitting = []
    for number, problem in enumerate(problems):
        try:
            require_least_capacity(problem, allowed)
            fitting.append(problem)
        except NoSchedule as reason:
            reasons[number] = reason
    if fitting:
        return fitting
    nearest = min(reasons, key=lambda number: least_budget(problems[number], allowed))
    raise _with_alternatives(reasons[nearest], problems[nearest], allowed)


def least_budget(problem: Problem, allowed: Allowed = KEEP_ONLY) -> int:
    """Return the smallest budget, the same for every device, that any order fits, in grains.

    List scheduling fits it.
    """
    return max(
        least_capacity(problem, device, allowed) + problem.static_grains(device) for device in range(problem.devices)
    )


def _with_alternatives(reason: NoSchedule, problem: Problem, allowed: Allowed) -> NoSchedule:
    """Return `reason` with what would fit: the smallest budget for all devices, and the other changes of `reason`."""
    least = in_units(least_budget(problem, allowed), problem.grains.per_unit)
    text = f"a budget of {least} {problem.memory.unit} on every device, the smallest that any order can keep"
    would_fit = [Remedy(text, "budget"), *(one for one in reason.would_fit if one.key != "budget")]
    return NoSchedule(
        reason.reason, device=reason.device, floor=reason.floor, budget=reason.budget, would_fit=would_fit
    )

"""The error of a family that obeys a budget, and found no order within it beside what the step holds."""

from __future__ import annotations

from dataclasses import replace

from pipesched.errors import NoSchedule
from pipesched.pipeline.capacity import require_least_capacity
from pipesched.pipeline.check import over_budget
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.family import Family


def require_kept_budget(family: Family, schedule: Schedule, allowed: Allowed) -> None:
    """Raise NoSchedule where a family that obeys the budget has a schedule over it: the floor of a device, or how far.

    `allowed` says what its options did with activations.
    """
    if not family.obeys_budget or schedule.fits:
        return
    problem = schedule.problem
    if family.splits_backward:
        problem = replace(problem, costs=replace(problem.costs, split=True))
    require_least_capacity(problem, allowed)
    raise NoSchedule(
        f"{family.name} found no order that keeps the budget with what the step holds beside activations:"
        f" {over_budget(schedule)[0]}",
        device=schedule.over_budget[0],
    )

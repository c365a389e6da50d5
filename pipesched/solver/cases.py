"""The cases of a solve: a search for each placement that its budget allows."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.problem import Problem
from pipesched.solver.case import Case
from pipesched.solver.feasible import feasible
from pipesched.solver.keeping import KeepingCase
from pipesched.solver.placements import placed
from pipesched.solver.saving import SavingCase


def cases_of(problem: Problem, placement: str | Sequence[str] | None, objective: str, allowed: Allowed) -> list[Case]:
    """Return a case for each placement of `placed` on which one microbatch fits.

    Raises NoSchedule where none does, and ConfigError as `placed` does.
    """
    fitting = feasible(placed(problem, placement), allowed)
    if any(allowed):
        return [SavingCase(settled, objective, allowed) for settled in fitting]
    return [KeepingCase(settled, objective) for settled in fitting]

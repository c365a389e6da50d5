"""A family on a problem whose microbatches are fed in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from pipesched.pipeline.feeding import in_order, renumbered
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.family import Family


class FedFamily:
    """A family and a problem as it runs it; `make` plans that, and the problem with its microbatches in other orders.

    It plans the problem whose i-th microbatch is `order[i]`; operations then get the numbers back that their data have.
    `timed` makes the schedule of a plan.
    """

    def __init__(
        self,
        problem: Problem,
        family: Family,
        make: Callable[[Problem], Plan],
        timed: Callable[[Problem, Plan], Schedule] = schedule_plan,
    ) -> None:
        self.problem, self.family, self._make, self._timed = problem, family, make, timed

    @cached_property
    def positions(self) -> Plan:
        """The plan of the microbatches as they are given."""
        return self._make(self.problem)

    def plan(self, order: Sequence[int]) -> Plan:
        """Return the plan of the microbatches in this order, with the numbers that they have in the problem."""
        if not self.family.looks_at_each:
            return renumbered(self.positions, order)
        return renumbered(self._make(in_order(self.problem, order)), order)

    def schedule(self, order: Sequence[int] | None) -> Schedule:
        """Return the schedule of the microbatches in this order, None: as they are given. Raises Deadlock.

        Where the placement is mirrored, that of its problem says which of them go the second way.
        """
        if order is None:
            return self._timed(self.problem, self.positions)
        placement = self.problem.settled_placement.fed(order)
        return self._timed(replace(self.problem, placement=placement), self.plan(order))

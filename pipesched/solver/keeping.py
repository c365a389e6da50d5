"""The case of a plain training step: every activation stays on its device from its forward to its backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from pipesched.core.cpsat import TaskModel
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.capacity import capacity_edges, order_edges
from pipesched.pipeline.kinds import COMPUTATION_LETTERS
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.solver.bounds import keeping_bound
from pipesched.solver.case import Candidate, Case, Improvement
from pipesched.solver.improve import improve
from pipesched.solver.justify import justify
from pipesched.solver.model import full_model, sorted_rows, sorted_weights
from pipesched.solver.portfolio import (
    fed_candidates,
    named_candidates,
    quick_named_candidates,
    refined,
    ruled_candidates,
)


@dataclass(frozen=True, eq=False)
class KeepingCase(Case):
    """A case whose activations are all kept.

    Its microbatches are alike, so each row of equal operations runs them in order, and from the budget follow further
    precedences.
    """

    keeps_activations = True
    bound = keeping_bound
    named_candidates = named_candidates
    fed_candidates = fed_candidates
    ruled_candidates = ruled_candidates
    quick_named_candidates = quick_named_candidates

    @cached_property
    def ordered(self) -> TaskGraph:
        """The rules, microbatches in order, and the precedences that follow from the budget."""
        extra = [*order_edges(self.problem, self.index), *capacity_edges(self.problem, self.index)]
        return self.graph.changed(edges=[self.graph.edges, *extra])

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times, in ticks."""
        return self.graph.quantum

    @property
    def improvements(self) -> Sequence[Improvement]:
        """Justification, then large neighbourhood search."""
        return (
            Improvement("justification", self.policy.cases.justification_part, justify),
            Improvement("improvement", self.policy.cases.windows_part, improve),
        )

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        return islice(ruled_candidates(self), 1)

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if not set(schedule.plan.index.letters) <= set(COMPUTATION_LETTERS):
            return None
        plan = refined(schedule.plan, self.index)
        return None if plan is None else schedule_plan(self.problem, plan)

    def model(self, least: int, most: int) -> TaskModel:
        return full_model(self, least, most)

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of an order; microbatches are renamed so that each row runs them in order."""
        times, durations = sorted_rows(self, starts), self.graph.durations
        order = sorted(
            range(len(times)), key=lambda task: (times[task], times[task] + durations[task], self.rank[task])
        )
        return schedule_plan(self.problem, Plan(self.index, self.graph.by_resource(order)))

    def hint(self, schedule: Schedule) -> list[int]:
        return sorted_weights(self, sorted_rows(self, schedule.start_ticks))

    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        return value if is_own else value - self.quantum

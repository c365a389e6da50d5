"""The case of a plain training step: every activation stays on its device from its forward to its backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pipesched.core.cpsat import TaskModel
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.capacity import capacity_edges, order_edges
from pipesched.pipeline.kinds import COMPUTATION_LETTERS
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.solver.bounds import keeping_bound
from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case, Improvement
from pipesched.solver.improve import improve
from pipesched.solver.justify import justify
from pipesched.solver.model import full_model
from pipesched.solver.portfolio import named_candidates, quick_named_candidates, ruled_candidates
from pipesched.solver.refine import refined
from pipesched.solver.symmetry import sorted_rows, sorted_weights

JUSTIFY_PART, IMPROVE_PART = 0.1, 0.6  # of the time of a case; the second, of what the first leaves


@dataclass(frozen=True, eq=False)
class KeepingCase(Case):
    """A case whose activations are all kept.

    Its microbatches are alike, so each row of equal operations runs them in order, and from the budget follow further
    precedences.
    """

    @cached_property
    def ordered(self) -> TaskGraph:
        """The rules, microbatches in order, and the precedences that follow from the budget."""
        extra = [*order_edges(self.problem, self.index), *capacity_edges(self.problem, self.index)]
        return replace(self.graph, edges=[*self.graph.edges, *extra])

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times, in ticks."""
        return self.graph.quantum

    @property
    def improvements(self) -> Sequence[Improvement]:
        """Justification, then large neighbourhood search."""
        return (
            Improvement("justification", JUSTIFY_PART, justify),
            Improvement("improvement", IMPROVE_PART, improve),
        )

    def bound(self) -> Bound:
        return keeping_bound(self)

    def named_candidates(self) -> Iterator[Candidate]:
        return named_candidates(self)

    def ruled_candidates(self) -> Iterator[Candidate]:
        return ruled_candidates(self)

    def quick_candidate(self) -> Candidate | None:
        return next(ruled_candidates(self), None)

    def quick_named_candidates(self) -> Iterator[Candidate]:
        return quick_named_candidates(self)

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if not set(schedule.plan.index.letters) <= set(COMPUTATION_LETTERS):
            return None
        plan = refined(schedule.plan, self.index.letters, self.problem.stages)
        return None if plan is None else schedule_plan(self.problem, plan)

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of an order; microbatches are renamed so that each row runs them in order."""
        times, durations = sorted_rows(self, starts), self.graph.durations
        order = sorted(
            range(len(times)), key=lambda task: (times[task], times[task] + durations[task], self.rank[task])
        )
        return schedule_plan(self.problem, Plan(self.index, self.graph.by_resource(order)))

    def model(self, least: int, most: int) -> TaskModel:
        return full_model(self, least, most)

    def hint(self, schedule: Schedule) -> list[int]:
        return sorted_weights(self, sorted_rows(self, schedule.start_ticks))

    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        return value if is_own else value - self.quantum

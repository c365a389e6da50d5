"""The case of a training step that may save memory: each activation is kept, recomputed or offloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from pipesched.core.cpsat import TaskModel
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.capacity import least_capacity
from pipesched.pipeline.kinds import KEEP_ONLY, Allowed
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.waits import plan_of_times
from pipesched.solver.bounds import saving_bound
from pipesched.solver.case import Candidate, Case, Improvement
from pipesched.solver.portfolio import (
    fed_candidates,
    named_candidates,
    quick_named_candidates,
    refined,
    ruled_candidates,
)
from pipesched.solver.saving_model import numbering_row, saving_model
from pipesched.solver.saving_portfolio import of_case, quick_candidates, saving_candidates, with_rules


@dataclass(frozen=True, eq=False)
class SavingCase(Case):
    """A case whose activations may be recomputed or offloaded, as `allowed` says.

    `index` and `graph` are those of the plain operations, F to W, which have the same numbers in `full`.
    """

    keeps_activations = False

    allowed: Allowed = KEEP_ONLY

    @cached_property
    def full(self) -> OpIndex:
        """All operations that may run."""
        return self.index.with_letters(self.allowed.letters)

    @property
    def most_operations(self) -> int:
        """The number of all operations that may run."""
        return self.full.size

    @property
    def ordered(self) -> TaskGraph:
        """The rules alone: microbatches are not alike, so that no order of them, and none by the budget, is known."""
        return self.graph

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times, in ticks."""
        return lower(self.problem, self.full).quantum

    @property
    def improvements(self) -> Sequence[Improvement]:
        """No local search: their models are for activations that are kept."""
        return ()

    def bound(self) -> Bound:
        return saving_bound(self, self.full.letters)

    def named_candidates(self) -> Iterator[Candidate]:
        return (of_case(candidate, self._taken_over) for candidate in named_candidates(self))

    def fed_candidates(self) -> Iterator[Candidate]:
        return (of_case(candidate, self._taken_over) for candidate in fed_candidates(self))

    def ruled_candidates(self) -> Iterator[Candidate]:
        return saving_candidates(self, self.allowed, self._taken_over)

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        limits = enumerate(self.problem.capacity_grains)
        keeps = all(most is None or least_capacity(self.problem, device) <= most for device, most in limits)
        found = ruled_candidates(self) if keeps else quick_candidates(self, self.allowed)
        return (of_case(first, self._taken_over) for first in islice(found, 1))

    def quick_named_candidates(self) -> Iterator[Candidate]:
        for base in quick_named_candidates(self):
            yield of_case(base, self._taken_over)
            yield from with_rules(self, base, self.allowed)

    def model(self, least: int, most: int) -> TaskModel:
        return saving_model(self, self.full, least, most)

    def hint(self, schedule: Schedule) -> list[int]:
        return self._sorted_rows(schedule.start_ticks)

    def most_sought(self, value: int, bound: int, *, is_own: bool) -> int:
        return value if is_own and value > self.policy.exact.near * bound else value - self.quantum

    def replay(self, starts: Sequence[int]) -> Schedule:
        """Return the schedule of the order that `starts` (ticks; UNTIMED: does not run) has on each device."""
        times = self._sorted_rows(starts)
        plan = plan_of_times(self.problem, self.full, times)
        schedule = schedule_plan(self.problem, plan)
        return schedule if schedule.fits else self._as_found(plan, times)

    def _as_found(self, plan: Plan, starts: Sequence[int]) -> Schedule:
        """Return a schedule of these times: several operations of no length at one instant have no order in a plan."""
        durations = lower(self.problem, self.full).durations
        ends = [start if start == UNTIMED else start + time for start, time in zip(starts, durations, strict=True)]
        return Schedule(self.problem, plan, starts, ends)

    def _sorted_rows(self, starts: Sequence[int]) -> list[int]:
        """Return `starts` with the microbatches numbered as in the model, and UNTIMED for what does not run."""
        times = [*(max(start, UNTIMED) for start in starts), *([UNTIMED] * (self.full.size - len(starts)))]
        row, order = numbering_row(self.full), [*range(self.full.microbatches)]
        for group in self.alike:
            for place, microbatch in zip(group, sorted(group, key=lambda m: times[row[m]]), strict=True):
                order[place] = microbatch
        return self.full.spread(lambda kind, stage: [times[self.full.row(kind, stage)[m]] for m in order])

    def adopted(self, schedule: Schedule) -> Schedule | None:
        if schedule.plan.index.stages == self.problem.stages:
            return self._taken_over(schedule)
        if schedule.plan.index.saves_memory:
            return None
        plan = refined(schedule.plan, self.index)
        return None if plan is None else self._taken_over(schedule_plan(self.problem, plan))

    def _taken_over(self, schedule: Schedule) -> Schedule | None:
        """Return a schedule of the same problem as one of this case; None when it runs what is not allowed here."""
        index, starts = schedule.plan.index, [UNTIMED] * self.full.size
        for number in chain(*schedule.plan.machines):
            op = index.op(number)
            if op.kind not in self.full.letters:
                return None
            starts[self.full.number(op)] = schedule.start_ticks[number]
        return None if schedule.plan.pairs else self.replay(starts)

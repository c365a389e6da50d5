"""Heuristics of cases with a step that order passes alone: they search the passes, and the rule completes their plans.

Under a budget they are given less of it than there is, as the step holds something over time too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import gcd

from pipesched.pipeline.capacity import least_capacity
from pipesched.pipeline.plan import without_step
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.step_ends import step_times
from pipesched.pipeline.waits import plan_of_times
from pipesched.schedulers.plan_of import of_passes
from pipesched.schedulers.side_work.rules import side_schedule
from pipesched.solver.case import Candidate, Case
from pipesched.solver.saving import SavingCase


def problems_of_passes(problem: Problem, parts: Sequence[float]) -> Iterator[Problem]:
    """Yield the passes of a problem with a step; of its budget these parts of what the step holds at most stay free."""
    if problem.memory.budget is None:
        yield of_passes(problem, [0] * problem.devices)
        return
    bare = of_passes(problem, [0] * problem.devices)
    known: set[tuple[int, ...]] = set()
    for part in parts:
        less = tuple(
            max(min(int(_held(problem, device) * part), (capacity or 0) - least_capacity(bare, device)), 0)
            for device, capacity in enumerate(bare.capacity_grains)
        )
        if less not in known:
            known.add(less)
            yield of_passes(problem, less)


def _held(problem: Problem, device: int) -> int:
    """Return what the step may hold on a device over time, in grains, with one output of each item of side work."""
    grains, there = problem.step_grains, problem.settled_placement.devices
    stages = sum(grains.weights[s] + grains.gradients[s] for s in problem.settled_placement.stages_on(device))
    side = 0
    for item, activation, output in zip(problem.side, grains.side_activation, grains.side_output, strict=True):
        side += (activation if device in item.devices else 0) + (output if there[item.into] == device else 0)
    return stages + side


def completed(
    problem: Problem,
    parts: Sequence[float],
    make: Callable[[Problem], Case],
    search: Callable[[Case], Iterator[Candidate]],
) -> Iterator[Candidate]:
    """Yield what a search finds for the passes of a problem, each order once, with the step by the rule of families."""
    cases = [make(bare) for bare in problems_of_passes(problem, parts)]
    known = set[tuple[object, ...]]()
    for case in cases:
        for candidate in search(case):
            plan = candidate.schedule.plan
            orders = plan.index.letters, *map(tuple, plan.orders)
            if not plan.pairs and (plan.lanes or orders not in known):
                known.add(orders)
                yield candidate._replace(schedule=side_schedule(problem, candidate.schedule.plan))


@dataclass(frozen=True, eq=False)
class StepSavingCase(SavingCase):
    """A case with a step whose activations may be recomputed or offloaded: its model knows the passes alone.

    So it bounds the makespan from below, and the schedules that it finds get their step by the rule.
    """

    @cached_property
    def quantum(self) -> int:
        return gcd(super().quantum, *step_times(self.problem)) or 1

    def _searched(self, search: Callable[[Case], Iterator[Candidate]]) -> Iterator[Candidate]:
        return completed(self.problem, self.policy.portfolio.held, self._of, search)

    def _of(self, bare: Problem) -> Case:
        return SavingCase(bare, self.objective, self.allowed, policy=self.policy)

    def named_candidates(self) -> Iterator[Candidate]:
        return self._searched(lambda case: case.named_candidates())

    def fed_candidates(self) -> Iterator[Candidate]:
        return self._searched(lambda case: case.fed_candidates())

    def ruled_candidates(self) -> Iterator[Candidate]:
        return self._searched(lambda case: case.ruled_candidates())

    def quick_ruled_candidates(self) -> Iterator[Candidate]:
        return islice(self._searched(lambda case: case.quick_ruled_candidates()), 1)

    def quick_named_candidates(self) -> Iterator[Candidate]:
        return self._searched(lambda case: case.quick_named_candidates())

    def adopted(self, schedule: Schedule) -> Schedule | None:
        known = of_passes(schedule.problem, [0] * schedule.problem.devices)
        bare = of_passes(self.problem, [0] * self.problem.devices)
        found = self._of(bare).adopted(schedule_plan(known, without_step(schedule.plan)))
        return None if found is None else schedule_plan(self.problem, found.plan)

    def replay(self, starts: Sequence[int]) -> Schedule:
        return schedule_plan(self.problem, plan_of_times(self.problem, self.full, self._sorted_rows(starts)))

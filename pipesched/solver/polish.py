"""The second phase of a solve: the same objective, with as little memory on the largest device as is found in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from pipesched.core.clock import Clock, TimeIsUp, look, under
from pipesched.errors import NoSchedule
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case
from pipesched.solver.search import Search

SOURCE = "polishing"
LARGE = 3_500  # operations from which CP-SAT finds no other schedule of the same objective in time
MOST_ROUNDS = 24
PART = 0.34  # of the time left that one round may take


def polish(search: Search, number: int, clock: Clock) -> None:
    """Look for schedules of a case with the best value known and less memory on the largest device.

    Budgets are halved between the floor and what the best schedule holds; each is tried by list scheduling, and on
    small cases by CP-SAT.
    """
    best = search.best
    if best is None:
        return
    case, most = search.cases[number], max(best.schedule.memory_grains)
    step = _step(case.problem)
    least = max(1, *map(case.problem.static_grains, range(case.problem.devices)))
    for _ in range(MOST_ROUNDS):
        middle = most - max((most - least) // (2 * step), 1) * step
        if middle < least or clock.is_over:
            return
        found = _within(search, case, middle, clock.part(PART * clock.left))
        if found is None:
            least = middle + step
            continue
        search.offer(number, Candidate(f"{best.source}, {SOURCE}", found))
        most = min(max(found.memory_grains), middle)


def _step(problem: Problem) -> int:
    """Return the least difference in grains that two peaks can have."""
    return gcd(*problem.grains.activation, *problem.grains.retained, *problem.grains.checkpointed) or 1


def _within(search: Search, case: Case, budget: int, clock: Clock) -> Schedule | None:
    """Return a schedule of the case with the best value known that holds at most `budget` grains on every device."""
    try:
        limited = replace(case, problem=_limited(case.problem, budget))
        with under(clock):
            for schedule in _tries(search, limited, clock):
                look()
                if schedule.fits and limited.value(schedule) <= search.value:
                    return replace(schedule, problem=case.problem)
    except (NoSchedule, TimeIsUp):
        return None
    return None


def _tries(search: Search, case: Case, clock: Clock) -> Iterator[Schedule]:
    """Yield schedules within the budget of the case."""
    for candidate in case.ruled_candidates():
        yield candidate.schedule
    if len(case.graph) <= LARGE:
        model = case.model(min(search.bound.ticks, search.value), search.value)
        answer = model.solve(search.limits._replace(seconds=clock.left, gap=1.0))
        if answer.starts:
            yield case.replay([start * case.quantum for start in answer.starts])


def _limited(problem: Problem, budget: int) -> Problem:
    """Return the problem under a budget in grains on every device, or its own where that is lower."""
    limit = canonical(to_fraction(budget) / problem.grains.per_unit)
    own = problem.memory.budget or (limit,) * problem.devices
    return replace(problem, memory=replace(problem.memory, budget=tuple(min(limit, most) for most in own)))

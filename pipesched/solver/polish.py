"""The second phase of a solve: the same objective, with as little memory on the largest device as is found in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pipesched.core.clock import Clock, TimeIsUp, look, under
from pipesched.errors import NoSchedule
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.case import Candidate, Case
from pipesched.solver.case_search import can_begin, seconds_for
from pipesched.solver.feasible import least_step, within
from pipesched.solver.search import Search

SOURCE = "polishing"
RECOMPUTED = Allowed(recompute=True)  # peaks may differ by as little as a checkpoint


def polish(search: Search, number: int, clock: Clock) -> None:
    """Look for schedules of a case with the best value known and less memory on the largest device.

    Budgets are halved between static memory and what the best schedule holds; each is tried by list scheduling, and on
    small cases by CP-SAT.
    """
    best = search.best
    if best is None:
        return
    case, most = search.cases[number], max(best.schedule.memory_grains)
    policy = search.policy.polish
    step = least_step(case.problem, RECOMPUTED)
    least = max(1, *map(case.problem.static_grains, range(case.problem.devices)))
    for _ in range(policy.rounds):
        middle = most - max((most - least) // (2 * step), 1) * step
        if middle < least or clock.is_over:
            return
        found = _within(search, case, middle, clock.part(policy.round_part * clock.left))
        if found is None:
            least = middle + step
            continue
        search.offer(number, Candidate(f"{best.source}, {SOURCE}", found))
        most = min(max(found.memory_grains), middle)


def _within(search: Search, case: Case, budget: int, clock: Clock) -> Schedule | None:
    """Return a schedule of the case with the best value known that holds at most `budget` grains on every device."""
    try:
        limited = replace(case, problem=within(case.problem, budget))
        with under(clock):
            for schedule in _tries(search, limited, clock):
                look()
                if schedule.fits and limited.value(schedule) <= search.value:
                    return replace(schedule, problem=replace(case.problem, shard=schedule.problem.shard))
    except (NoSchedule, TimeIsUp):
        return None
    return None


def _tries(search: Search, case: Case, clock: Clock) -> Iterator[Schedule]:
    """Yield schedules within the budget of the case."""
    for candidate in case.ruled_candidates():
        yield candidate.schedule
    if case.has_model and case.index.size <= case.policy.polish.large and can_begin(case, clock):
        model = case.model(min(search.bound.ticks, search.value), search.value)
        answer = model.solve(search.limits._replace(seconds=seconds_for(case, clock), gap=1.0))
        if answer.starts:
            yield case.replay([start * case.quantum for start in answer.starts])

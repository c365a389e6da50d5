"""The option `side_rule` of every family: where side work stands among its slots."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.errors import InvalidSchedule
from pipesched.pipeline.plan import Plan, settled
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, best_ahead, schedule_plan
from pipesched.pipeline.step import AUTO
from pipesched.schedulers.side_work.improve import improved
from pipesched.schedulers.side_work.insertion import WAYS, SideInsertion
from pipesched.schedulers.side_work.names import FIRST

ALL_WAYS = 4_000  # slots up to which all ways are tried, else the first one alone


def side_schedule(problem: Problem, plan: Plan, rule: str | None = None) -> Schedule:
    """Return the schedule of a plan of passes with side work by a rule, None: bubbles. Raises Deadlock.

    By `bubbles` it is never longer than by `first`, and within the budget where that is.
    """
    if not problem.side or rule == FIRST or plan.index.scoped:
        return schedule_plan(problem, plan)
    problem = settled(problem, plan)
    if problem.sharding.ahead == AUTO:
        return best_ahead(problem, lambda one: side_schedule(one, plan, rule))
    first = schedule_plan(problem, plan)
    insertion = SideInsertion(problem, plan)
    best = first
    for found in _inserted(insertion):
        if _is_better(found, best, first):
            best = found
    return improved(insertion, best, lambda found, so_far: _is_better(found, so_far, first))


def _inserted(insertion: SideInsertion) -> Iterator[Schedule]:
    """Yield schedules with side work in idle times, unless slots of no length let it wait in a circle."""
    for way in WAYS if len(insertion.alone.start_ticks) <= ALL_WAYS else WAYS[:1]:
        try:
            yield insertion.schedule(way)
        except InvalidSchedule:
            continue


def _is_better(found: Schedule, best: Schedule, first: Schedule) -> bool:
    """Return whether a schedule is preferred to another one: within the budget, then shorter; never above `first`."""
    if found.makespan_ticks > first.makespan_ticks:
        return False
    return (not found.fits, found.makespan_ticks) < (not best.fits, best.makespan_ticks)

"""`explain`: idle time by class, the critical path, slack, sensitivities and moves of a schedule."""

from __future__ import annotations

from pathlib import Path

from pipesched.analysis.reasons.explanation import Explanation
from pipesched.analysis.reasons.idle import gaps_of
from pipesched.analysis.reasons.timed import given_schedule, timed_tasks
from pipesched.analysis.reasons.timed_moves import best_moves
from pipesched.analysis.reasons.what_costs_do import sensitivities
from pipesched.core.reasons import TimedTasks
from pipesched.display import from_file
from pipesched.pipeline.bounds import lower_bound
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.outcome import Outcome


def explain(schedule: Schedule | Outcome | str | Path, *, problem: Problem | None = None) -> Explanation:
    """Say why a schedule takes as long as it does, and what would change it.

    A schedule may have times of its own, later than they could be: that is idle time of the class late; sensitivities
    and moves are then those of the same order at its earliest times. The name of a file stands for what it holds; a CSV
    has the costs of `problem`. Raises ConfigError for what is no schedule, InvalidSchedule for one that breaks a rule,
    and Deadlock for one whose order cannot run.
    """
    schedule = from_file(schedule, problem, "schedule")
    outcome = schedule if isinstance(schedule, Outcome) else None
    subject = given_schedule(schedule)
    tasks = timed_tasks(subject)
    early, early_tasks = _at_earliest(subject, tasks)
    rows, boundaries = sensitivities(early, early_tasks, tasks.critical_path)
    moves, is_complete = best_moves(early, early_tasks)
    return Explanation(
        schedule=subject,
        bound=lower_bound(subject) if outcome is None else outcome.bound,
        gap_ticks=gaps_of(subject, tasks),
        path=tasks.critical_path,
        slack_ticks=tasks.slack,
        sensitivity=rows,
        p2p_sensitivity=boundaries,
        moves=moves,
        moves_complete=is_complete,
        algorithm="" if outcome is None else outcome.algorithm,
    )


def _at_earliest(schedule: Schedule, tasks: TimedTasks) -> tuple[Schedule, TimedTasks]:
    """Return the schedule of the same plan with every operation as early as it can be."""
    if tasks.can_run and all(tasks.starts[task] == tasks.allowed[task] for task in tasks.topological):
        return schedule, tasks
    early = schedule_plan(schedule.problem, schedule.plan, schedule.lengths)
    return early, timed_tasks(early)


def explained_outcomes(explanation: Explanation) -> list[tuple[str, Outcome]]:
    """Return the schedule that an explanation is about, with its title and the name of what made it."""
    outcome = Outcome(explanation.algorithm or "plan", explanation.schedule)
    return [(outcome.title, outcome)]

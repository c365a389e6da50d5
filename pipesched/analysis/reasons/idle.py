"""The idle time of a schedule by class."""

from __future__ import annotations

from pipesched.analysis.reasons.memory_fit import MemoryFit
from pipesched.analysis.reasons.timed import timed_tasks
from pipesched.core.idle_time import Gap, Idle, idle_gaps
from pipesched.core.reasons import TimedTasks
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule


def gaps_of(schedule: Schedule, tasks: TimedTasks) -> list[Gap]:
    """Return all idle time of a schedule by class and culprit; `tasks` are its operations."""
    return [*idle_gaps(tasks, schedule.graph.takes, MemoryFit(schedule))]


def idle_by_class(schedule: Schedule) -> dict[Idle, int | float]:
    """Return the idle time of all devices by class, in the user's time unit."""
    ticks = dict.fromkeys(Idle, 0)
    for gap in gaps_of(schedule, timed_tasks(schedule)):
        ticks[gap.idle] += gap.end - gap.start
    return {idle: in_units(time, schedule.problem.ticks.per_unit) for idle, time in ticks.items()}

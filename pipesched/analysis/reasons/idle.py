"""The idle time of a schedule by class; as far as the memory of devices goes, what could have run earlier."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from pipesched.analysis.reasons.timed import timed_tasks
from pipesched.core.idle_time import Gap, Idle, classes, idle_gaps
from pipesched.core.reasons import TimedTasks
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule


def gaps_of(schedule: Schedule, tasks: TimedTasks) -> list[Gap]:
    """Return all idle time of a schedule by class and culprit; `tasks` are its operations."""
    fits = MemoryFit(schedule) if schedule.fits else lambda *_: True  # what exceeds a budget obeys none
    return [*idle_gaps(tasks, schedule.graph.takes, fits)]


def idle_by_class(schedule: Schedule) -> dict[Idle, int | float]:
    """Return the idle time of all devices by class, in the user's time unit."""
    ticks = dict.fromkeys(classes(measured=schedule.own_lengths), 0)
    for gap in gaps_of(schedule, timed_tasks(schedule)):
        ticks[gap.idle] += gap.end - gap.start
    return {idle: in_units(time, schedule.problem.ticks.per_unit) for idle, time in ticks.items()}


class MemoryFit:
    """Answers whether an operation fits at an earlier time, all else at its own, without exceeding the budget."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._first = schedule.last_ticks - schedule.makespan_ticks
        self._levels: dict[int, Levels] = {}

    def __call__(self, task: int, time: int) -> bool:
        """Return whether `task` fits at `time`, in ticks from the first start on, which is before its own start.

        It then takes its memory from there on, and gives back what it gives after its duration.
        """
        schedule, graph = self._schedule, self._schedule.graph
        device = graph.pools[task]
        capacity = schedule.problem.capacity_grains[device]
        if capacity is None:
            return True
        if device not in self._levels:
            self._levels[device] = Levels([*schedule.memory_steps(device)])
        levels, time = self._levels[device], time + self._first
        start = schedule.start_ticks[task]
        end = min(time + graph.durations[task], start)
        taken, given = graph.takes[task], graph.gives[task]
        parts = ((time, end, taken), (end, start, taken - given))
        return all(levels.highest(*part) + more <= capacity for *part, more in parts if part[0] < part[1])


class Levels:
    """The memory of a device over time, with the highest level of any part of it in constant time."""

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self._times = [time for time, _ in steps]
        self._tables = [[level for _, level in steps]]  # [k][i]: the highest of the 2^k levels from i on
        reach = 1
        while 2 * reach <= len(steps):
            below = self._tables[-1]
            self._tables.append([*map(max, below, below[reach:])])
            reach *= 2

    def highest(self, start: int, end: int) -> int:
        """Return the highest level from `start` to `end`, which is later; 0 behind the last change."""
        first = max(bisect_right(self._times, start) - 1, 0)
        last = bisect_left(self._times, end)
        if last <= first:
            return 0
        power = (last - first).bit_length() - 1
        table = self._tables[power]
        return max(table[first], table[last - (1 << power)])

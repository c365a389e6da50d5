"""The time-indexed model: the rules of `cpsat` with a Boolean for each task and each tick at which it may start.

The linear relaxation of these rules is far tighter than that of intervals, so that a horizon one tick too short is
often refuted in a second where intervals take a minute; but the model grows with the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pipesched.core.cpsat import TaskModel


class TimeIndexed(TaskModel):
    """The rules of TaskModel over the ticks of each task's window."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[dict[int, Any]] = []  # for each task: tick -> whether it starts there

    def task(self, duration: int, earliest: int, latest: int) -> int:
        at = {tick: self.model.new_bool_var("") for tick in range(earliest, latest + 1)}
        self.model.add_exactly_one(at.values())
        self.at.append(at)
        self.starts.append(sum(tick * chosen for tick, chosen in at.items()))
        self.durations.append(duration)
        return len(self.starts) - 1

    def after(self, before: int, after: int, lag: int = 0) -> None:
        """Add the disaggregated precedence: at no tick has `after` started by then and `before` starts too late."""
        gap = self.durations[before] + lag
        for tick in self.at[after]:
            late = [chosen for start, chosen in self.at[before].items() if start + gap > tick]
            early = [chosen for start, chosen in self.at[after].items() if start <= tick]
            if late:
                self.model.add_at_most_one(late + early)

    def one_at_a_time(self, tasks: Iterable[int]) -> None:
        self._limit(1, ((task, 1) for task in tasks), lambda tick: tick)

    def at_most(self, capacity: int, tasks: Sequence[int], demands: Sequence[int]) -> None:
        self._limit(capacity, zip(tasks, demands, strict=True), lambda tick: tick)

    def at_most_every(self, period: int, capacity: int, tasks: Sequence[int]) -> None:
        """Let at most `capacity` of `tasks` run at any time when all are repeated every `period` ticks."""
        self._limit(capacity, ((task, 1) for task in tasks), lambda tick: tick % period)

    def _limit(self, capacity: int, users: Iterable[tuple[int, int]], moment: Callable[[int], int]) -> None:
        running: dict[int, list[Any]] = {}
        for task, demand in users:
            for start, chosen in self.at[task].items():
                for tick in range(start, start + self.durations[task]):
                    running.setdefault(moment(tick), []).append(demand * chosen)
        for terms in running.values():
            self.model.add(sum(terms) <= capacity)

    def hint(self, starts: Sequence[int]) -> None:
        for at, start in zip(self.at, starts, strict=True):
            for tick, chosen in at.items():
                self.model.add_hint(chosen, tick == start)


def terms(starts: int, duration: int) -> int:
    """Return about how many terms the rules of a task have that has `starts` possible starts and waits for another."""
    return starts * (starts + duration)

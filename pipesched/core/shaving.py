"""Shaving of time windows: no schedule within a horizon starts a task where not even a fractional one can.

A task that cannot start at the first ticks of its window has a window without them, which narrows the windows of others
in turn. (Shaving: Martin and Shmoys 1996; destructive improvement: Klein and Scholl 1999. The linear relaxation takes
far longer than their propagation, and refutes far more.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.core.relaxation import Impossible, Relaxation
from pipesched.core.tasks import TaskGraph

MOST_SHAVED = 30  # tasks of a pass; the many that few others wait for gain little


class Bounds(NamedTuple):
    """The earliest and the latest start of each task, in ticks."""

    earliest: list[int]
    latest: list[int]

    def copy(self) -> Bounds:
        """Return a copy, to be changed."""
        return Bounds(self.earliest.copy(), self.latest.copy())


class Windows:
    """The windows of the tasks of `graph`, which become narrower; `deadline` is one of time.monotonic.

    Methods raise Impossible where no schedule is left, and OutOfTime.
    """

    def __init__(self, graph: TaskGraph, bounds: Bounds, deadline: float) -> None:
        self.graph = graph
        self.bounds = bounds.copy()
        self.relaxation = Relaxation(graph, *bounds, deadline)

    def slack(self, task: int) -> int:
        """Return the ticks between the first and the last start of `task`."""
        return self.bounds.latest[task] - self.bounds.earliest[task]

    def reset(self, bounds: Bounds) -> None:
        """Set the windows to `bounds`, which may be wider than they are."""
        self.bounds = bounds.copy()
        for task, window in enumerate(zip(*bounds, strict=True)):
            self.relaxation.narrow(task, *window)

    def narrow(self, task: int, earliest: int, latest: int) -> None:
        """Start `task` within [earliest, latest], and those before and after it accordingly."""
        durations, bounds = self.graph.durations, self.bounds
        pending = [(task, earliest, latest)]
        while pending:
            task, earliest, latest = pending.pop()
            earliest, latest = max(earliest, bounds.earliest[task]), min(latest, bounds.latest[task])
            if earliest > latest:
                raise Impossible
            if (earliest, latest) == (bounds.earliest[task], bounds.latest[task]):
                continue
            bounds.earliest[task], bounds.latest[task] = earliest, latest
            self.relaxation.narrow(task, earliest, latest)
            for after, lag in self.graph.successors[task]:
                pending.append((after, earliest + durations[task] + lag, bounds.latest[after]))
            for before, lag in self.graph.predecessors[task]:
                pending.append((before, bounds.earliest[before], latest - lag - durations[before]))

    def shave(self) -> Iterator[Sequence[float]]:
        """Shave once, and yield after each step the mean start of each task in a fractional schedule, in ticks.

        The tasks that most others wait for come first: they narrow most windows.
        """

        def rank(task: int) -> tuple[int, int]:
            return -len(self.graph.successors[task]), self.slack(task)

        self.relaxation.check()
        yield self.relaxation.middles()
        waiting = {task for task in range(len(self.graph)) if self.slack(task)}
        for _ in range(min(MOST_SHAVED, len(waiting))):
            task = min(waiting, key=rank)
            waiting.remove(task)
            yield from self._shave_end(task, at_front=True)
            yield from self._shave_end(task, at_front=False)

    def _shave_end(self, task: int, *, at_front: bool) -> Iterator[Sequence[float]]:
        """Shave 1, 2, 4, ... ticks at a time, and from the first failure on half as many each time."""
        ticks, is_growing = 1, True
        while ticks and (slack := self.slack(task)):
            ticks = min(ticks, slack)
            first, last = self.bounds.earliest[task], self.bounds.latest[task]
            if at_front:
                first += ticks
                is_shaved = self.relaxation.never_by(task, first - 1)
            else:
                last -= ticks
                is_shaved = self.relaxation.never_after(task, last)
            yield self.relaxation.middles()
            if is_shaved:
                self.narrow(task, first, last)
            is_growing = is_growing and is_shaved
            ticks = 2 * ticks if is_growing else ticks // 2

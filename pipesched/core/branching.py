"""Branch and bound on windows of time: shave them, split one in two halves, and so on with each.

What is refuted so is refuted for good: the bounds of `relaxation` are proofs. On the way, each fractional schedule puts
the tasks in an order to list them by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipesched.core.check import violations
from pipesched.core.lists import Found, by_middles, mirror
from pipesched.core.relaxation import Impossible, OutOfTime
from pipesched.core.shaving import Bounds, Windows
from pipesched.core.tasks import TaskGraph


class _Half(NamedTuple):
    """Windows, and the part of one of them that is to be searched."""

    bounds: Bounds
    task: int
    earliest: int
    latest: int


class Branching:
    """A search for schedules of `graph` in which each task starts within its bounds."""

    def __init__(self, graph: TaskGraph, bounds: Bounds, deadline: float) -> None:
        self.graph = graph
        self.windows = Windows(graph, bounds, deadline)
        self.first: Bounds | None = None  # the windows that were split first
        self.is_refuted = False  # there is no such schedule, but those found

    @property
    def bounds(self) -> Bounds:
        """The windows in which every schedule lies that has not been refuted."""
        return self.first or self.windows.bounds

    def run(self) -> Iterator[Found]:
        """Schedules found on the way, which may be outside the windows; until all are refuted, or the time is over."""
        mirrored = mirror(self.graph)
        waiting: list[_Half] = [self._whole()]
        try:
            while waiting:
                half = waiting.pop()
                self.windows.reset(half.bounds)
                try:
                    self.windows.narrow(*half[1:])
                    for middles in self.windows.shave():
                        yield from by_middles(self.graph, mirrored, middles)
                except Impossible:
                    continue
                yield from self._scheduled()
                waiting += self._halves()
            self.is_refuted = True
        except OutOfTime:
            pass

    def _whole(self) -> _Half:
        bounds = self.windows.bounds.copy()
        return _Half(bounds, 0, bounds.earliest[0], bounds.latest[0])

    def _halves(self) -> list[_Half]:
        """The later and the earlier half of the window of a task that most others wait for, and then of the widest."""
        bounds, slack = self.windows.bounds.copy(), self.windows.slack
        self.first = self.first or bounds
        task = max(
            range(len(self.graph)), key=lambda task: (slack(task) > 0, len(self.graph.successors[task]), slack(task))
        )
        first, last = bounds.earliest[task], bounds.latest[task]
        middle = (first + last) // 2
        return [_Half(bounds, task, middle + 1, last), _Half(bounds, task, first, middle)] if first < last else []

    def _scheduled(self) -> Iterator[Found]:
        """The schedule that is left when every window is down to one tick, if it is one."""
        starts = self.windows.bounds.earliest
        if starts == self.windows.bounds.latest and not any(violations(self.graph, starts)):
            yield Found(starts.copy(), "linear relaxation")

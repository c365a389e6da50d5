"""Branch and bound on windows of time: shave them, split one in two halves, and so on with each.

What is refuted so is refuted for good: the bounds of `relaxation` are proofs. On the way, each fractional schedule puts
the tasks in an order to list them by.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.core.check import violations
from pipesched.core.lists import Found, by_middles, mirror
from pipesched.core.relaxation import Impossible, OutOfTime
from pipesched.core.shaving import Bounds, Windows
from pipesched.core.tasks import TaskGraph

Part = tuple[int, int, int]  # a task, its earliest and its latest start


class Branching:
    """A search for schedules of `graph` in which each task starts within its bounds."""

    def __init__(self, graph: TaskGraph, bounds: Bounds, deadline: float) -> None:
        self.graph, self.deadline = graph, deadline
        self.bounds = bounds  # every schedule lies within; narrower until the first split
        self.is_refuted = False  # there is no such schedule

    def run(self) -> Iterator[Found]:
        """Schedules found on the way, which may be outside the bounds; until none is left, or the time is over."""
        fits = False
        waiting: list[tuple[Bounds, Part | None]] = [(self.bounds, None)]
        mirrored = mirror(self.graph)
        try:
            self.windows = Windows(self.graph, self.bounds, self.deadline)
            while waiting:
                try:
                    for found in self._node(*waiting.pop(), mirrored):
                        fits = fits or self._fits(found)
                        yield found
                    waiting += self._halves()
                except Impossible:
                    pass
            self.is_refuted = not fits
        except OutOfTime:
            pass

    def _node(self, bounds: Bounds, part: Part | None, mirrored: TaskGraph) -> Iterator[Found]:
        """Shave windows, all of them or with a part of one."""
        self.windows.reset(bounds)
        if part is None:
            self.bounds = self.windows.bounds  # which shaving narrows
        else:
            self.windows.narrow(*part)
        for middles in self.windows.shave():
            yield from by_middles(self.graph, mirrored, middles)
        starts = self.windows.bounds.earliest.copy()
        if not any(violations(self.graph, starts)):  # a schedule, and the only one when no window is left to split
            yield Found(starts, "linear relaxation")

    def _fits(self, found: Found) -> bool:
        windows = zip(self.bounds.earliest, found.starts, self.bounds.latest, strict=True)
        return all(first <= start <= last for first, start, last in windows)

    def _halves(self) -> list[tuple[Bounds, Part]]:
        """The later and the earlier half of the window of a task: one that most others wait for, then the widest."""
        bounds, slack = self.windows.bounds, self.windows.slack
        wide = [task for task in range(len(self.graph)) if slack(task)]
        if not wide:
            return []
        task = max(wide, key=lambda task: (len(self.graph.successors[task]), slack(task)))
        first, last = bounds.earliest[task], bounds.latest[task]
        middle = (first + last) // 2
        return [(bounds, (task, middle + 1, last)), (bounds, (task, first, middle))]

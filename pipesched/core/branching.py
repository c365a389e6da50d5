"""Branch and bound on time windows: shave all of them, split one into halves, and go on with each half.

A refutation is a proof, because the bounds of `relaxation` are. On the way, each fractional schedule gives an order for
list scheduling.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.core.check import violations
from pipesched.core.list_schedules import Listing, backwards_in_time, by_middles
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

    def run(self) -> Iterator[Listing]:
        """Yield schedules, some outside the bounds, until no window is left to split or the time is over."""
        fits = False
        waiting: list[tuple[Bounds, Part | None]] = [(self.bounds, None)]
        backwards = backwards_in_time(self.graph)
        try:
            self.windows = Windows(self.graph, self.bounds, self.deadline)
            while waiting:
                try:
                    for listing in self._node(*waiting.pop(), backwards):
                        fits = fits or self._fits(listing)
                        yield listing
                    waiting += self._halves()
                except Impossible:
                    pass
            self.is_refuted = not fits
        except OutOfTime:
            pass

    def _node(self, bounds: Bounds, part: Part | None, backwards: TaskGraph) -> Iterator[Listing]:
        """Set the windows to `bounds`, one of them to `part`; shave them, and yield the list schedules of each step."""
        self.windows.reset(bounds)
        if part is None:
            self.bounds = self.windows.bounds  # which shaving narrows
        else:
            self.windows.narrow(*part)
        for middles in self.windows.shave():
            yield from by_middles(self.graph, backwards, middles)
        starts = self.windows.bounds.earliest.copy()
        if not any(violations(self.graph, starts)):  # a schedule, and the only one when no window is left to split
            yield Listing(starts, "linear relaxation")

    def _fits(self, listing: Listing) -> bool:
        windows = zip(self.bounds.earliest, listing.starts, self.bounds.latest, strict=True)
        return all(first <= start <= last for first, start, last in windows)

    def _halves(self) -> list[tuple[Bounds, Part]]:
        """Return the later and the earlier half of a window: of a task that most others wait for, then the widest."""
        bounds, slack = self.windows.bounds, self.windows.slack
        wide = [task for task in range(len(self.graph)) if slack(task)]
        if not wide:
            return []
        task = max(wide, key=lambda task: (len(self.graph.successors[task]), slack(task)))
        first, last = bounds.earliest[task], bounds.latest[task]
        middle = (first + last) // 2
        return [(bounds, (task, middle + 1, last)), (bounds, (task, first, middle))]

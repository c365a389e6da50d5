"""Branch and bound on time windows: shave them by a relaxation, split one into halves, and go on.

A refutation is a proof, because the bounds of `relaxation` are. On the way, each fractional schedule gives an order for
list scheduling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from pipesched.core.check import violations
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.listsched import Listing, backwards_in_time, by_middles
from pipesched.core.relaxation import Impossible, OutOfTime, Relaxation
from pipesched.core.tasks import TaskGraph
from pipesched.core.timeindexed import TimeIndexed, terms

MOST_SHAVED = 30  # tasks of a pass; the many that few others wait for gain little
Part = tuple[int, int, int]  # a task, its earliest and its latest start
MOST_TERMS = 600_000  # of a time-indexed model that is worth its memory
FIRST_TURN, GROWTH = 0.5, 16  # seconds of branching before CP-SAT's first turn; before the next, so many times as much
SEARCH, LEAST_SEARCH = 0.25, 1.0  # a turn of CP-SAT: of the branching so far, but at least so many seconds


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
                        windows = zip(self.bounds.earliest, listing.starts, self.bounds.latest, strict=True)
                        fits = fits or all(first <= start <= last for first, start, last in windows)
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


class Margins(NamedTuple):
    """A graph with a head and a tail for each task: the ticks that pass before its start and after its end."""

    graph: TaskGraph
    before: Sequence[int]
    after: Sequence[int]

    def within(self, horizon: int) -> Bounds:
        """Return the earliest and the latest start of each task in a schedule of `horizon` ticks."""
        ends = zip(self.after, self.graph.durations, strict=True)
        return Bounds(list(self.before), [horizon - tail - time for tail, time in ends])


class HorizonSearch:
    """A search for a schedule in which each task starts within its bounds."""

    def __init__(self, graph: TaskGraph, bounds: Bounds, limits: Limits) -> None:
        self.graph, self.limits = graph, limits
        self.begin = monotonic()
        self.branching = Branching(graph, bounds, self.begin + limits.seconds)
        self.refuted_by = ""  # what proved that there is none
        self.is_interrupted = False  # by Ctrl-C, in CP-SAT

    def run(self) -> Iterator[Listing]:
        """Yield schedules, some outside the bounds, until there is none within, or the time is over."""
        turn, searched = FIRST_TURN, 0.0
        for listing in self.branching.run():
            yield listing
            branched = monotonic() - self.begin - searched
            if branched > turn:
                turn *= GROWTH
                before = monotonic()
                yield from self._by_ticks(max(SEARCH * branched, LEAST_SEARCH))
                searched += monotonic() - before
                if self.refuted_by or self.is_interrupted:
                    return
        if self.branching.is_refuted:
            self.refuted_by = "linear relaxation"

    def _by_ticks(self, seconds: float) -> Iterator[Listing]:
        """Search with CP-SAT within the windows as they are by now."""
        if terms_of(self.graph, self.branching.bounds) > MOST_TERMS:
            return
        model = TimeIndexed()
        state(model, self.graph, self.branching.bounds)
        left = self.limits.seconds - (monotonic() - self.begin)
        if left <= 0:
            return
        answer = model.solve(self.limits._replace(seconds=min(seconds, left), linearization=2))
        self.is_interrupted = answer.interrupted
        if answer.status == "infeasible":
            self.refuted_by = "time-indexed CP-SAT"
        elif answer.starts:
            yield Listing(answer.starts, "time-indexed CP-SAT")


def columns_of(bounds: Bounds) -> int:
    """Return how many columns the linear relaxation has."""
    return sum(bounds.latest) - sum(bounds.earliest) + 1


def terms_of(graph: TaskGraph, bounds: Bounds) -> int:
    """Return about how many terms a time-indexed model has."""
    needs = zip(*bounds, graph.durations, strict=True)
    return sum(terms(last - first + 1, time) for first, last, time in needs)


def state(model: TaskModel, graph: TaskGraph, bounds: Bounds) -> None:
    """Add `graph` to a model: each task in its window, its precedences, the units of its resource."""
    for first, duration, last in zip(bounds.earliest, graph.durations, bounds.latest, strict=True):
        model.task(duration, first, last)
    for edge in graph.arrows():
        model.after(*edge)
    for resource, capacity in enumerate(graph.unit_counts):
        users = [task for task, used in enumerate(graph.resources) if used == resource and graph.durations[task]]
        if capacity == 1:
            model.one_at_a_time(users)
        elif len(users) > capacity:
            model.at_most(capacity, users, [1] * len(users))

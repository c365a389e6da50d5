"""The search for a schedule within a horizon: a relaxation that refutes it and a search that meets it, in turns.

Branch and bound on the linear relaxation refutes most impossible horizons in seconds, where CP-SAT may take minutes.
Most possible ones are met by a list schedule along the relaxation, or else by CP-SAT in a second on the same ticks. So
branch and bound begins, and time-indexed CP-SAT interrupts it now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from pipesched.core.branching import Branching
from pipesched.core.cpsat import Limits, TaskModel
from pipesched.core.list_schedules import Listing
from pipesched.core.shaving import Bounds
from pipesched.core.tasks import TaskGraph
from pipesched.core.timeindexed import TimeIndexed, terms

MOST_TERMS = 600_000  # of a time-indexed model that is worth its memory
FIRST_TURN, GROWTH = 0.5, 16  # seconds of branching before CP-SAT's first turn; before the next, so many times as much
SEARCH, LEAST_SEARCH = 0.25, 1.0  # a turn of CP-SAT: of the branching so far, but at least so many seconds


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

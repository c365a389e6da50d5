"""Serial schedule generation: tasks one after another, each into the earliest time that is free (Kolisch 1996).

Unlike list scheduling, which goes through time and starts whatever is ready, the order of the tasks alone says who
takes memory first. So a tight limit is kept in the order of a schedule that is known to fit.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipesched.core.clock import EVERY, look
from pipesched.core.tasks import TaskGraph


class Inserted(NamedTuple):
    """The start of each task in ticks, and the order of each resource."""

    starts: list[int]
    orders: list[list[int]]


def insert_in_order(graph: TaskGraph, order: Iterable[int], capacities: Sequence[int | None]) -> Inserted | None:
    """Return the schedule of tasks that are inserted in this order, in which none comes before what it waits for.

    Resources are machines and memory pools at once: `capacities[r]` limits what tasks on r hold (None: no limit). None
    when a task never fits.
    """
    machines = [_Gaps(sum(graph.takes) if capacity is None else capacity) for capacity in capacities]
    starts, ends = [0] * len(graph), [0] * len(graph)
    for step, task in enumerate(order):
        if not step & EVERY:
            look()
        ready = max((ends[before] + lag for before, lag in graph.predecessors[task]), default=0)
        start = machines[graph.resources[task]].insert(graph, task, ready)
        if start is None:
            return None
        starts[task], ends[task] = start, start + graph.durations[task]
    return Inserted(starts, [[task for _, _, task in machine.runs] for machine in machines])


class _Gaps:
    """The tasks on a machine so far, with the gaps between them, and the memory that they take over time."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.level = capacity, 0  # the level after all changes
        self.runs: list[tuple[int, int, int]] = []  # (start, end, task)
        self.changes: list[tuple[int, int]] = []  # (time, memory more or less), frees first

    def insert(self, graph: TaskGraph, task: int, ready: int) -> int | None:
        """Put `task` into the first gap from `ready` on; return its start, None if it never fits in memory."""
        takes, gives, length = graph.takes[task], graph.gives[task], graph.durations[task]
        fits = self._fits_from(takes, ready) if takes else ready
        if fits is None:
            return None
        start, position = self._gap(fits, length)
        self.runs.insert(position, (start, start + length, task))
        self._change(start, takes)
        self._change(start + length, -gives)
        return start

    def _gap(self, start: int, length: int) -> tuple[int, int]:
        """Return the first free time of that length from `start` on, and its position among the runs."""
        runs = self.runs
        position = bisect_right(runs, (start, start + 1, -1))
        if position and runs[position - 1][1] > start:
            start = runs[position - 1][1]
        while position < len(runs) and runs[position][0] < start + length:
            start = max(start, runs[position][1])
            position += 1
        return start, position

    def _fits_from(self, amount: int, ready: int) -> int | None:
        """Return the first time from `ready` on after which `amount` more always fits; None if it never does."""
        level, since = self.level, None
        for time, change in reversed(self.changes):
            if level + amount > self.capacity:
                return since
            if time <= ready:
                return ready
            level, since = level - change, time
        return ready if level + amount <= self.capacity else None

    def _change(self, time: int, amount: int) -> None:
        if amount:
            insort(self.changes, (time, amount))
            self.level += amount

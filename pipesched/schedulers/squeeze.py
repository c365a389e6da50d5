"""Squeezing of a repeated block: every operation, in the order of the block, into the earliest time that is free.

What waits in the block only for its period moves up; a forward moves up only as far as memory stays under the limit
("Pipeline Parallelism with Controllable Memory", Qi et al. 2024, section 3.3).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from pipesched.core.clock import EVERY, look
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.block import Block


def squeeze(problem: Problem, index: OpIndex, block: Block, capacities: Sequence[int]) -> list[list[int]] | None:
    """Return the order of each device, with at most `capacities[d]` grains of activations on device d.

    None when the block itself holds more than that, so that a forward never fits.
    """
    graph = lower(problem, index)
    devices = [_Gaps(capacity) for capacity in capacities]
    ends = [0] * len(graph)
    for step, task in enumerate(block.order(index)):
        if not step & EVERY:
            look()
        ready = max((ends[before] + lag for before, lag in graph.predecessors[task]), default=0)
        start = devices[graph.resources[task]].insert(graph, task, ready)
        if start is None:
            return None
        ends[task] = start + graph.durations[task]
    return [[task for _, _, task in device.runs] for device in devices]


class _Gaps:
    """The operations on a device so far, with the gaps between them, and the memory that they take over time."""

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

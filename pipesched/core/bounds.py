"""Lower bounds: no schedule of the problem is shorter. Each is a function with its formula.

A `Job` is work on one resource with the time that must pass before it (head) and after it (tail); jobs of equal head
and tail may be merged into one, since the bounds only add up work.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pipesched.core.paths import heads
from pipesched.core.tasks import TaskGraph


class Job(NamedTuple):
    """Work in ticks on one resource, `head` ticks after the start of all and `tail` before the end of all."""

    head: int
    work: int
    tail: int


def critical_path(graph: TaskGraph) -> int:
    """The longest chain: max over tasks of (ASAP + duration)."""
    return max((start + time for start, time in zip(heads(graph), graph.durations, strict=True)), default=0)


def head_work_tail(jobs: Sequence[Job], units: int = 1) -> int:
    """max over (h, q) of h + ceil(sum of work of jobs with head >= h and tail >= q, over `units`) + q.

    Every pair of a head and a tail that occur is tried. With several units this is the energy bound of high-level
    synthesis. O(jobs x distinct tails).
    """
    best = 0
    by_head = sorted(jobs, reverse=True)
    for tail in {job.tail for job in by_head}:
        work = 0
        for job in by_head:
            if job.tail >= tail:
                work += job.work
                best = max(best, job.head - (-work // units) + tail)
    return best


def jackson_preemptive(jobs: Sequence[Job]) -> int:
    """The end of Jackson's preemptive schedule: at any time run the released job of the longest tail (Carlier 1982).

    max over jobs of (its end + its tail): the best a single machine can do if it may interrupt. O(n log n).
    """
    coming = sorted(jobs, reverse=True)
    released: list[tuple[int, int]] = []  # (-tail, work left)
    now = best = 0
    while coming or released:
        if not released:
            now = max(now, coming[-1].head)
        while coming and coming[-1].head <= now:
            job = coming.pop()
            heappush(released, (-job.tail, job.work))
        negative_tail, work = heappop(released)
        until = min(now + work, coming[-1].head) if coming else now + work
        if until < now + work:
            heappush(released, (negative_tail, now + work - until))
        else:
            best = max(best, until - negative_tail)
        now = until
    return best


def memory_area(area: int, capacity: int, head: int, tail: int) -> int:
    """head + ceil(area / capacity) + tail: Little's law for memory.

    `area` is the sum over all that must reside in a pool of (size x shortest residence in ticks); nothing resides
    before `head` nor in the last `tail` ticks.
    """
    return head - (-area // capacity) + tail

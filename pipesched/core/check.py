"""The independent check of the start times of a task graph: it had no part in making them.

It shares nothing with timing or list scheduling but the task graph; it sorts, scans and lists what is wrong, one
sentence each. Front ends pass `name`, so that the sentences name tasks as their users do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from pipesched.core.tasks import NOWHERE, TaskGraph

Name = Callable[[int], str]


def violations(
    graph: TaskGraph, starts: Sequence[int], capacities: Sequence[int | None] = (), name: Name = "task {}".format
) -> Iterator[str]:
    """Yield what `starts` (in ticks) breaks: a task not started, a precedence, a resource or a memory pool overfull.

    `capacities` limits each memory pool (None: no limit); by default no pool is checked.
    """
    missing = [task for task, start in enumerate(starts) if start < 0]
    if missing:
        yield from (f"{name(task)} never starts" for task in missing)
        return
    for before, after, lag in graph.arrows():
        ready = starts[before] + graph.durations[before] + lag
        if starts[after] < ready:
            yield f"{name(after)} starts at {starts[after]}, before {name(before)} lets it at {ready}"
    by_resource: dict[int, list[int]] = {}
    for task, resource in enumerate(graph.resources):
        by_resource.setdefault(resource, []).append(task)
    for resource, tasks in by_resource.items():
        if resource != NOWHERE:
            yield from _overfull(graph, starts, tasks, resource, name)
    for pool, capacity in enumerate(capacities):
        if capacity is not None:
            peak = max(accumulate(change for _, change in memory_changes(graph, starts, pool)), default=0)
            if peak > capacity:
                yield f"memory pool {pool} reaches {peak}, over its capacity of {capacity}"


def _overfull(
    graph: TaskGraph, starts: Sequence[int], tasks: Iterable[int], resource: int, name: Name
) -> Iterator[str]:
    running: list[tuple[int, int]] = []  # (end, task)
    for start, task in sorted((starts[task], task) for task in tasks if graph.durations[task]):
        while running and running[0][0] <= start:
            heappop(running)
        if len(running) >= graph.unit_counts[resource]:
            yield f"resource {resource}: {name(task)} starts at {start} while {name(running[0][1])} is running"
        heappush(running, (start + graph.durations[task], task))


def memory_changes(graph: TaskGraph, starts: Sequence[int], pool: int) -> list[tuple[int, int]]:
    """Return the (time, change) events of a pool in order; what is given back at a time comes before what is taken."""
    events: list[tuple[int, int]] = []
    for task, own in enumerate(graph.pools):
        if own == pool:
            events.append((starts[task], graph.takes[task]))
            events.append((starts[task] + graph.durations[task], -graph.gives[task]))
    return sorted(event for event in events if event[1])

"""The `TaskGraph`, to which every front end lowers its problems, and the independent check of start times.

Tasks are numbered 0..n-1 and described by columns of integers, so that a million of them are cheap, and so are their
precedences: `Edges` are three columns. Lists of Python integers, for loops that are not kernels, are made when asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from math import gcd
from typing import Any

from pipesched.core.arrays import Ints, column, in_range, lists, np, run_kernel, total
from pipesched.core.clock import check_deadline, watched

NOWHERE = -1  # the resource of a task that occupies nothing


class Edges:
    """Precedences: `after[i]` starts `lag[i]` ticks or more after the end of `before[i]`; one lag may stand for all.

    Raises ValueError for columns of several lengths.
    """

    __slots__ = ("after", "before", "lag")

    def __init__(self, before: Iterable[int], after: Iterable[int], lag: int | Iterable[int] = 0) -> None:
        self.before, self.after = column(before), column(after)
        if isinstance(lag, int):
            lag = np.full(len(self.before), lag, dtype=np.int64 if abs(lag) < 2**63 else object)
        self.lag = column(lag)
        if not len(self.before) == len(self.after) == len(self.lag):
            raise ValueError(f"{len(self.before)} tasks before, {len(self.after)} after, {len(self.lag)} lags")

    def __len__(self) -> int:
        return len(self.before)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Yield every single precedence as (before, after, lag)."""
        for first in range(0, len(self), 4096):
            check_deadline()
            part = slice(first, first + 4096)
            yield from zip(self.before[part].tolist(), self.after[part].tolist(), self.lag[part].tolist(), strict=True)

    @classmethod
    def joined(cls, parts: Iterable[Edges]) -> Edges:
        every = [part for part in parts if len(part)]
        if len(every) < 2:
            return every[0] if every else cls((), ())
        columns = ([getattr(part, name) for part in every] for name in ("before", "after", "lag"))
        return cls(*map(np.concatenate, columns))

    def where(self, chosen: Ints) -> Edges:
        """Return the edges that a column of truths, or of places, picks."""
        return Edges(self.before[chosen], self.after[chosen], self.lag[chosen])

    def scaled(self, factor: int) -> Edges:
        return Edges(self.before, self.after, [lag * factor for lag in self.lag.tolist()])


def arrow(before: int, after: int, lag: int = 0) -> Edges:
    """Return one precedence between two tasks."""
    return Edges((before,), (after,), lag)


def arrows(found: Iterable[tuple[int, int, int]]) -> Edges:
    """Return precedences that are found one by one, each as (before, after, lag)."""
    return Edges(*(zip(*every, strict=True) if (every := [*found]) else ((), ())))


class WaitTable:
    """Edges by one of their ends: task i has those from `first[i]` to `first[i + 1]` of `task` and `lag`."""

    def __init__(self, keys: Ints, values: Ints, lags: Ints, size: int) -> None:
        blank = (np.zeros(count, int) for count in (size + 1, len(keys), len(keys)))
        _, (self.first, self.task, self.lag) = run_kernel("compress", keys, values, lags, *blank, written=3)

    def lists(self) -> list[list[tuple[int, int]]]:
        """Return the (task, lag) pairs of each task."""
        bounds, pairs = self.first.tolist(), [*zip(self.task.tolist(), self.lag.tolist(), strict=True)]
        return [pairs[start:stop] for start, stop in zip(watched(bounds[:-1]), bounds[1:], strict=True)]


class TaskGraph:
    """Tasks with durations (integer ticks) on resources, precedences with lags, and memory.

    Task i occupies one unit of `resources[i]` for `durations[i]` ticks; NOWHERE: none, nor any memory.
    Resource r has `unit_counts[r]` units: 1 is a machine, k is a class of k identical units. At its start a task takes
    `takes[i]` from memory pool `pools[i]`, at its end it gives `gives[i]` back (both default to nothing).
    `deliveries[i]` ticks after its end the result of task i is out, occupying nobody; the last one out ends the
    schedule (default: at once). The same columns in the singular (`duration`) are arrays.
    """

    def __init__(
        self,
        durations: Iterable[int],
        resources: Iterable[int],
        unit_counts: Iterable[int],
        edges: Edges | Iterable[Edges] = (),
        takes: Iterable[int] = (),
        gives: Iterable[int] = (),
        pools: Iterable[int] = (),
        deliveries: Iterable[int] = (),
    ) -> None:
        duration = column(durations)
        self.edges = edges if isinstance(edges, Edges) else Edges.joined(edges)
        most_lag = int(self.edges.lag.max()) if len(self.edges) else 0
        self.duration = in_range(duration, total(duration) + len(duration) * most_lag)
        self.resource, self.unit_counts = column(resources), tuple(unit_counts)
        take, give = column(takes), column(gives)
        most = max(total(take), total(give))
        self.take, self.give, self.pool = in_range(take, most), in_range(give, most), column(pools)
        self.delivery = column(deliveries)

    def __len__(self) -> int:
        return len(self.duration)

    def changed(self, **columns: Any) -> TaskGraph:
        """Return the graph with other columns, by the names of the parameters."""
        own = {"durations": self.duration, "resources": self.resource, "unit_counts": self.unit_counts,
               "edges": self.edges, "takes": self.take, "gives": self.give, "pools": self.pool,
               "deliveries": self.delivery}  # fmt: skip
        return TaskGraph(**{**own, **columns})

    def by_resource(self, tasks: Iterable[int]) -> list[list[int]]:
        """Return `tasks`, in their order, split by the resource that they occupy."""
        split: list[list[int]] = [[] for _ in self.unit_counts]
        for task in tasks:
            split[self.resources[task]].append(task)
        return split

    durations = cached_property(lambda graph: lists(graph.duration))
    resources = cached_property(lambda graph: lists(graph.resource))
    takes = cached_property(lambda graph: lists(graph.take))
    gives = cached_property(lambda graph: lists(graph.give))
    pools = cached_property(lambda graph: lists(graph.pool))
    deliveries = cached_property(lambda graph: lists(graph.delivery))

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all durations and lags (1 when nothing takes time)."""
        return gcd(*self.durations, *self.edges.lag.tolist()) or 1

    @cached_property
    def waits(self) -> WaitTable:
        """What each task waits for."""
        return WaitTable(self.edges.after, self.edges.before, self.edges.lag, len(self))

    @cached_property
    def followers(self) -> WaitTable:
        """What waits for each task."""
        return WaitTable(self.edges.before, self.edges.after, self.edges.lag, len(self))

    @cached_property
    def predecessors(self) -> list[list[tuple[int, int]]]:
        """For each task, the (task, lag) pairs that it waits for."""
        return self.waits.lists()

    @cached_property
    def successors(self) -> list[list[tuple[int, int]]]:
        """For each task, the (task, lag) pairs that wait for it."""
        return self.followers.lists()


def reversed_graph(graph: TaskGraph) -> TaskGraph:
    """Return the same tasks with time running backwards; task i becomes task n-1-i, and takes what it gave."""
    last, edges = len(graph) - 1, graph.edges
    return graph.changed(
        durations=graph.duration[::-1],
        resources=graph.resource[::-1],
        edges=Edges(last - edges.after, last - edges.before, edges.lag),
        takes=graph.give[::-1],
        gives=graph.take[::-1],
        pools=graph.pool[::-1],
    )


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
    for before, after, lag in graph.edges:
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
        if capacity is not None:  # what is given back at a time comes before what is taken
            own = [task for task, there in enumerate(graph.pools) if there == pool]
            events = [(starts[task], graph.takes[task]) for task in own]
            events += [(starts[task] + graph.durations[task], -graph.gives[task]) for task in own]
            peak = max(accumulate(change for _, change in sorted(events)), default=0)
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

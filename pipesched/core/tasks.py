"""The task graph, to which every front end lowers its problems.

Tasks are numbered 0..n-1 and described by flat lists, so that a million of them are cheap. Precedences come in
bundles: one `Edge` joins each task of a range to its counterpart in another range, because real graphs repeat the same
arrow for every microbatch (a single arrow is a bundle of one).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, groupby
from math import gcd
from typing import NamedTuple, overload

from pipesched.core.clock import look, watched

NOWHERE = -1  # the resource of a task that occupies nothing


class Edge(NamedTuple):
    """A bundle of precedences: for every i, `after[i]` starts `lag` ticks or more after the end of `before[i]`.

    Ranges go upwards.
    """

    before: range
    after: range
    lag: int = 0


class LaggedRow(NamedTuple):
    """The same with a lag of each arrow: `after[i]` starts `lags[i]` ticks or more after the end of `before[i]`."""

    before: range
    after: range
    lags: Sequence[int]

    @property
    def edges(self) -> Iterator[Edge]:
        """Bundles of one lag each, of neighbours that have it."""
        start = 0
        for lag, same in groupby(self.lags):
            stop = start + sum(1 for _ in same)
            yield Edge(self.before[start:stop], self.after[start:stop], lag)
            start = stop


class EdgeRows(Sequence[Edge]):
    """Edges of which many differ in nothing but their lags, and then stand together in a row."""

    def __init__(self, rows: Sequence[Edge | LaggedRow]) -> None:
        self.rows = rows

    @cached_property
    def _edges(self) -> list[Edge]:
        return [*chain.from_iterable(row.edges if isinstance(row, LaggedRow) else (row,) for row in self.rows)]

    def __len__(self) -> int:
        return len(self._edges)

    @overload
    def __getitem__(self, at: int) -> Edge: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Edge]: ...

    def __getitem__(self, at: int | slice) -> Edge | Sequence[Edge]:
        return self._edges[at]


def arrow(before: int, after: int, lag: int = 0) -> Edge:
    """Return one precedence between two tasks."""
    return Edge(range(before, before + 1), range(after, after + 1), lag)


def runs(arrows: Sequence[tuple[int, int]], lag: int = 0) -> Iterator[Edge]:
    """Join neighbouring arrows whose two ends both go up by one into one edge."""
    start = 0
    for position in range(1, len(arrows) + 1):
        (first, target), size = arrows[start], position - start
        if position == len(arrows) or arrows[position] != (first + size, target + size):
            yield Edge(range(first, first + size), range(target, target + size), lag)
            start = position


@dataclass(frozen=True, eq=False)
class TaskGraph:
    """Tasks with durations (integer ticks) on resources, precedences with lags, and memory.

    Task i occupies one unit of `resources[i]` for `durations[i]` ticks; NOWHERE: none, nor any memory.
    Resource r has `unit_counts[r]` units: 1 is a machine, k is a class of k identical units. At its start a task takes
    `takes[i]` from memory pool `pools[i]`, at its end it gives `gives[i]` back (both default to nothing).
    `deliveries[i]` ticks after its end the result of task i is out, occupying nobody; the last one out ends the
    schedule (default: at once).
    """

    durations: Sequence[int]
    resources: Sequence[int]
    unit_counts: Sequence[int]
    edges: Sequence[Edge] = ()
    takes: Sequence[int] = ()
    gives: Sequence[int] = ()
    pools: Sequence[int] = field(default=())
    deliveries: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.durations)

    def by_resource(self, tasks: Iterable[int]) -> list[list[int]]:
        """Return `tasks`, in their order, split by the resource that they occupy."""
        split: list[list[int]] = [[] for _ in self.unit_counts]
        for task in tasks:
            split[self.resources[task]].append(task)
        return split

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all durations and lags (1 when nothing takes time)."""
        return gcd(*self.durations, *(edge.lag for edge in self.edges)) or 1

    def arrows(self) -> Iterator[tuple[int, int, int]]:
        """Yield every single precedence as (before, after, lag)."""
        for before, after, lag in self.edges:
            look()
            for pair in zip(before, after, strict=True):
                yield *pair, lag

    @cached_property
    def predecessors(self) -> list[list[tuple[int, int]]]:
        """For each task, the (task, lag) pairs that it waits for."""
        table: list[list[tuple[int, int]]] = [[] for _ in watched(self.durations)]
        for before, after, lag in self.arrows():
            table[after].append((before, lag))
        return table

    @cached_property
    def successors(self) -> list[list[tuple[int, int]]]:
        """For each task, the (task, lag) pairs that wait for it."""
        table: list[list[tuple[int, int]]] = [[] for _ in watched(self.durations)]
        for before, after, lag in self.arrows():
            table[before].append((after, lag))
        return table

    def successors_of(self, tasks: range) -> dict[int, list[tuple[int, int]]]:
        """Return `successors` of a few neighbouring tasks alone."""
        table: dict[int, list[tuple[int, int]]] = {task: [] for task in tasks}
        for before, after, lag in self.edges if tasks else ():
            if before and before[0] < tasks.stop and before[-1] >= tasks.start:
                for task, other in zip(before, after, strict=True):
                    if task in table:
                        table[task].append((other, lag))
        return table


def reversed_graph(graph: TaskGraph) -> TaskGraph:
    """Return the same tasks with time running backwards; task i becomes task n-1-i, and takes what it gave."""
    last = len(graph) - 1

    def mirror(tasks: range) -> range:
        return range(last - tasks[-1], last - tasks[0] + 1, tasks.step)

    return replace(
        graph,
        durations=graph.durations[::-1],
        resources=graph.resources[::-1],
        edges=[Edge(mirror(edge.after), mirror(edge.before), edge.lag) for edge in graph.edges if edge.before],
        takes=graph.gives[::-1],
        gives=graph.takes[::-1],
        pools=graph.pools[::-1],
    )

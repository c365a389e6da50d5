"""Many list schedules of one graph: by several rules, backwards and forwards, by where a relaxation puts the tasks.

Each takes about a millisecond for a hundred tasks, and one of many may well be the shortest schedule there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import Edge, TaskGraph

Rule = tuple[str, str]  # (priority, tie)
RULES: tuple[Rule, ...] = (
    ("alap", "pairing"),
    ("mobility", "pairing"),
    ("alap", "input"),
    ("mobility", "fifo"),
    ("successors", "dfs"),
    ("asap", "pairing"),
)


class Found(NamedTuple):
    """The start of each task in ticks, and what found them."""

    starts: Sequence[int]
    method: str


def length_of(graph: TaskGraph, starts: Sequence[int]) -> int:
    """When the last result is out."""
    deliveries = graph.deliveries or [0] * len(graph)
    return max((sum(parts) for parts in zip(starts, graph.durations, deliveries, strict=True)), default=0)


def by_rules(graph: TaskGraph) -> Iterator[Found]:
    """By each of RULES."""
    for priority, tie in RULES:
        yield Found(list_schedule(graph, priority=priority, tie=tie).starts, f"list ({priority}, {tie})")


def by_tails(graph: TaskGraph, after: Sequence[int]) -> Iterator[Found]:
    """By tails that know of the resources."""
    late = [-tail - duration for tail, duration in zip(after, graph.durations, strict=True)]
    for tie in ("pairing", "input", "most-descendants"):
        yield Found(list_schedule(graph, priority=late, tie=tie).starts, f"list (sharpened tails, {tie})")


def back_and_forth(graph: TaskGraph) -> Iterator[Found]:
    """What RULES list, listed backwards and forwards as long as that shortens it (Li and Willis 1992)."""
    mirrored = mirror(graph)
    for found in by_rules(graph):
        starts = found.starts
        length = length_of(graph, starts) + 1
        while length_of(graph, starts) < length:
            length = length_of(graph, starts)
            starts = _swung(graph, mirrored, starts)
            yield Found(starts, f"{found.method}, improved back and forth")


def by_middles(graph: TaskGraph, mirrored: TaskGraph, middles: Sequence[float]) -> Iterator[Found]:
    """By the mean start of each task in a relaxation, in ticks; `mirrored` is the mirror of `graph`."""
    listed = list_schedule(graph, priority=middles, tie="pairing").starts
    for starts in (listed, _swung(graph, mirrored, listed), _swung(graph, mirrored, middles)):
        yield Found(starts, "list (linear relaxation)")


def mirror(graph: TaskGraph) -> TaskGraph:
    """The graph with time running backwards, each task under its own number (no deliveries, no memory)."""
    edges = [Edge(edge.after, edge.before, edge.lag) for edge in graph.edges]
    return TaskGraph(graph.durations, graph.resources, graph.capacities, edges)


def _swung(graph: TaskGraph, mirrored: TaskGraph, starts: Sequence[float]) -> Sequence[int]:
    """Listed backwards, what ends last first, and then forwards, what started last in that first."""
    for side in (mirrored, graph):
        late = [-start - time for start, time in zip(starts, graph.durations, strict=True)]
        starts = listed = list_schedule(side, priority=late, tie="pairing").starts
    return listed

"""Many list schedules of one graph: by several rules, backwards and forwards, and along a relaxation.

Each takes about a millisecond for a hundred tasks, and one of many is often the shortest schedule that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import Edges, TaskGraph

RULES = (  # (priority, tie)
    ("alap", "pairing"),
    ("mobility", "pairing"),
    ("alap", "input"),
    ("mobility", "fifo"),
    ("successors", "dfs"),
    ("asap", "pairing"),
)


class Listing(NamedTuple):
    """A list schedule: the start of each task in ticks, and the name of what made it."""

    starts: Sequence[int]
    method: str


def length_of(graph: TaskGraph, starts: Sequence[int]) -> int:
    """Return when the last result is delivered, in ticks."""
    deliveries = graph.deliveries or [0] * len(graph)
    return max((sum(parts) for parts in zip(starts, graph.durations, deliveries, strict=True)), default=0)


def by_rules(graph: TaskGraph) -> Iterator[Listing]:
    """Yield the list schedule of each of RULES."""
    for priority, tie in RULES:
        yield Listing(list_schedule(graph, priority=priority, tie=tie).starts, f"list ({priority}, {tie})")


def by_tails(graph: TaskGraph, after: Sequence[int]) -> Iterator[Listing]:
    """Yield list schedules by tails that count the resources (`bounds.sharpened`), in ticks; the longest first."""
    late = [-tail - duration for tail, duration in zip(after, graph.durations, strict=True)]
    for tie in ("pairing", "input", "most-descendants"):
        yield Listing(list_schedule(graph, priority=late, tie=tie).starts, f"list (sharpened tails, {tie})")


def back_and_forth(graph: TaskGraph) -> Iterator[Listing]:
    """Apply forward-backward improvement to each rule's schedule (Li and Willis 1992)."""
    backwards = backwards_in_time(graph)
    for listing in by_rules(graph):
        starts = listing.starts
        length = length_of(graph, starts) + 1
        while length_of(graph, starts) < length:
            length = length_of(graph, starts)
            starts = _back_and_forth_once(graph, backwards, starts)
            yield Listing(starts, f"{listing.method}, improved back and forth")


def by_middles(graph: TaskGraph, backwards: TaskGraph, middles: Sequence[float]) -> Iterator[Listing]:
    """Yield list schedules by the mean start of each task in a relaxation, in ticks.

    `backwards` is the backwards_in_time of `graph`.
    """
    listed = list_schedule(graph, priority=middles, tie="pairing").starts
    passes = [_back_and_forth_once(graph, backwards, starts) for starts in (listed, middles)]
    for starts in (listed, *passes):
        yield Listing(starts, "list (linear relaxation)")


def backwards_in_time(graph: TaskGraph) -> TaskGraph:
    """Return the graph with time running backwards, each task under its own number (no deliveries, no memory)."""
    edges = Edges(graph.edges.after, graph.edges.before, graph.edges.lag)
    return TaskGraph(graph.duration, graph.resource, graph.unit_counts, edges)


def _back_and_forth_once(graph: TaskGraph, backwards: TaskGraph, starts: Sequence[float]) -> Sequence[int]:
    """List backwards, what ends last in `starts` first; then forwards, what ended last backwards first."""
    for side in (backwards, graph):
        late = [-start - time for start, time in zip(starts, graph.durations, strict=True)]
        starts = listed = list_schedule(side, priority=late, tie="pairing").starts
    return listed

"""Longest paths through a task graph, as if every resource had units for all tasks at once."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.core.clock import EVERY, look, watched
from pipesched.core.tasks import TaskGraph
from pipesched.errors import InvalidSchedule

UNREACHED = -1


def topological_order(graph: TaskGraph) -> list[int]:
    """Return the tasks in an order in which each comes after all that it waits for.

    Raises InvalidSchedule for a cycle.
    """
    waiting = [len(before) for before in graph.predecessors]
    order = [task for task, count in enumerate(waiting) if not count]
    for position, task in enumerate(order):  # grows while it is walked
        if not position & EVERY:
            look()
        for after, _ in graph.successors[task]:
            waiting[after] -= 1
            if not waiting[after]:
                order.append(after)
    if len(order) < len(graph):
        stuck = [task for task, count in enumerate(waiting) if count]
        raise InvalidSchedule(f"the precedences of tasks {stuck[:8]} form a cycle")
    return order


def heads(graph: TaskGraph, releases: Sequence[int] = ()) -> list[int]:
    """Return the earliest start (ASAP) of each task in ticks, by its longest path of predecessors.

    `releases` is when each task may start at all (default: at once).
    """
    begun = list(releases) or [0] * len(graph)
    return _lengthened(begun, topological_order(graph), graph.durations, graph.successors)


def tails(graph: TaskGraph, ends: Sequence[int] = ()) -> list[int]:
    """Return the ticks that must pass between the end of each task and the end of the schedule (longest path).

    `ends` is what passes after each task that may be the last one, UNREACHED for others (default: its delivery).
    """
    begun = list(ends or graph.deliveries) or [0] * len(graph)
    return _lengthened(begun, topological_order(graph)[::-1], graph.durations, graph.predecessors)


def longest_path(graph: TaskGraph, source: int, target: int) -> int:
    """Return the ticks from the start of `source` to the end of `target` along the longest path; -1 without a path."""
    begun = [UNREACHED] * len(graph)
    begun[source] = 0
    start = _lengthened(begun, topological_order(graph), graph.durations, graph.successors)[target]
    return UNREACHED if start == UNREACHED else start + graph.durations[target]


def _lengthened(
    lengths: list[int], order: Sequence[int], durations: Sequence[int], arrows: Sequence[Sequence[tuple[int, int]]]
) -> list[int]:
    """Return `lengths`, the ticks before each task in `order`, as the longest paths along `arrows` make them."""
    for task in watched(order):
        if lengths[task] != UNREACHED:
            whole = lengths[task] + durations[task]
            for other, lag in arrows[task]:
                if lengths[other] < whole + lag:
                    lengths[other] = whole + lag
    return lengths

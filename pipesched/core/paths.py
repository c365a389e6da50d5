"""Longest paths through a task graph, as if every resource had units for all tasks at once."""

from __future__ import annotations

from pipesched.core.clock import EVERY, look, watched
from pipesched.core.tasks import TaskGraph
from pipesched.errors import InvalidSchedule


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


def heads(graph: TaskGraph) -> list[int]:
    """Return the earliest start (ASAP) of each task in ticks, by its longest path of predecessors."""
    start = [0] * len(graph)
    durations, successors = graph.durations, graph.successors
    for task in watched(topological_order(graph)):
        end = start[task] + durations[task]
        for after, lag in successors[task]:
            if start[after] < end + lag:
                start[after] = end + lag
    return start


def tails(graph: TaskGraph) -> list[int]:
    """Return the ticks that must pass between the end of each task and the end of the schedule (longest path)."""
    tail = list(graph.deliveries) or [0] * len(graph)
    durations, predecessors = graph.durations, graph.predecessors
    for task in watched(topological_order(graph)[::-1]):
        whole = tail[task] + durations[task]
        for before, lag in predecessors[task]:
            if tail[before] < whole + lag:
                tail[before] = whole + lag
    return tail


def longest_path(graph: TaskGraph, source: int, target: int) -> int:
    """Return the ticks from the start of `source` to the end of `target` along the longest path; -1 without a path."""
    longest = [-1] * len(graph)
    longest[source] = graph.durations[source]
    for task in watched(topological_order(graph)):
        if longest[task] >= 0:
            for after, lag in graph.successors[task]:
                longest[after] = max(longest[after], longest[task] + lag + graph.durations[after])
    return longest[target]

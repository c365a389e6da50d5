"""Priorities of the list scheduler: one number a task, least first, fixed before the first pick."""

from __future__ import annotations

from collections.abc import Callable
from operator import neg, sub

from pipesched.core.paths import heads, tails, topological_order
from pipesched.core.tasks import TaskGraph
from pipesched.errors import ConfigError

MOST_TASKS_WITH_DESCENDANTS = 20_000  # the sets of descendants take n*n/8 bytes


def none(graph: TaskGraph) -> list[int]:
    """Rank all tasks equal: the tie decides."""
    return [0] * len(graph)


def asap(graph: TaskGraph) -> list[int]:
    """Rank by the earliest possible start."""
    return heads(graph)


def alap(graph: TaskGraph) -> list[int]:
    """Rank by the latest possible start: the longest task with its tail first (the critical path)."""
    return [-tail - duration for tail, duration in zip(tails(graph), graph.durations, strict=True)]


def mobility(graph: TaskGraph) -> list[int]:
    """Rank by slack, the least first: latest minus earliest start (less the same constant for all)."""
    return list(map(sub, alap(graph), heads(graph)))


def successors(graph: TaskGraph) -> list[int]:
    """Rank by the number of direct successors, the most first."""
    return [-len({after for after, _ in arrows}) for arrows in graph.successors]


def descendants(graph: TaskGraph) -> list[int]:
    """Rank by the number of tasks that depend on a task, directly or not, the most first."""
    return list(map(neg, descendant_counts(graph)))


def descendant_counts(graph: TaskGraph) -> list[int]:
    """Return how many tasks depend on each task, directly or not. Raises ConfigError for too many tasks."""
    if len(graph) > MOST_TASKS_WITH_DESCENDANTS:
        raise ConfigError(
            f"counting the descendants of {len(graph):,} tasks takes too much memory"
            f" (at most {MOST_TASKS_WITH_DESCENDANTS:,}); take another priority or tie, for instance alap"
        )
    below = [0] * len(graph)  # a set of tasks as the bits of one integer
    for task in reversed(topological_order(graph)):
        for after, _ in graph.successors[task]:
            below[task] |= below[after] | 1 << after
    return [bin(bits).count("1") for bits in below]


PRIORITIES: dict[str, Callable[[TaskGraph], list[int]]] = {
    "none": none,
    "asap": asap,
    "alap": alap,
    "mobility": mobility,
    "successors": successors,
    "descendants": descendants,
}

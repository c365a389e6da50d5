"""What the list scheduler takes first: priorities, one number a task, and what decides between equals."""

from __future__ import annotations

from collections.abc import Callable
from operator import neg, sub
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, levels, tails, topological_order
from pipesched.errors import ConfigError

MOST_TASKS_WITH_DESCENDANTS = 20_000  # the sets of descendants take n*n/8 bytes
FIXED, BY_TIME, DRAWN, PAIRED = range(4)  # as the kernel knows them
BITS = 32  # of a random key


def alap(graph: TaskGraph) -> list[int]:
    """Rank by the latest possible start: the longest task with its tail first (the critical path)."""
    return [-tail - duration for tail, duration in zip(tails(graph), graph.durations, strict=True)]


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
    "none": lambda graph: [0] * len(graph),  # all tasks are equal: the tie decides
    "asap": heads,  # by the earliest possible start
    "alap": alap,
    "mobility": lambda graph: [*map(sub, alap(graph), heads(graph))],  # by slack, less the same constant for all
    "successors": lambda graph: [-len({after for after, _ in arrows}) for arrows in graph.successors],  # the most first
    "descendants": lambda graph: [*map(neg, descendant_counts(graph))],  # the most first
}


class Tie(NamedTuple):
    """What is added to the priority of each task, times `span`: a number below that, at first and as it gets ready.

    A task gets nothing more, the number of the moment, or the next random number. `PAIRED` ones lose 1 once all other
    operands of a consumer have been issued, which no fixed key can express.
    """

    key: Ints
    span: int
    kind: int = FIXED


def _input(graph: TaskGraph) -> Tie:
    """Input order: every key is equal, so the index decides."""
    return Tie(np.zeros(len(graph), dtype=np.int64), 1)


def _depth(graph: TaskGraph) -> Tie:
    """Depth first (dfs, lifo), to finish what was begun: the task with the longest chain of tasks before it first."""
    return _most_first(levels(graph))


def _fixed(keys: Ints) -> Tie:
    return Tie(keys, int(keys.max()) + 1 if len(keys) else 1)


def _most_first(counts: Ints) -> Tie:
    return _fixed(counts.max() - counts if len(counts) else counts)


TIES: dict[str, Callable[[TaskGraph], Tie]] = {
    "input": _input,
    "reverse": lambda graph: _fixed(np.arange(len(graph), 0, -1)),
    "fifo": lambda graph: _input(graph)._replace(span=2 * len(graph) + 2, kind=BY_TIME),  # longest ready first
    "lifo": _depth,
    "dfs": _depth,
    "bfs": lambda graph: _fixed(levels(graph)),  # level by level: the shortest chain of tasks before it first
    "random": lambda graph: _input(graph)._replace(span=1 << BITS, kind=DRAWN),
    "most-descendants": lambda graph: _most_first(column(descendant_counts(graph))),
    # a task that completes the operands of a consumer first, all others of which have been issued
    "pairing": lambda graph: Tie(np.ones(len(graph), dtype=np.int64), 2, PAIRED),
}

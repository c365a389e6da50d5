"""Ties of the list scheduler: what decides between ready tasks of equal priority. Least key first.

A tie is told when a task becomes ready, and which tasks have been issued: `pairing` needs the latter, which no fixed
key can express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from pipesched.core.paths import topological_order
from pipesched.core.priorities import descendant_counts
from pipesched.core.tasks import TaskGraph


class Tie:
    """Input order: every key is equal, so the index decides. The other ties override one or both methods."""

    def __init__(self, graph: TaskGraph, random: Random) -> None:
        self.graph = graph
        self.random = random

    def key(self, task: int, now: int) -> int:
        """Return the key of `task`, which is ready at `now`."""
        return 0

    def issued(self, task: int) -> Iterable[int]:
        """Take note that `task` was issued; return the tasks whose key may have changed by that."""
        return ()


class Reverse(Tie):
    """Reverse input order: the last task first."""

    def key(self, task: int, now: int) -> int:
        return -task


class Fifo(Tie):
    """First in, first out: the task that has been ready longest first."""

    def key(self, task: int, now: int) -> int:
        return now


class Shuffled(Tie):
    """Random order; the seed repeats it."""

    def key(self, task: int, now: int) -> int:
        return self.random.getrandbits(32)


class Level(Tie):
    """Breadth first (bfs), level by level: the task with the shortest chain of tasks before it first."""

    def __init__(self, graph: TaskGraph, random: Random) -> None:
        super().__init__(graph, random)
        self.level = [0] * len(graph)
        for task in topological_order(graph):
            for after, _ in graph.successors[task]:
                self.level[after] = max(self.level[after], self.level[task] + 1)

    def key(self, task: int, now: int) -> int:
        return self.level[task]


class Depth(Level):
    """Depth first (dfs, lifo), to finish what was begun: the task with the longest chain of tasks before it first."""

    def key(self, task: int, now: int) -> int:
        return -self.level[task]


class MostDescendants(Tie):
    """Most descendants: the task on which the most tasks depend first."""

    def __init__(self, graph: TaskGraph, random: Random) -> None:
        super().__init__(graph, random)
        self.count = descendant_counts(graph)

    def key(self, task: int, now: int) -> int:
        return -self.count[task]


class Pairing(Tie):
    """Pairing: a task that completes the operands of a consumer first, all others of which have been issued."""

    def __init__(self, graph: TaskGraph, random: Random) -> None:
        super().__init__(graph, random)
        self.is_issued = bytearray(len(graph))

    def key(self, task: int, now: int) -> int:
        return 0 if any(self._completes(task, consumer) for consumer, _ in self.graph.successors[task]) else 1

    def _completes(self, task: int, consumer: int) -> bool:
        others = [operand for operand, _ in self.graph.predecessors[consumer] if operand != task]
        return bool(others) and all(self.is_issued[operand] for operand in others)

    def issued(self, task: int) -> Iterable[int]:
        self.is_issued[task] = 1
        consumers = {consumer for consumer, _ in self.graph.successors[task]}
        return {operand for consumer in consumers for operand, _ in self.graph.predecessors[consumer]} - {task}


TIES: dict[str, Callable[[TaskGraph, Random], Tie]] = {
    "input": Tie,
    "reverse": Reverse,
    "fifo": Fifo,
    "lifo": Depth,
    "dfs": Depth,
    "bfs": Level,
    "random": Shuffled,
    "most-descendants": MostDescendants,
    "pairing": Pairing,
}

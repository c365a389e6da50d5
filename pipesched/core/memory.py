"""Memory pools under a limit while a schedule grows: the columns of the kernel that says which tasks may start now.

Memory without deadlock: a task fits only if afterwards the jobs that have begun can still finish, one by one. This is
Dijkstra's banker (EWD 623, 1977) with the jobs in the order of their numbers. A job has begun when it has taken memory;
precedences may not join different jobs. The claim of a job is the most memory that it needs, less what it frees before,
when its tasks run one by one in a fixed order: that of `turns`, all tasks in an order that keeps the precedences, or
one in which those that take nothing run as soon as they can. In a safe state the claim of the first job that has begun
is free in every pool, and going on with it keeps the state safe. So a capacity that holds one whole job is enough for
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipesched.core.arrays import Ints, Kernels, column, in_range, np, total
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph, WaitTable


class PoolLimits:
    """The capacity of each memory pool (None: no limit), and what each task asks for as it starts.

    `rooms[i]` is to stay free of the pool beside what task i takes (default: nothing). Of tasks that ask for the same
    of a pool, all fit or none.
    """

    def __init__(self, graph: TaskGraph, capacities: Sequence[int | None] = (), rooms: Sequence[int] = ()) -> None:
        none = np.zeros(len(graph), dtype=np.int64)
        self.graph, self.capacities, self.jobs = graph, capacities, 0
        self.take = self.give = self.ask = self.pool = none
        self.capacity = none[:1]
        if not capacities:
            return
        room, self.take, self.give, self.ask = column(rooms), graph.take, graph.give, graph.take
        if len(room):  # is to stay free beside what they take
            self.ask = graph.take + in_range(room, total(room))
        largest = total(self.take) + total(self.ask) + total(self.give)  # nothing that is added up is beyond it
        self.ask = in_range(self.ask, largest)
        self.capacity = column([largest if most is None else min(most, largest) for most in capacities])
        self.pool = np.where((self.ask != 0) | (self.give != 0), graph.pool, 0)
        if len(self.pool) and not 0 <= self.pool.min() <= self.pool.max() < len(self.capacity):
            raise ValueError(f"memory pools {self.pool.min()} to {self.pool.max()}, {len(self.capacity)} capacities")

    def groups(self) -> tuple[Ints, Ints, Ints]:
        """Return the group of each task, the first group of each resource, and where the tasks of each group begin.

        Tasks of a group ask for the same on the same resource.
        """
        resource, resources = self.graph.resource, np.arange(len(self.graph.unit_counts) + 1)
        placed, pools = resource >= 0, len(self.capacity)
        if not self.capacities:
            counts = np.bincount(resource[placed], minlength=len(resources) - 1)
            return resource, resources, np.cumsum(counts) - counts
        amounts, asked = np.unique(self.ask[placed], return_inverse=True)
        code = (resource[placed] * pools + self.pool[placed]) * len(amounts) + asked
        group = resource.copy()
        found, group[placed], counts = np.unique(code, return_inverse=True, return_counts=True)
        return group, np.searchsorted(found, resources * (pools * len(amounts))), np.cumsum(counts) - counts

    def users(self) -> tuple[Ints, Ints]:
        """Return the resources whose tasks take from each pool, as compressed rows."""
        count, placed = max(len(self.graph.unit_counts), 1), self.graph.resource >= 0
        pairs = self.pool[placed] * count + self.graph.resource[placed] if self.capacities else self.pool[:0]
        pairs = np.unique(pairs)
        return np.searchsorted(pairs, np.arange(len(self.capacity) + 1) * count), pairs % count

    def greedy(self, kernels: Kernels) -> Any:
        """Return pools in which a task fits when what it asks for is free."""
        empty = [kernels.blank(0)] * 10
        return kernels.lists.MemoryPools(*self._columns(kernels), *empty)

    def safe(self, kernels: Kernels, owners: Sequence[int], turns: Sequence[int] = ()) -> Any:
        """Return pools without deadlock, by the job of each task in `owners`."""
        owner, pools = column(owners), len(self.capacity)
        order = column(turns) if len(turns) else _givers_first(self.graph)
        jobs = self.jobs = int(owner.max()) + 1
        look()
        busy = order[((self.take != 0) | (self.give != 0))[order]]
        rows = WaitTable(owner[busy] * pools + self.pool[busy], busy, busy * 0, jobs * pools)
        unfinished = np.bincount(owner[order], minlength=jobs)
        return kernels.lists.MemoryPools(
            *self._columns(kernels),
            *map(kernels.give, (owner, rows.first, rows.task)),
            kernels.blank(len(owner)),
            *(kernels.blank(jobs * pools) for _ in range(3)),
            kernels.give(unfinished),
            *(kernels.blank(jobs) for _ in range(2)),
        )

    def _columns(self, kernels: Kernels) -> list[Any]:
        columns = (self.take, self.give, self.ask, self.pool, self.capacity)
        return [*map(kernels.give, columns), kernels.blank(len(self.capacity))]


def _givers_first(graph: TaskGraph) -> Ints:
    """Return the tasks in an order that keeps the precedences, in which what takes no memory runs as soon as it can."""
    look()
    size, kernels, follows, waiting = len(graph), Kernels(), graph.followers, np.diff(graph.waits.first)
    free, takes = np.flatnonzero(waiting == 0), (graph.take > 0).astype(np.int64)
    place, begun = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    begun[: len(free)] = free[np.argsort(takes[free], kind="stable")]
    place[begun[: len(free)]] = np.arange(len(free))
    columns = (begun, column([0]), column([len(free)]), takes, place)
    order = kernels.blank(size)
    heap = kernels.lists.Heaps(*map(kernels.give, columns))
    count = kernels.lists.sort_by_key(*map(kernels.give, (follows.first, follows.task, waiting)), order, heap)
    return column(order)[:count]

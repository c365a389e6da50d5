"""Memory pools under a limit while a schedule grows: they say which tasks may start now."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from pipesched.core.clock import EVERY, look, watched
from pipesched.core.tasks import TaskGraph


class MemoryPools:
    """The memory that is used of each pool. A task fits when what it takes is free."""

    def __init__(self, graph: TaskGraph, capacities: Sequence[int | None], rooms: Sequence[int] = ()) -> None:
        """Make empty pools. `rooms[i]` is to stay free of the pool beside what task i takes (default: nothing)."""
        self.takes, self.gives, self.pools = graph.takes, graph.gives, graph.pools
        self.asks = [take + room for take, room in zip(self.takes, rooms, strict=True)] if rooms else self.takes
        self.capacities = [inf if capacity is None else capacity for capacity in capacities]
        self.used = [0] * len(capacities)

    def demand(self, task: int) -> tuple[int, int]:
        """Return what `task` asks for: (pool, amount). Of tasks that ask for the same, all fit or none."""
        return self.pools[task], self.asks[task]

    def fits(self, task: int) -> bool:
        """Return whether `task` can start now."""
        ask, pool = self.asks[task], self.pools[task]
        return not ask or self.used[pool] + ask <= self.capacities[pool]

    def start(self, task: int) -> None:
        """Take the memory of `task`."""
        self.used[self.pools[task]] += self.takes[task]

    def end(self, task: int) -> int | None:
        """Give back the memory of `task`; return the pool that has more free now, if any."""
        self.used[self.pools[task]] -= self.gives[task]
        return self.pools[task] if self.gives[task] else None


class UnlimitedPools(MemoryPools):
    """Memory without a limit: every task fits."""

    def __init__(self) -> None:
        """Keep no record."""

    def demand(self, task: int) -> tuple[int, int]:
        return 0, 0

    def fits(self, task: int) -> bool:
        return True

    def start(self, task: int) -> None:
        """Keep no record."""

    def end(self, task: int) -> int | None:
        return None


class SafePools(MemoryPools):
    """Memory without deadlock: a task fits only if afterwards the jobs that have begun can still finish, one by one.

    This is Dijkstra's banker (EWD 623, 1977) with the jobs in the order of their numbers. A job has begun when it has
    taken memory; precedences may not join different jobs. The claim of a job is the most memory that it needs, less
    what it frees before, when its tasks run one by one in a fixed order: that of `turns`, all tasks in an order that
    keeps the precedences, or one in which those that take nothing run as soon as they can. In a safe state the claim of
    the first job that has begun is free in every pool, and going on with it keeps the state safe. So a capacity that
    holds one whole job is enough for all of them.
    """

    def __init__(
        self, graph: TaskGraph, capacities: Sequence[int | None], owners: Sequence[int], turns: Sequence[int] = ()
    ) -> None:
        super().__init__(graph, capacities)
        self.owners = owners
        jobs, pools = max(owners, default=-1) + 1, len(capacities)
        self.left: list[list[list[int]]] = [[[] for _ in range(pools)] for _ in range(jobs)]  # of each job: not started
        self.claims = [[0] * pools for _ in range(jobs)]
        self.holds = [[0] * pools for _ in range(jobs)]
        self.due = [[0] * pools for _ in range(jobs)]  # what the tasks that run give back as they end
        self.unfinished = [0] * jobs
        self.begun: list[int] = []
        self.next_job = 0
        for task in watched(turns or _givers_first(graph)):
            self.unfinished[owners[task]] += 1
            if self.takes[task] or self.gives[task]:
                self.left[owners[task]][self.pools[task]].append(task)
        for job in range(jobs):
            look()
            for pool in range(pools):
                self._claim(job, pool)

    def leader(self) -> int:
        """Return the job that can always go on: the first that has begun, else the first that has not finished."""
        return self.begun[0] if self.begun else self.next_job

    def fits(self, task: int) -> bool:
        take, pool, owner = self.takes[task], self.pools[task], self.owners[task]
        if not take:
            return True
        if owner in self.begun:
            return self._is_safe(pool, self.begun, task)
        begun = sorted([*self.begun, owner])  # it makes a claim on every pool now
        return all(self._is_safe(p, begun, task) for p in range(len(self.capacities)))

    def _is_safe(self, pool: int, begun: Sequence[int], task: int) -> bool:
        """Return whether the begun jobs can finish one by one in a pool after `task` has started."""
        owner, take = self.owners[task], self.takes[task] if self.pools[task] == pool else 0
        free = self.capacities[pool] - self.used[pool] - take
        if free < 0:
            return False
        for job in begun:
            claim, held = self.claims[job][pool], self.holds[job][pool]
            if job == owner and self.pools[task] == pool:
                claim, held = self._claim_without(task), held + take
            if claim > free:
                return False
            free += held
        return True

    def _claim_without(self, task: int) -> int:
        """Return what the job of `task` claims of its pool once the task runs."""
        job, pool = self.owners[task], self.pools[task]
        rest = (other for other in self.left[job][pool] if other != task)
        return self._highest(rest, -self.due[job][pool] - self.gives[task])

    def _claim(self, job: int, pool: int) -> None:
        self.claims[job][pool] = self._highest(self.left[job][pool], -self.due[job][pool])

    def _highest(self, tasks: Iterable[int], level: int) -> int:
        """Return the highest level, at least 0, as tasks run one by one from a level on."""
        most = 0
        for task in tasks:
            level += self.takes[task]
            most = max(most, level)
            level -= self.gives[task]
        return most

    def start(self, task: int) -> None:
        super().start(task)
        take, pool, owner = self.takes[task], self.pools[task], self.owners[task]
        self.holds[owner][pool] += take
        if take or self.gives[task]:
            self.left[owner][pool].remove(task)
            self.due[owner][pool] += self.gives[task]
            self._claim(owner, pool)
        if take and owner not in self.begun:
            insort(self.begun, owner)

    def end(self, task: int) -> int | None:
        owner, pool = self.owners[task], self.pools[task]
        if self.gives[task]:
            self.holds[owner][pool] -= self.gives[task]
            self.due[owner][pool] -= self.gives[task]
            self._claim(owner, pool)
        self.unfinished[owner] -= 1
        if not self.unfinished[owner]:
            if owner in self.begun:
                self.begun.remove(owner)
            while self.next_job < len(self.unfinished) - 1 and not self.unfinished[self.next_job]:
                self.next_job += 1
        return super().end(task)


def _givers_first(graph: TaskGraph) -> list[int]:
    """Return the tasks in an order that keeps the precedences, in which what takes no memory runs as soon as it can."""
    waiting = [len(before) for before in graph.predecessors]
    ready = [(graph.takes[task] > 0, task) for task, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        if not len(order) & EVERY:
            look()
        task = heappop(ready)[1]
        order.append(task)
        for after, _ in graph.successors[task]:
            waiting[after] -= 1
            if not waiting[after]:
                heappush(ready, (graph.takes[after] > 0, after))
    return order

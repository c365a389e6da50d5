"""Memory pools under a limit while a schedule grows: they say which tasks may start now."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from math import inf

from pipesched.core.tasks import TaskGraph


class MemoryPools:
    """The memory that is used of each pool. A task fits when what it takes is free."""

    def __init__(self, graph: TaskGraph, capacities: Sequence[int | None]) -> None:
        self.takes, self.gives, self.pools = graph.takes, graph.gives, graph.pools
        self.capacities = [inf if capacity is None else capacity for capacity in capacities]
        self.used = [0] * len(capacities)

    def demand(self, task: int) -> tuple[int, int]:
        """Return what `task` asks for: (pool, amount). Of tasks that ask for the same, all fit or none."""
        return self.pools[task], self.takes[task]

    def fits(self, task: int) -> bool:
        """Return whether `task` can start now."""
        take, pool = self.takes[task], self.pools[task]
        return not take or self.used[pool] + take <= self.capacities[pool]

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
    taken memory; precedences may not join different jobs. In a safe state all that the first job that has begun still
    needs is free in every pool, and taking it keeps the state safe. So a capacity that holds one whole job is enough
    for all of them.
    """

    def __init__(self, graph: TaskGraph, capacities: Sequence[int | None], owners: Sequence[int]) -> None:
        super().__init__(graph, capacities)
        self.owners = owners
        jobs, pools = max(owners, default=-1) + 1, len(capacities)
        self.needs = [[0] * pools for _ in range(jobs)]  # what each job has yet to take of each pool
        self.holds = [[0] * pools for _ in range(jobs)]
        self.unfinished = [0] * jobs
        self.begun: list[int] = []
        self.next_job = 0
        for task, job in enumerate(owners):
            self.needs[job][self.pools[task]] += self.takes[task]
            self.unfinished[job] += 1

    def leader(self) -> int:
        """Return the job that can always go on: the first that has begun, else the first that has not finished."""
        return self.begun[0] if self.begun else self.next_job

    def fits(self, task: int) -> bool:
        take, pool, owner = self.takes[task], self.pools[task], self.owners[task]
        if not take:
            return True
        if owner in self.begun:
            return self._is_safe(pool, self.begun, owner, take)
        begun = sorted([*self.begun, owner])  # it makes a claim on every pool now
        return all(self._is_safe(p, begun, owner, take if p == pool else 0) for p in range(len(self.capacities)))

    def _is_safe(self, pool: int, begun: Sequence[int], owner: int, take: int) -> bool:
        """Return whether the begun jobs can finish one by one in a pool after `owner` has taken `take` more of it."""
        free = self.capacities[pool] - self.used[pool] - take
        if free < 0:
            return False
        for job in begun:
            more = take if job == owner else 0
            if self.needs[job][pool] - more > free:
                return False
            free += self.holds[job][pool] + more
        return True

    def start(self, task: int) -> None:
        super().start(task)
        take, pool, owner = self.takes[task], self.pools[task], self.owners[task]
        self.needs[owner][pool] -= take
        self.holds[owner][pool] += take
        if take and owner not in self.begun:
            insort(self.begun, owner)

    def end(self, task: int) -> int | None:
        owner = self.owners[task]
        self.holds[owner][self.pools[task]] -= self.gives[task]
        self.unfinished[owner] -= 1
        if not self.unfinished[owner]:
            if owner in self.begun:
                self.begun.remove(owner)
            while self.next_job < len(self.unfinished) - 1 and not self.unfinished[self.next_job]:
                self.next_job += 1
        return super().end(task)

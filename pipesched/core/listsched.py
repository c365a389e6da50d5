"""List scheduling: keep every resource busy; among the tasks that are ready and fit, take the least key.

The key is the visible tuple (priority, tie, index). The engine walks through time from event to event (a task ends, a
lag runs out) and never leaves a unit idle while a ready task fits, in memory too, unless that would end in a deadlock.
One engine serves pipelines (devices, activation memory) and hardware (units of a class, initiation intervals as
durations, latencies as lags).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from pipesched.checks import look_up
from pipesched.core.clock import EVERY, look
from pipesched.core.memory import MemoryPools, SafePools, UnlimitedPools
from pipesched.core.paths import topological_order
from pipesched.core.priorities import PRIORITIES
from pipesched.core.tasks import NOWHERE, TaskGraph
from pipesched.core.ties import TIES, Tie
from pipesched.errors import NoSchedule

UNSTARTED = -1
SELDOM = 0x1F  # a mask, as EVERY: what is safe takes as long to find as many steps of others
Entry = tuple[float, int, int]  # (priority, tie, task)


class Dispatch(NamedTuple):
    """A list schedule: the start of each task in ticks, the unit of its resource (0..units-1), and the tasks in the
    order in which they were picked."""

    starts: list[int]
    units: list[int]
    picked: list[int]


def list_schedule(
    graph: TaskGraph,
    *,
    priority: str | Sequence[float] = "none",
    tie: str = "input",
    capacities: Sequence[int | None] = (),
    owners: Sequence[int] = (),
    rooms: Sequence[int] = (),
    turns: Sequence[int] = (),
    seed: int = 0,
) -> Dispatch:
    """Return the list schedule of `graph` by a priority and a tie, the least key first.

    `priority` is a name of PRIORITIES, or a number for each task; `tie` is a name of TIES, and `seed` repeats a random
    one. Raises ConfigError for other names.

    `capacities` limits each memory pool (None: no limit). A greedy choice can end in a deadlock under a limit that
    several tasks of one job share: memory is full of half-done jobs. Then the schedule is made again with every start
    checked to be safe, by the job of each task in `owners`. Raises NoSchedule when that is not possible either. `rooms`
    makes a deadlock rarer: what is to stay free of the pool of each task as it starts (default: nothing). `turns` are
    all tasks in an order in which each job fits alone, where another than `SafePools` finds is needed for that.
    """
    memories: list[MemoryPools] = [UnlimitedPools()]
    if graph.takes and any(capacity is not None for capacity in capacities):
        memories = [MemoryPools(graph, capacities, rooms)]
        if owners:
            memories.append(SafePools(graph, capacities, owners, turns))
    ranks = look_up(PRIORITIES, priority, "priority", "priority")(graph) if isinstance(priority, str) else priority
    for memory in memories:
        engine = _Engine(graph, ranks, look_up(TIES, tie, "tie", "tie")(graph, Random(seed)), memory)
        engine.run()
        if len(engine.picked) == len(graph):
            return Dispatch(engine.starts, engine.units, engine.picked)
    topological_order(graph)  # raises InvalidSchedule if the precedences form a cycle
    left = next(task for task, start in enumerate(engine.starts) if start == UNSTARTED and not engine.waits[task])
    raise NoSchedule(f"list scheduling: task {left} never fits in memory", device=graph.pools[left])


class _Engine:
    """The state of a run: coming events, ready tasks of each resource, free units."""

    def __init__(self, graph: TaskGraph, priority: Sequence[float], tie: Tie, memory: MemoryPools) -> None:
        self.graph, self.priority, self.tie, self.memory = graph, priority, tie, memory
        self.safe = memory if isinstance(memory, SafePools) else None
        self.every = SELDOM if self.safe else EVERY
        self.starts = [UNSTARTED] * len(graph)
        self.units = [0] * len(graph)
        self.picked: list[int] = []
        self.waits = [len(before) for before in graph.predecessors]
        self.free = [list(range(capacity)) for capacity in graph.unit_counts]
        # The ready tasks of a resource by the memory they ask for: if the first of a kind does not fit, none does.
        self.ready: list[dict[tuple[int, int], list[Entry]]] = [{} for _ in graph.unit_counts]
        self.ready_of_job: dict[int, dict[int, Entry]] = {}  # only for SafePools, where that does not hold
        self.dirty: set[int] = set()  # resources where something may start now
        self.everywhere = range(len(graph.unit_counts))
        self.users: dict[int, set[int]] = {}  # the resources whose tasks take from a pool
        for pool, resource in zip(graph.pools, graph.resources, strict=False):
            self.users.setdefault(pool, set()).add(resource)
        self.ends: list[tuple[int, int]] = []
        self.arrivals: list[tuple[int, int]] = [(0, task) for task, count in enumerate(self.waits) if not count]
        self.ready_at = [0] * len(graph)

    def run(self) -> None:
        """Go from event to event until none is left."""
        while self.ends or self.arrivals:
            now = min(events[0][0] for events in (self.ends, self.arrivals) if events)
            self._settle(now)
            while (entry := self._least()) is not None:
                if not len(self.picked) & self.every:
                    look()
                self._start(entry[2], now)
                self._settle(now)  # a task of no length has ended already

    def _settle(self, now: int) -> None:
        """Handle everything that ends or becomes ready by `now`."""
        while (self.ends and self.ends[0][0] <= now) or (self.arrivals and self.arrivals[0][0] <= now):
            while self.ends and self.ends[0][0] <= now:
                self._end(heappop(self.ends)[1], now)
            while self.arrivals and self.arrivals[0][0] <= now:
                task = heappop(self.arrivals)[1]
                arrive = self._occupy if self.graph.resources[task] == NOWHERE else self._offer
                arrive(task, now)

    def _end(self, task: int, now: int) -> None:
        resource = self.graph.resources[task]
        if resource != NOWHERE:
            heappush(self.free[resource], self.units[task])
            self.dirty.add(resource)
        freed = self.memory.end(task)
        if self.safe:
            self.dirty.update(self.everywhere)  # the leader may be another job now
        elif freed is not None:
            self.dirty.update(self.users[freed])
        for after, lag in self.graph.successors[task]:
            self.ready_at[after] = max(self.ready_at[after], now + lag)
            self.waits[after] -= 1
            if not self.waits[after]:
                heappush(self.arrivals, (self.ready_at[after], after))

    def _offer(self, task: int, now: int) -> None:
        """Put `task` among the ready ones, with its key as of now."""
        resource = self.graph.resources[task]
        entry = (self.priority[task], self.tie.key(task, now), task)
        heappush(self.ready[resource].setdefault(self.memory.demand(task), []), entry)
        self.dirty.add(resource)
        if self.safe:
            self.ready_of_job.setdefault(self.safe.owners[task], {})[task] = entry

    def _least(self) -> Entry | None:
        """Return the least entry of all that may start now; set resources where nothing may start aside."""
        best: Entry | None = None
        for resource in tuple(self.dirty):
            entry = min(self._startable(resource), default=None) if self.free[resource] else None
            if entry is None:
                self.dirty.discard(resource)
            elif best is None or entry < best:
                best = entry
        return best

    def _startable(self, resource: int) -> Iterator[Entry]:
        for queue in self.ready[resource].values():
            while queue and self.starts[queue[0][2]] != UNSTARTED:
                heappop(queue)  # already started: an entry from before its key changed
            if queue and self.memory.fits(queue[0][2]):
                yield queue[0]
        if self.safe:
            for task, entry in self.ready_of_job.get(self.safe.leader(), {}).items():
                if self.graph.resources[task] == resource and self.safe.fits(task):
                    yield entry

    def _start(self, task: int, now: int) -> None:
        self.units[task] = heappop(self.free[self.graph.resources[task]])
        if self.safe:
            del self.ready_of_job[self.safe.owners[task]][task]
            self.dirty.update(self.everywhere)  # the leader may be another job now
        self._occupy(task, now)

    def _occupy(self, task: int, now: int) -> None:
        self.starts[task] = now
        self.picked.append(task)
        self.memory.start(task)
        heappush(self.ends, (now + self.graph.durations[task], task))
        for changed in self.tie.issued(task):
            is_waiting = self.waits[changed] or self.ready_at[changed] > now
            if not is_waiting and self.starts[changed] == UNSTARTED and self.graph.resources[changed] != NOWHERE:
                self._offer(changed, now)

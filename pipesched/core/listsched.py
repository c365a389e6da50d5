"""List scheduling: keep every resource busy; among the tasks that are ready and fit, take the least key.

The key is the visible tuple (priority, tie, index). The kernel walks through time from event to event: a task ends, or
a lag runs out. It never leaves a unit idle while a ready task fits, in memory too, unless a deadlock would follow.
One engine serves pipelines (devices, activation memory) and hardware (units of a class, initiation intervals as
durations, latencies as lags).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.core.arrays import LARGEST, Ints, Kernels, column, lists, np
from pipesched.core.clock import EVERY, look
from pipesched.core.memory import PoolLimits
from pipesched.core.paths import topological_order
from pipesched.core.priorities import PRIORITIES
from pipesched.core.tasks import TaskGraph
from pipesched.core.ties import BITS, DRAWN, TIES, Tie
from pipesched.errors import NoSchedule

UNSTARTED = -1


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
    is_limited = len(graph.take) > 0 and any(capacity is not None for capacity in capacities)
    ranks = look_up(PRIORITIES, priority, "priority", "priority")(graph) if isinstance(priority, str) else priority
    engine = _Engine(graph, ranks, look_up(TIES, tie, "tie", "tie")(graph), seed)
    limits = PoolLimits(graph, capacities, rooms) if is_limited else PoolLimits(graph)
    found = engine.run(limits, limits.greedy)
    if len(found.picked) < len(graph) and is_limited and owners:
        limits = PoolLimits(graph, capacities)
        found = engine.run(limits, lambda kernels: limits.safe(kernels, owners, turns))
    if len(found.picked) == len(graph):
        return found
    topological_order(graph)  # raises InvalidSchedule if the precedences form a cycle
    starts = found.starts
    unstarted = (task for task, start in enumerate(starts) if start == UNSTARTED)
    left = next(
        task for task in unstarted if all(starts[before] != UNSTARTED for before, _ in graph.predecessors[task])
    )
    raise NoSchedule(f"list scheduling: task {left} never fits in memory", device=graph.pools[left])


class _Engine:
    """What the kernel needs of a graph, a priority and a tie, whatever the memory is."""

    def __init__(self, graph: TaskGraph, priority: Sequence[float], tie: Tie, seed: int) -> None:
        self.graph, self.tie = graph, tie.kind
        random, count = Random(seed), len(graph) if tie.kind == DRAWN else 0
        self.drawn = column([random.getrandbits(BITS) for _ in range(count)])
        self.key = _ranks(priority, tie.span) * tie.span + tie.key

    def run(self, limits: PoolLimits, make: Callable[[Kernels], Any]) -> Dispatch:
        """Return the schedule with the pools that `make` makes, as far as tasks fit in memory."""
        graph, resource, size = self.graph, self.graph.resource, len(self.graph)
        waits, follows, resources = graph.waits, graph.followers, len(graph.unit_counts)
        kernels = Kernels(graph.duration, waits.lag, limits.take, limits.give, limits.ask, limits.capacity)
        give, blank, heaps, pools = kernels.give, kernels.blank, kernels.lists.Heaps, make(kernels)
        waiting, place = np.diff(waits.first), np.zeros(size, dtype=np.int64)
        coming = np.argsort(waiting, kind="stable")  # those that wait for none are the first
        place[coming] = np.arange(size)
        place, free = give(place), size - np.count_nonzero(waiting)
        (group, groups_first, begin), (users_first, users) = limits.groups(), limits.users()
        counts = np.minimum(np.bincount(resource[resource >= 0], minlength=resources), column(graph.unit_counts))
        first_unit, units = np.cumsum(counts) - counts, np.arange(counts.sum())  # no more of them are ever used
        start, unit, picked = blank(size, UNSTARTED), blank(size), blank(size)
        run = kernels.lists.ListRun(
            pools,
            heaps(blank(size), blank(1), blank(1), blank(size), place),
            heaps(give(coming), blank(1), blank(1, free), blank(size), place),
            heaps(blank(size), give(begin), blank(len(begin)), give(self.key.copy()), place),
            heaps(*map(give, (units, first_unit, counts, units * 0, units - np.repeat(first_unit, counts)))),
            *map(give, (graph.duration, resource, group, follows.first, follows.task, follows.lag, waiting)),
            *map(give, (waits.first, waits.task)),
            self.tie,
            *map(give, (self.drawn, users_first, users, groups_first)),
            *map(blank, (len(begin), resources, len(begin))),
            *(start, unit, picked),
            *map(blank, (resources, resources)),
            blank(resources, -1),
            *map(blank, (resources, resources)),
            blank(limits.jobs, -1),
            *map(blank, (size, size)),
        )
        look()
        while run.run(EVERY + 1):
            look()
        placed = resource >= 0
        number = column(unit)
        number[placed] -= first_unit[resource[placed]]
        return Dispatch(lists(start), number.tolist(), lists(picked)[: run.picks])


def _ranks(priority: Sequence[float], span: int) -> Ints:
    """Return priorities as numbers from 0 on, in the same order, which `span` times as large are within 64 bits."""
    values = np.asarray(priority)
    if values.dtype.kind == "i":
        least = int(values.min())
        if (int(values.max()) - least + 1) * span < LARGEST:
            return values - least
    place = {value: number for number, value in enumerate(sorted(set(priority)))}
    return column([place[value] for value in priority])

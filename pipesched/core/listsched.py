"""List scheduling: keep every resource busy; among the tasks that are ready and fit, take the least key.

The key is the visible tuple (priority, tie, index). The kernel walks through time from event to event: a task ends, or
a lag runs out. It never leaves a unit idle while a ready task fits, in memory too, unless a deadlock would follow.
One engine serves pipelines (devices, activation memory) and hardware (units of a class, initiation intervals as
durations, latencies as lags).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.core.arrays import LARGEST, Ints, Kernels, column, lists, np
from pipesched.core.clock import EVERY, look
from pipesched.core.memory import PoolLimits
from pipesched.core.tasks import Edges, TaskGraph
from pipesched.core.ties import BITS, DRAWN, PRIORITIES, TIES, Tie
from pipesched.core.timing import topological_order
from pipesched.errors import NoSchedule

UNSTARTED = -1
RULES = (  # (priority, tie)
    ("alap", "pairing"), ("mobility", "pairing"), ("alap", "input"),
    ("mobility", "fifo"), ("successors", "dfs"), ("asap", "pairing"),
)  # fmt: skip


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


class Listing(NamedTuple):
    """A list schedule: the start of each task in ticks, and the name of what made it."""

    starts: Sequence[int]
    method: str


def length_of(graph: TaskGraph, starts: Sequence[int]) -> int:
    """Return when the last result is delivered, in ticks."""
    deliveries = graph.deliveries or [0] * len(graph)
    return max((sum(parts) for parts in zip(starts, graph.durations, deliveries, strict=True)), default=0)


def by_rules(graph: TaskGraph) -> Iterator[Listing]:
    """Yield the list schedule of each of RULES."""
    for priority, tie in RULES:
        yield Listing(list_schedule(graph, priority=priority, tie=tie).starts, f"list ({priority}, {tie})")


def by_tails(graph: TaskGraph, after: Sequence[int]) -> Iterator[Listing]:
    """Yield list schedules by tails that count the resources (`bounds.sharpened`), in ticks; the longest first."""
    late = [-tail - duration for tail, duration in zip(after, graph.durations, strict=True)]
    for tie in ("pairing", "input", "most-descendants"):
        yield Listing(list_schedule(graph, priority=late, tie=tie).starts, f"list (sharpened tails, {tie})")


def back_and_forth(graph: TaskGraph) -> Iterator[Listing]:
    """Apply forward-backward improvement to each rule's schedule (Li and Willis 1992)."""
    backwards = backwards_in_time(graph)
    for listing in by_rules(graph):
        starts = listing.starts
        length = length_of(graph, starts) + 1
        while length_of(graph, starts) < length:
            length = length_of(graph, starts)
            starts = _back_and_forth_once(graph, backwards, starts)
            yield Listing(starts, f"{listing.method}, improved back and forth")


def by_middles(graph: TaskGraph, backwards: TaskGraph, middles: Sequence[float]) -> Iterator[Listing]:
    """Yield list schedules by the mean start of each task in a relaxation, in ticks.

    `backwards` is the backwards_in_time of `graph`.
    """
    listed = list_schedule(graph, priority=middles, tie="pairing").starts
    passes = [_back_and_forth_once(graph, backwards, starts) for starts in (listed, middles)]
    for starts in (listed, *passes):
        yield Listing(starts, "list (linear relaxation)")


def backwards_in_time(graph: TaskGraph) -> TaskGraph:
    """Return the graph with time running backwards, each task under its own number (no deliveries, no memory)."""
    edges = Edges(graph.edges.after, graph.edges.before, graph.edges.lag)
    return TaskGraph(graph.duration, graph.resource, graph.unit_counts, edges)


def _back_and_forth_once(graph: TaskGraph, backwards: TaskGraph, starts: Sequence[float]) -> Sequence[int]:
    """List backwards, what ends last in `starts` first; then forwards, what ended last backwards first."""
    for side in (backwards, graph):
        late = [-start - time for start, time in zip(starts, graph.durations, strict=True)]
        starts = listed = list_schedule(side, priority=late, tie="pairing").starts
    return listed

"""List scheduling (`list_schedule`): keep every resource busy; of the tasks that are ready and fit, take the least key.

The key is the visible tuple (priority, tie, index). The kernel walks through time from event to event: a task ends, or
a lag runs out. It never leaves a unit idle while a ready task fits, in memory too, unless a deadlock would follow.
One engine serves pipelines (devices, activation memory) and hardware (units of a class, initiation intervals as
durations, latencies as lags). `insert_in_order` is serial instead: tasks go one after another into the first free time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import inf
from operator import neg, sub
from random import Random
from typing import NamedTuple

from pipesched.checks import look_up
from pipesched.core.arrays import LARGEST, Ints, column, in_range, kernels_for, lists, np, total
from pipesched.core.clock import EVERY, check_deadline
from pipesched.core.tasks import Edges, TaskGraph, WaitTable
from pipesched.core.timing import arranged, heads, in_order, tails, topological_order
from pipesched.errors import ConfigError, NoSchedule


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

    def groups(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the group of each task, the first group of each resource, and where the tasks of each group begin.

        Tasks of a group ask for the same on the same resource. Then come the resources whose tasks take from each pool,
        as compressed rows.
        """
        count, pools = len(self.graph.unit_counts), len(self.capacity)
        resources, placed = np.arange(count + 1), self.graph.resource >= 0
        group, own = self.graph.resource.copy(), self.graph.resource[placed]
        if not self.capacities:
            counts = np.bincount(own, minlength=count)
            return group, resources, np.cumsum(counts) - counts, np.zeros(pools + 1, int), own[:0]
        amounts, asked = np.unique(self.ask[placed], return_inverse=True)
        code = (own * pools + self.pool[placed]) * len(amounts) + asked
        found, group[placed], counts = np.unique(code, return_inverse=True, return_counts=True)
        pairs = np.unique(self.pool[placed] * max(count, 1) + own)
        users = np.searchsorted(pairs, np.arange(pools + 1) * max(count, 1)), pairs % max(count, 1)
        first = np.searchsorted(found, resources * (pools * len(amounts)))
        return group, first, np.cumsum(counts) - counts, *users

    def pools(self, owners: Sequence[int] = (), turns: Sequence[int] = ()) -> list[Ints]:
        """Return the columns of pools in which a task fits when what it asks for is free.

        With the job of each task in `owners` they are without deadlock: Dijkstra's banker (EWD 623, 1977). A task fits
        only if afterwards the jobs that have begun, that is taken memory, can still finish, one by one in
        the order of their numbers. Precedences may not join different jobs. The claim of a job is the most memory that
        it needs, less what it frees before, when its tasks run one by one: in the order of `turns`, or in one in which
        those that take nothing run as soon as they can. In a safe state the claim of the first job that has begun is
        free in every pool, and going on with it keeps the state safe: a capacity that holds one whole job is enough.
        """
        pools = len(self.capacity)
        columns = [self.take, self.give, self.ask, self.pool, self.capacity, np.zeros(pools, int)]
        if not owners:
            return columns + [np.zeros(0, int)] * 10
        owner = column(owners)
        takes = (self.graph.take > 0).astype(np.int64)
        order = column(turns) if len(turns) else in_order(self.graph, np.arange(len(takes)), takes)
        jobs = self.jobs = int(owner.max()) + 1
        check_deadline()
        busy = order[((self.take != 0) | (self.give != 0))[order]]
        rows = WaitTable(owner[busy] * pools + self.pool[busy], busy, busy * 0, jobs * pools)
        columns += [owner, rows.first, rows.task, 0 * owner, *(np.zeros(jobs * pools, int) for _ in range(3))]
        return [*columns, np.bincount(owner[order], minlength=jobs), np.zeros(jobs, int), np.zeros(jobs, int)]


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
    return _fixed(arranged(graph)[1], most_first=True)


def _fixed(keys: Ints, *, most_first: bool = False) -> Tie:
    keys = keys.max(initial=0) - keys if most_first else keys
    return Tie(keys, int(keys.max(initial=0)) + 1)


TIES: dict[str, Callable[[TaskGraph], Tie]] = {
    "input": _input,
    "reverse": lambda graph: _fixed(np.arange(len(graph), 0, -1)),
    "fifo": lambda graph: _input(graph)._replace(span=2 * len(graph) + 2, kind=BY_TIME),  # longest ready first
    "lifo": _depth,
    "dfs": _depth,
    "bfs": lambda graph: _fixed(arranged(graph)[1]),  # level by level: the shortest chain of tasks before it first
    "random": lambda graph: _input(graph)._replace(span=1 << BITS, kind=DRAWN),
    "most-descendants": lambda graph: _fixed(column(descendant_counts(graph)), most_first=True),
    # a task that completes the operands of a consumer first, all others of which have been issued
    "pairing": lambda graph: Tie(np.ones(len(graph), dtype=np.int64), 2, PAIRED),
}

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
    all tasks in an order in which each job fits alone, where another than that of the banker is needed for that.
    """
    is_limited = len(graph.take) > 0 and any(capacity is not None for capacity in capacities)
    ranks = look_up(PRIORITIES, priority, "priority", "priority")(graph) if isinstance(priority, str) else priority
    rule = look_up(TIES, tie, "tie", "tie")(graph)
    random, count = Random(seed), len(graph) if rule.kind == DRAWN else 0
    drawn = column([random.getrandbits(BITS) for _ in range(count)])
    keys = np.asarray(ranks)  # as numbers from 0 on, which the span times as large are within 64 bits
    if keys.dtype.kind == "i" and (int(keys.max()) - int(keys.min()) + 1) * rule.span < LARGEST:
        keys = keys - int(keys.min())
    else:
        place = {value: number for number, value in enumerate(sorted(set(ranks)))}
        keys = column([place[value] for value in ranks])
    keys = keys * rule.span + rule.key
    limits = PoolLimits(graph, capacities, rooms) if is_limited else PoolLimits(graph)
    found = _dispatch(limits, limits.pools(), keys, rule.kind, drawn)
    if len(found.picked) < len(graph) and is_limited and owners:
        limits = PoolLimits(graph, capacities)
        found = _dispatch(limits, limits.pools(owners, turns), keys, rule.kind, drawn)
    if len(found.picked) == len(graph):
        return found
    topological_order(graph)  # raises InvalidSchedule if the precedences form a cycle
    starts, waits = found.starts, graph.predecessors
    unstarted = (task for task, start in enumerate(starts) if start == UNSTARTED)
    left = next(task for task in unstarted if all(starts[before] != UNSTARTED for before, _ in waits[task]))
    raise NoSchedule(f"list scheduling: task {left} never fits in memory", device=graph.pools[left])


def _dispatch(limits: PoolLimits, pools: Sequence[Ints], keys: Ints, tie: int, drawn: Ints) -> Dispatch:
    """Return the schedule by the keys of tasks, as far as they fit in memory; `drawn` are random numbers of a tie."""
    graph = limits.graph
    resource, size, waits, follows = graph.resource, len(graph), graph.waits, graph.followers
    resources = len(graph.unit_counts)
    _, kernels, give = kernels_for(graph.duration, waits.lag, limits.take, limits.give, limits.ask, limits.capacity)
    none = partial(np.zeros, dtype=int)
    waiting, place = np.diff(waits.first), none(size)
    coming = np.argsort(waiting, kind="stable")  # those that wait for none are the first
    place[coming] = np.arange(size)
    place, free = give(place), size - np.count_nonzero(waiting)
    group, groups_first, begin, users_first, users = limits.groups()
    counts = np.minimum(np.bincount(resource[resource >= 0], minlength=resources), column(graph.unit_counts))
    first_unit, units = np.cumsum(counts) - counts, np.arange(counts.sum())  # no more of them are ever used
    start, unit, picked = map(give, (np.full(size, UNSTARTED), none(size), none(size)))
    ready = (
        (none(size), none(1), none(1), none(size)),
        (coming, none(1), column([free]), none(size)),
        (none(size), begin, none(len(begin)), keys.copy()),
    )
    run = kernels.ListRun(  # memory, then heaps: ends of tasks, arrivals, ready tasks, free units
        kernels.MemoryPools(*map(give, pools)),
        *(kernels.Heaps(*map(give, columns), place) for columns in ready),
        kernels.Heaps(*map(give, (units, first_unit, counts, units * 0, units - np.repeat(first_unit, counts)))),
        *map(give, (graph.duration, resource, group, follows.first, follows.task, follows.lag, waiting)),
        *map(give, (waits.first, waits.task)),
        tie,
        *map(give, (drawn, users_first, users, groups_first)),
        *map(give, map(none, (len(begin), resources, len(begin)))),
        *(start, unit, picked),
        *map(give, (none(resources), none(resources), np.full(resources, -1), none(resources), none(resources))),
        *map(give, (np.full(limits.jobs, -1), none(size), none(size))),
    )
    check_deadline()
    while run.run(EVERY + 1):
        check_deadline()
    placed = resource >= 0
    number = column(unit)
    number[placed] -= first_unit[resource[placed]]
    return Dispatch(lists(start), number.tolist(), lists(picked)[: run.picks])


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
        starts, shortest = listing.starts, inf
        while (length := length_of(graph, starts)) < shortest:
            shortest, starts = length, _back_and_forth_once(graph, backwards, starts)
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


AT_ONCE = 50_000  # tasks between two looks at the clock


def insert_in_order(
    graph: TaskGraph, order: Iterable[int] | Ints, capacities: Sequence[int | None]
) -> tuple[list[int], list[list[int]]] | None:
    """Return the start of each task and the order of each resource, with tasks inserted in this order.

    In the order none comes before what it waits for. Resources are machines and memory pools at once: `capacities[r]`
    limits what tasks on r hold (None: no limit). None when a task never fits.
    """
    tasks, size, machines = column(order), len(graph), len(capacities)
    duration, machine, waits = graph.duration, graph.resource, graph.waits
    take, give = (values if len(values) else np.zeros(size, dtype=np.int64) for values in (graph.take, graph.give))
    places = np.argsort(machine[tasks], kind="stable")
    stops = np.searchsorted(machine[tasks][places], np.arange(machines + 1))
    parts = [tasks[places[begin:stop]] for begin, stop in pairwise(stops.tolist())]
    enough = [total(take[part]) for part in parts]
    rooms = zip(capacities, enough, strict=True)
    limit = column([-1 if room is None or room >= most else max(room, 0) for room, most in rooms])
    least = column([min(duration[part].tolist(), default=0) for part in parts])  # what no task fits into is no gap
    _, kernels, as_given = kernels_for(duration, waits.lag, take, give, limit)
    columns = (waits.first, waits.task, waits.lag, duration, take, give, machine, limit, least)
    given = [*map(as_given, (*columns, stops[:-1] + np.arange(machines)))]
    zones, ordered, never = len(tasks) + machines, as_given(tasks), LARGEST
    if object in (duration.dtype, waits.lag.dtype):
        never = 1 + total(duration) + size * max(lists(waits.lag), default=0)  # after all ends
    counts = (machines, 2 * zones, 2 * zones, machines, size, size, size)
    blank = [np.ones(machines, int), np.zeros(zones, int), np.full(zones, never), *(np.zeros(n, int) for n in counts)]
    state = [*map(as_given, blank)]
    for since in range(0, len(tasks), AT_ONCE):
        check_deadline()
        until = min(since + AT_ONCE, len(tasks))
        if kernels.insert(ordered, since, until, *given, *state) >= 0:
            return None
    *_, start, _, tie = state
    starts, ties = column(start), column(tie)
    return lists(starts), [part[np.lexsort((ties[part], starts[part]))].tolist() for part in parts]

"""Task graphs for tests: windows of one machine, random graphs, and known ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from hypothesis import assume, strategies as st

from pipesched.core.bounds import critical_path
from pipesched.core.optimum import Bounds, Margins
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, arrow, violations
from pipesched.core.timing import heads, tails


@st.composite
def random_graphs(
    draw: st.DrawFn,
    *,
    least: int = 1,
    most: int = 8,
    shortest: int = 0,
    unit_counts: Sequence[int] = (1, 2, 3),
    nowhere: bool = False,
    memory: bool = False,
    own_pools: bool = False,
) -> TaskGraph:
    """From `least` to `most` tasks of `shortest`..4 ticks; precedences with lags of 0..2 do not follow the numbers.

    With `memory` some tasks take memory and give it back themselves or leave that to a direct successor; the pool is
    that of their resource, or with `own_pools` any of two.
    """
    size = draw(st.integers(least, most))
    kinds = draw(st.lists(st.sampled_from(list(unit_counts)), min_size=1, max_size=1 if own_pools else 3))
    lowest = NOWHERE if nowhere else 0
    rank = draw(st.permutations(range(size)))
    pairs = [(a, b) for b in range(1, size) for a in sorted(draw(st.sets(st.integers(0, b - 1), max_size=2)))]
    edges = [arrow(rank[before], rank[after], draw(st.integers(0, 2))) for before, after in pairs]
    durations = draw(st.lists(st.integers(shortest, 4), min_size=size, max_size=size))
    resources = draw(st.lists(st.integers(lowest, len(kinds) - 1), min_size=size, max_size=size))
    if not memory:
        return TaskGraph(durations, resources, kinds, edges)
    pools = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)) if own_pools else resources
    takes, gives = [0] * size, [0] * size
    for task in range(size):
        if resources[task] != NOWHERE:
            takes[task] = draw(st.integers(0, 3))
            heirs = [edge.after[0] for edge in edges if edge.before[0] == task]
            heirs = [heir for heir in heirs if pools[heir] == pools[task]]
            gives[draw(st.sampled_from([*heirs, task]))] += takes[task]
    return TaskGraph(durations, resources, kinds, edges, takes, gives, pools)


Jobs = tuple[TaskGraph, list[int], list[int]]  # the graph, the capacities that just hold the largest job, the owners


@st.composite
def random_jobs(draw: st.DrawFn, *, pools: int = 1, resources: int = 1, chained: bool = True) -> Jobs:
    """Up to four jobs that take memory of the pools and give all of it back by the end.

    Each is a chain: its tasks that take, then one for each of them that gives back, and around them some that do
    neither. Not `chained`, only some neighbours wait for each other, and what gives waits for what took. A task of
    pool p runs on resource p, unless there are more resources than pools.
    """
    amounts = st.tuples(st.integers(0, pools - 1), st.integers(1, 3))  # a pool, and how much of it
    idle = st.lists(st.tuples(st.integers(0, pools - 1), st.just(0), st.just(0)), max_size=1)
    steps: list[tuple[int, int, int]] = []  # (pool, take, give), one a task
    owners: list[int] = []
    edges: list[Edges] = []
    capacities = [1] * pools
    for job in range(draw(st.integers(1, 4))):
        held = draw(st.lists(amounts, min_size=1, max_size=3))
        capacities = [max(cap, sum(size for home, size in held if home == pool)) for pool, cap in enumerate(capacities)]
        steps += draw(idle)
        first = len(steps)
        steps += [(pool, size, 0) for pool, size in held]
        given_back = draw(st.permutations(range(len(held))))
        steps += [(held[place][0], 0, held[place][1]) for place in given_back]
        edges += [arrow(first + place, first + len(held) + turn) for turn, place in enumerate(given_back)]
        steps += draw(idle)
        owners += [job] * (len(steps) - len(owners))
    neighbours = [task for task in range(1, len(steps)) if owners[task - 1] == owners[task]]
    kept = [task for task in neighbours if chained or draw(st.booleans())]
    edges += [arrow(task - 1, task, draw(st.integers(0, 2))) for task in kept]
    durations = [draw(st.integers(0, 3)) for _ in steps]
    places, takes, gives = ([step[column] for step in steps] for column in range(3))
    homes = [draw(st.integers(0, resources - 1)) for _ in steps] if resources > pools else places
    graph = TaskGraph(durations, homes, [1] * max(pools, resources), edges, takes, gives, places)
    return graph, capacities, owners


def pipeline(devices: int, microbatches: int, forward: int, backward: int, lag: int = 0) -> TaskGraph:
    """A linear pipeline by hand: F(stage, microbatch) is task stage*M + microbatch, its backward comes P*M later."""
    half, rows = devices * microbatches, range(devices)
    home = [stage for stage in rows for _ in range(microbatches)]
    row = [range(stage * microbatches, (stage + 1) * microbatches) for stage in range(2 * devices)]
    edges = [Edges(row[stage], row[devices + stage]) for stage in rows]
    for stage in rows[1:]:
        edges.append(Edges(row[stage - 1], row[stage], lag))
        edges.append(Edges(row[devices + stage], row[devices + stage - 1], lag))
    durations = [forward] * half + [backward] * half
    takes, gives = [1] * half + [0] * half, [0] * half + [1] * half
    return TaskGraph(durations, home * 2, [1] * devices, edges, takes, gives, home * 2)


def six_by_six() -> TaskGraph:
    """Six jobs on six machines (Fisher and Thompson 1963): 55 ticks."""
    rows = "2 1 0 3 1 6 3 7 5 3 4 6/1 8 2 5 4 10 5 10 0 10 3 4/2 5 3 4 5 8 0 9 1 1 4 7"
    rows += "/1 5 0 5 2 5 3 3 4 8 5 9/2 9 1 3 4 5 5 4 0 3 3 1/1 3 3 3 5 9 0 10 4 4 2 1"
    numbers = [[int(word) for word in row.split()] for row in rows.split("/")]
    machines = [machine for row in numbers for machine in row[::2]]
    times = [time for row in numbers for time in row[1::2]]
    edges = [arrow(6 * job + step, 6 * job + step + 1) for job in range(6) for step in range(5)]
    return TaskGraph(times, machines, [1] * 6, edges)


class PlainListScheduler:
    """A list scheduler without queues or events: it looks at every task again after every pick, tick by tick.

    For durations of at least 1.
    """

    def __init__(self, graph: TaskGraph, capacities: Sequence[int | None], priority: str, tie: str) -> None:
        self.graph, self.capacities, self.tie = graph, capacities, tie
        self.starts: dict[int, int] = {}
        self.picked: list[int] = []
        before, after = heads(graph), tails(graph)
        urgent = [-tail - time for tail, time in zip(after, graph.durations, strict=True)]
        self.priority = {
            "none": [0] * len(graph),
            "asap": before,
            "alap": urgent,
            "mobility": [key - head for key, head in zip(urgent, before, strict=True)],
            "successors": [-len({after for after, _ in row}) for row in graph.successors],
            "descendants": [-len(self.reach(task, "successors")) for task in range(len(graph))],
        }[priority]

    def reach(self, task: int, table: str) -> set[int]:
        rows: list[list[tuple[int, int]]] = getattr(self.graph, table)
        return {far for near, _ in rows[task] for far in {near, *self.reach(near, table)}}

    def level(self, task: int) -> int:
        return max((1 + self.level(before) for before, _ in self.graph.predecessors[task]), default=0)

    def ready_at(self, task: int) -> int | None:
        row = self.graph.predecessors[task]
        if any(before not in self.starts for before, _ in row):
            return None
        return max((self.starts[before] + self.graph.durations[before] + lag for before, lag in row), default=0)

    def completes_a_set(self, task: int) -> bool:
        for consumer, _ in self.graph.successors[task]:
            others = {operand for operand, _ in self.graph.predecessors[consumer]} - {task}
            if others and others <= self.starts.keys():
                return True
        return False

    def tie_key(self, task: int) -> int:
        if self.tie == "reverse":
            return -task
        if self.tie == "fifo":
            return self.ready_at(task) or 0
        if self.tie == "bfs":
            return self.level(task)
        if self.tie in {"dfs", "lifo"}:
            return -self.level(task)
        if self.tie == "most-descendants":
            return -len(self.reach(task, "successors"))
        return int(self.tie == "pairing" and not self.completes_a_set(task))

    def may_start(self, task: int, now: int) -> bool:
        graph = self.graph
        ready = self.ready_at(task)
        if task in self.starts or ready is None or ready > now:
            return False
        ends = {other: start + graph.durations[other] for other, start in self.starts.items()}
        resource, pool = graph.resources[task], graph.pools[task] if graph.pools else 0
        running = [other for other in ends if graph.resources[other] == resource and ends[other] > now]
        if resource != NOWHERE and len(running) >= graph.unit_counts[resource]:
            return False
        if not self.capacities or self.capacities[pool] is None or not graph.takes[task]:
            return True
        here = [other for other in ends if graph.pools[other] == pool]
        used = sum(graph.takes[other] for other in here)
        used -= sum(graph.gives[other] for other in here if ends[other] <= now)
        return used + graph.takes[task] <= (self.capacities[pool] or 0)

    def run(self, horizon: int) -> None:
        for now in range(horizon + 1):
            while startable := [task for task in range(len(self.graph)) if self.may_start(task, now)]:
                task = min(startable, key=lambda task: (self.priority[task], self.tie_key(task), task))
                self.starts[task] = now
                self.picked.append(task)


def plain(
    graph: TaskGraph, capacities: Sequence[int | None], priority: str, tie: str
) -> tuple[dict[int, int], list[int]]:
    """The plain list scheduler: the starts and the order of picks, of all tasks unless the capacities wedge it."""
    scheduler = PlainListScheduler(graph, capacities, priority, tie)
    scheduler.run(sum(graph.durations) + 2 * len(graph.edges))
    return scheduler.starts, scheduler.picked


# Small graphs in windows of time, and every schedule there by brute force.

THREE_ON_TWO = TaskGraph([1, 1, 1], [0, 0, 0], [2])  # needs two ticks
PAIRS = [(1, 2), (1, 4), (3, 4), (1, 5), (3, 5), (3, 7)]
# Two units for six tasks, one unit for two: 13 ticks, by brute force; the first relaxation does not refute 12.
STUBBORN = TaskGraph([4, 4, 4, 3, 3, 3, 4, 4], [0, 1, 0, 1, 0, 0, 0, 0], [2, 1], [arrow(*pair) for pair in PAIRS])


def within(graph: TaskGraph, horizon: int) -> Bounds:
    return Margins(graph, heads(graph), tails(graph)).within(horizon)


def schedules(graph: TaskGraph, bounds: Bounds) -> list[tuple[int, ...]]:
    """Every schedule within the bounds."""
    windows = [range(first, last + 1) for first, last in zip(*bounds, strict=True)]
    return [starts for starts in product(*windows) if not any(violations(graph, starts))]


def draw_small(data: st.DataObject) -> tuple[TaskGraph, Bounds]:
    """A graph, and bounds that leave it a little room; at most 2,000 starts to try."""
    graph = data.draw(random_graphs(most=6, nowhere=True))
    longest = critical_path(graph)
    bounds = within(graph, longest + data.draw(st.integers(0, 3)))
    assume(prod(last - first + 1 for first, last in zip(*bounds, strict=True)) <= 2000)
    return graph, bounds

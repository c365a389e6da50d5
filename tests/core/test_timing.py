"""Times of task graphs, longest paths, and the check of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import Deadlock, InvalidSchedule
from pipesched.core.tasks import Edges, TaskGraph, arrow, violations
from pipesched.core.timing import UNREACHED, UNTIMED, Retiming, earliest_times, heads, tails, topological_order
from tests.core.graphs import random_graphs


def replay(graph: TaskGraph, orders: Sequence[Sequence[int]]) -> list[int]:
    """Start at 0, then push every task behind the one before it and behind its predecessors until nothing moves."""
    start = [0] * len(graph)
    while True:
        old = list(start)
        for order in orders:
            for before, after in pairwise(order):
                start[after] = max(start[after], start[before] + graph.durations[before])
        for before, after, lag in graph.edges:
            start[after] = max(start[after], start[before] + graph.durations[before] + lag)
        if start == old:
            return start


def has_circle(graph: TaskGraph, orders: Sequence[Sequence[int]]) -> bool:
    """Whether precedences and orders together leave tasks that can never be taken off the graph."""
    arrows = {(before, after) for before, after, _ in graph.edges}
    arrows |= {pair for order in orders for pair in pairwise(order)}
    left = set(range(len(graph)))
    while free := {task for task in left if not any(a in left for a, b in arrows if b == task)}:
        left -= free
    return bool(left)


def draw_orders(data: st.DataObject, tasks: Sequence[int]) -> list[list[int]]:
    """`tasks`, in that order, dealt out to three machines, some of which may stay empty."""
    machines = data.draw(st.lists(st.integers(0, 2), min_size=len(tasks), max_size=len(tasks)))
    return [[task for task, home in zip(tasks, machines, strict=True) if home == number] for number in range(3)]


def draw_line(data: st.DataObject, graph: TaskGraph) -> list[int]:
    """All tasks in one random line that respects the precedences."""
    line: list[int] = []
    while len(line) < len(graph):
        rest = [task for task in range(len(graph)) if task not in line]
        free = [task for task in rest if all(before in line for before, _ in graph.predecessors[task])]
        line.append(data.draw(st.sampled_from(free)))
    return line


@given(data=st.data())
def test_starts_are_those_of_a_naive_replay(data: st.DataObject) -> None:
    """Random graphs in random orders that can run start exactly when a fixed-point replay says."""
    graph = data.draw(random_graphs())
    orders = draw_orders(data, draw_line(data, graph))
    starts, ends = earliest_times(graph, orders)
    assert starts == replay(graph, orders)
    assert ends == [start + time for start, time in zip(starts, graph.durations, strict=True)]


@given(data=st.data())
def test_other_durations_move_what_is_behind_them(data: st.DataObject) -> None:
    """Times with new durations of some tasks, from the first of these on, are those of the whole plan timed anew."""
    graph = data.draw(random_graphs())
    orders = draw_orders(data, draw_line(data, graph))
    replays = Retiming(graph, orders)
    times = replays.times()
    some = data.draw(st.sets(st.sampled_from(range(len(graph))), min_size=1))
    durations = [data.draw(st.integers(0, 9)) if task in some else old for task, old in enumerate(graph.durations)]
    since = min(times.starts[task] for task in some)
    anew = earliest_times(graph.changed(durations=durations), orders)
    assert [*replays.changed(times, durations, since)] == [*anew]


@given(data=st.data())
def test_critical_tasks_are_those_whose_later_end_is_a_later_end_of_all(data: st.DataObject) -> None:
    """One tick more of a task moves the last end exactly if the task is critical."""
    graph = data.draw(random_graphs())
    orders = draw_orders(data, draw_line(data, graph))
    replays = Retiming(graph, orders)
    critical = replays.critical(replays.times())
    for task in range(len(graph)):
        longer = [duration + (other == task) for other, duration in enumerate(graph.durations)]
        moved = max(earliest_times(graph.changed(durations=longer), orders).ends) > max(replays.times().ends)
        assert moved == bool(critical[task])


@given(data=st.data())
def test_deadlock_exactly_when_there_is_a_circle_and_it_is_a_true_one(data: st.DataObject) -> None:
    """Random orders of all tasks: times as replayed if they can run, else a Deadlock whose cycle really waits."""
    graph = data.draw(random_graphs())
    orders = draw_orders(data, data.draw(st.permutations(range(len(graph)))))
    if not has_circle(graph, orders):
        assert earliest_times(graph, orders).starts == replay(graph, orders)
        return
    with pytest.raises(Deadlock, match="deadlock") as caught:
        earliest_times(graph, orders)
    cycle = caught.value.cycle
    assert cycle
    assert len({machine for _, machine in cycle}) == len(cycle)
    for (task, machine), (next_task, next_machine) in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert task in orders[machine]
        behind = orders[next_machine][orders[next_machine].index(next_task) :]
        assert any(before in behind for before, _ in graph.predecessors[task])
        assert f"task {task} on machine {machine}" in str(caught.value)


@given(data=st.data())
def test_a_task_in_no_order_stays_untimed(data: st.DataObject) -> None:
    """Tasks that nobody waits for may be left out: they get no time and change no other."""
    graph = data.draw(random_graphs())
    line = draw_line(data, graph)
    kept = line[: data.draw(st.integers(0, len(line)))]
    orders = draw_orders(data, kept)
    inside = [arrow(a, b, lag) for a, b, lag in graph.edges if a in kept and b in kept]
    alone = TaskGraph(graph.durations, graph.resources, graph.unit_counts, inside)
    expected = [start if task in kept else UNTIMED for task, start in enumerate(replay(alone, orders))]
    starts, ends = earliest_times(graph, orders)
    assert starts == expected
    assert [task for task, end in enumerate(ends) if end == UNTIMED] == sorted(set(line) - set(kept))


@given(data=st.data())
def test_waiting_for_a_task_in_no_order_is_invalid_and_no_deadlock(data: st.DataObject) -> None:
    """Leaving out a task that others wait for is said as such: both are named, and it is not called a circle."""
    graph = data.draw(random_graphs())
    assume(graph.edges)
    missing = data.draw(st.sampled_from(sorted({before for before, _, _ in graph.edges})))
    orders = draw_orders(data, [task for task in draw_line(data, graph) if task != missing])
    with pytest.raises(InvalidSchedule, match=rf"task \d+ waits for task {missing}, which no order holds") as caught:
        earliest_times(graph, orders)
    assert not isinstance(caught.value, Deadlock)


def one_by_one(graph: TaskGraph) -> TaskGraph:
    """The same graph with every bundle taken apart."""
    return TaskGraph(graph.durations, graph.resources, graph.unit_counts, [arrow(*each) for each in graph.edges])


@given(data=st.data())
def test_bundles_are_their_single_arrows(data: st.DataObject) -> None:
    """Bundles that overlap, or that join tasks of one machine, some left out, give the times of their arrows."""
    size = data.draw(st.integers(2, 10))
    edges = []
    for _ in range(data.draw(st.integers(0, 4))):
        count = data.draw(st.integers(1, size - 1))
        before = data.draw(st.integers(0, size - 1 - count))
        after = data.draw(st.integers(before + 1, size - count))
        edges.append(Edges(range(before, before + count), range(after, after + count), data.draw(st.integers(0, 2))))
    graph = TaskGraph(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), [0] * size, [1], edges)
    orders = draw_orders(data, range(data.draw(st.integers(0, size))))
    assert earliest_times(graph, orders).starts == earliest_times(one_by_one(graph), orders).starts


@pytest.mark.parametrize(
    "edges",
    [
        [Edges(range(0, 4, 2), range(1, 5, 2), 3)],
        [Edges(range(0, 2), range(2, 6, 2), 3)],
        [arrow(0, 3), arrow(0, 5), Edges(range(0, 2), range(2, 6, 2), 3)],
    ],
)
def test_a_bundle_with_a_stride_is_its_single_arrows(edges: list[Edges]) -> None:
    """A range may have a step upwards: `after[i]` then still follows `before[i]`."""
    graph = TaskGraph([1, 2, 3, 4, 5, 6], list(range(6)), [1] * 6, edges)
    orders = [[task] for task in range(6)]
    assert earliest_times(graph, orders).starts == replay(graph, orders)


def test_a_hundred_thousand_tasks_in_one_chain() -> None:
    """A chain that changes machines at every task goes through at once: no recursion, no square of the length."""
    size = 100_000
    graph = TaskGraph([1] * size, [0] * size, [1], [Edges(range(size - 1), range(1, size), 1)])
    orders = [range(0, size, 2), range(1, size, 2)]
    assert earliest_times(graph, orders).starts == list(range(0, 2 * size, 2))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 2), st.booleans())
def test_rows_of_unequal_lags(lags: list[int], more: int, again: bool) -> None:
    """Edges with a lag each are timed as their single arrows, also where two of them join the same tasks."""
    count = len(lags)
    rows = [Edges(range(count), range(count, 2 * count), lags)]
    rows += [Edges(range(count), range(count, 2 * count), more)] * again
    graph = TaskGraph([1] * (2 * count), [0] * count + [1] * count, (1, 1), rows)
    orders = [range(count), range(count, 2 * count)]
    assert earliest_times(graph, orders).starts == replay(graph, orders)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6), st.integers(40, 80))
def test_times_beyond_64_bits(durations: list[int], power: int) -> None:
    """Times too large for 64 bits are exact: those of small ones, multiplied."""
    count, factor = len(durations), 2**power + 1
    edges = Edges(range(count - 1), range(1, count), 1)
    orders = [range(0, count, 2), range(1, count, 2)]
    small = earliest_times(TaskGraph(durations, [0] * count, (1,), edges), orders)
    large = earliest_times(
        TaskGraph([time * factor for time in durations], [0] * count, (1,), edges.scaled(factor)), orders
    )
    assert large.starts == [start * factor for start in small.starts]


# Task graphs: bundles of arrows, and longest paths against a plain enumeration of all paths.


def all_paths(graph: TaskGraph) -> Iterator[tuple[int, int, int]]:
    """Every path as (its first task, its last task, the ticks from the start of one to the end of the other)."""
    stack = [(task, task, time) for task, time in enumerate(graph.durations)]
    while stack:
        first, last, ticks = stack.pop()
        yield first, last, ticks
        stack += [(first, b, ticks + lag + graph.durations[b]) for a, b, lag in graph.edges if a == last]


def test_tails_count_deliveries() -> None:
    """What a task delivers late counts after its end, unless those that wait for it take longer."""
    graph = TaskGraph([1, 1, 1], [0, 0, 0], [1], [arrow(0, 1)], deliveries=[4, 1, 0])
    assert tails(graph) == [4, 1, 0]


@given(data=st.data())
def test_paths_are_the_longest_of_all(data: st.DataObject) -> None:
    """Heads, tails and longest paths are the maxima over an enumeration of every path."""
    graph = data.draw(random_graphs(nowhere=True))
    paths = list(all_paths(graph))
    for task, time in enumerate(graph.durations):
        assert heads(graph)[task] == max(ticks for _, last, ticks in paths if last == task) - time
        assert tails(graph)[task] == max(ticks for first, _, ticks in paths if first == task) - time
        starts = heads(graph, [0 if other == task else UNREACHED for other in range(len(graph))])
        for target, start in enumerate(starts):
            between = [ticks for first, last, ticks in paths if (first, last) == (task, target)]
            end = UNREACHED if start == UNREACHED else start + graph.durations[target]
            assert end == max(between, default=UNREACHED)


@given(data=st.data())
def test_topological_order_is_a_permutation_that_keeps_every_arrow(data: st.DataObject) -> None:
    """Each task occurs once, after all that it waits for."""
    graph = data.draw(random_graphs())
    order = topological_order(graph)
    assert sorted(order) == list(range(len(graph)))
    assert all(order.index(before) < order.index(after) for before, after, _ in graph.edges)


def test_a_task_may_wait_twice_for_the_same_one() -> None:
    """Two arrows between the same tasks count as the longer one (x*x has two equal operands)."""
    graph = TaskGraph([1, 1], [0, 0], [1], [arrow(1, 0, 4), arrow(1, 0)])
    assert topological_order(graph) == [1, 0]
    assert heads(graph) == [5, 0]


@pytest.mark.parametrize("circle", [[(0, 0)], [(0, 1), (1, 0)], [(2, 0), (0, 1), (1, 2)]])
def test_a_circle_is_refused(circle: list[tuple[int, int]]) -> None:
    """Precedences in a circle are an InvalidSchedule, in every function that walks the graph."""
    graph = TaskGraph([1, 1, 1], [0, 0, 0], [1], [arrow(*pair) for pair in circle])
    for function in (topological_order, heads, tails):
        with pytest.raises(InvalidSchedule, match="cycle"):
            function(graph)


def test_the_circle_is_named_without_the_tasks_before_it() -> None:
    """The message names tasks that wait for each other, and none that can run."""
    graph = TaskGraph([1] * 4, [0] * 4, [1], [arrow(0, 1), arrow(1, 2), arrow(2, 1)])
    with pytest.raises(InvalidSchedule, match=r"\[1, 2\]"):
        topological_order(graph)


def test_a_bundle_of_two_sizes_is_refused() -> None:
    """A bundle whose two sides differ in length is an error, never a silently shorter bundle."""
    with pytest.raises(ValueError, match="2 tasks before, 3 after, 2 lags"):
        Edges(range(0, 2), range(2, 5))


@given(data=st.data())
def test_predecessors_and_successors_mirror_the_arrows(data: st.DataObject) -> None:
    """Both tables hold every arrow exactly once, seen from its two ends, and have a row for every task."""
    graph = data.draw(random_graphs())
    arrows = Counter(graph.edges)
    before = Counter((a, b, lag) for b, row in enumerate(graph.predecessors) for a, lag in row)
    after = Counter((a, b, lag) for a, row in enumerate(graph.successors) for b, lag in row)
    assert before == after == arrows
    assert len(graph.predecessors) == len(graph.successors) == len(graph)


# The independent check, against a judge that looks at every tick.


def is_valid(graph: TaskGraph, starts: Sequence[int], capacities: Sequence[int | None]) -> bool:
    """The rules, read tick by tick: arrows, units in use, memory in use after all that happens at that tick."""
    ends = [start + time for start, time in zip(starts, graph.durations, strict=True)]
    if min(starts) < 0 or any(starts[after] < ends[before] + lag for before, after, lag in graph.edges):
        return False
    tasks = range(len(graph))
    for now in range(max(ends) + 1):
        for resource, capacity in enumerate(graph.unit_counts):
            running = [task for task in tasks if graph.resources[task] == resource and starts[task] <= now < ends[task]]
            if len(running) > capacity:
                return False
        for pool, cap in enumerate(capacities):
            taken = sum(graph.takes[task] for task in tasks if graph.pools[task] == pool and starts[task] <= now)
            given_back = sum(graph.gives[task] for task in tasks if graph.pools[task] == pool and ends[task] <= now)
            if cap is not None and taken - given_back > cap:
                return False
    return True


@given(data=st.data())
def test_silent_exactly_on_valid_schedules(data: st.DataObject) -> None:
    """Random starts, of good and bad schedules alike: something is said exactly when the tick by tick judge says no."""
    graph = data.draw(random_graphs(most=5, nowhere=True, memory=True, own_pools=True))
    ticks = st.lists(st.integers(0, 12), min_size=len(graph), max_size=len(graph))
    starts = data.draw(ticks)
    if data.draw(st.booleans()):  # push them apart, so that precedences hold and valid ones are common
        for task in sorted(range(len(graph)), key=lambda task: len(ancestors(graph, task))):
            floor = [starts[a] + graph.durations[a] + lag for a, lag in graph.predecessors[task]]
            starts[task] = max([starts[task], *floor])
    capacities = data.draw(st.lists(st.none() | st.integers(1, 6), min_size=2, max_size=2))
    assert (not list(violations(graph, starts, capacities))) == is_valid(graph, starts, capacities)


def ancestors(graph: TaskGraph, task: int) -> set[int]:
    """All that `task` waits for, directly or not."""
    found: set[int] = set()
    todo = [task]
    while todo:
        for before, _ in graph.predecessors[todo.pop()]:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def test_an_overfull_pool_is_named_with_its_peak() -> None:
    """The peak of a pool above its cap is said; a cap of None, and a pool without a cap, are no limit."""
    graph = TaskGraph([4, 4, 4], [0, 1, 2], [1, 1, 1], (), [2, 3, 9], [2, 3, 9], [0, 0, 1])
    assert list(violations(graph, [0, 3, 0], [4, None])) == ["memory pool 0 reaches 5, over its capacity of 4"]
    assert list(violations(graph, [0, 3, 0], [5, None])) == []
    assert list(violations(graph, [0, 3, 0], [5])) == []
    assert list(violations(graph, [0, 3, 0])) == []
    assert list(violations(graph, [0, 3, 0], [None, 8])) == ["memory pool 1 reaches 9, over its capacity of 8"]


def test_front_ends_name_the_tasks() -> None:
    """Every sentence speaks of tasks by the name that the caller gives them."""
    graph = TaskGraph([2, 2], [0, 0], [1], [arrow(0, 1)])
    for starts in ([0, 1], [-1, -1]):
        for sentence in violations(graph, starts, name=lambda task: "ab"[task]):
            assert "task" not in sentence
            assert {"a", "b"} & set(sentence.split())

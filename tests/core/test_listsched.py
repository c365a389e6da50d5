"""List scheduling: priorities, ties, insertion, and what must hold of every list schedule."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import ConfigError, InvalidSchedule, NoSchedule, Problem
from pipesched.core.listsched import (
    MOST_TASKS_WITH_DESCENDANTS,
    PRIORITIES,
    TIES,
    Dispatch,
    back_and_forth,
    backwards_in_time,
    by_middles,
    by_rules,
    by_tails,
    insert_in_order,
    length_of,
    list_schedule,
)
from pipesched.core.tasks import NOWHERE, Edges, TaskGraph, arrow, violations
from pipesched.core.timing import heads, tails, topological_order
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.problem.ops import OpIndex
from tests.core.graphs import pipeline, plain, random_graphs
from tests.examples import at_night_but, examples
from tests.strategies import problems

RULES = [(priority, tie) for priority in PRIORITIES for tie in TIES]
rules = st.sampled_from(RULES)
capacities_of_pools = st.lists(st.sampled_from([3, 4, 5, None]), min_size=3, max_size=3)


def makespan(graph: TaskGraph, starts: Sequence[int]) -> int:
    return max((start + time for start, time in zip(starts, graph.durations, strict=True)), default=0)


def ready_times(graph: TaskGraph, starts: Sequence[int]) -> list[int]:
    """When the predecessors of each task let it start."""
    ready = [0] * len(graph)
    for before, after, lag in graph.edges:
        ready[after] = max(ready[after], starts[before] + graph.durations[before] + lag)
    return ready


def attempt(graph: TaskGraph, rule: tuple[str, str], capacities: Sequence[int | None]) -> Dispatch:
    """The schedule by a rule; a case where the greedy choice wedges under the capacities is left out."""
    try:
        return list_schedule(graph, priority=rule[0], tie=rule[1], capacities=capacities)
    except NoSchedule:
        assume(False)
        raise


STATIC_RULES = [(priority, tie) for priority, tie in RULES if tie != "random"]


@given(data=st.data())
def test_same_answer_as_a_plain_list_scheduler(data: st.DataObject) -> None:
    """Every rule picks the same tasks in the same order at the same times as one that tries all at every tick."""
    graph = data.draw(random_graphs(shortest=1))
    priority, tie = data.draw(st.sampled_from(STATIC_RULES))
    found = list_schedule(graph, priority=priority, tie=tie)
    starts, picked = plain(graph, (), priority, tie)
    assert found.picked == picked
    assert found.starts == [starts[task] for task in range(len(graph))]


@pytest.mark.parametrize("own_pools", [False, True])
@given(data=st.data())
def test_same_answer_as_a_plain_list_scheduler_under_a_cap(own_pools: bool, data: st.DataObject) -> None:
    """The same with memory: the pools are those of the resources, or each task's pool is any of two."""
    graph = data.draw(random_graphs(shortest=1, memory=True, own_pools=own_pools, least=4, most=10, unit_counts=(2, 1)))
    priority, tie = data.draw(st.sampled_from(STATIC_RULES))
    capacities = data.draw(capacities_of_pools)
    starts, picked = plain(graph, capacities, priority, tie)
    if len(picked) < len(graph):
        with pytest.raises(NoSchedule):
            list_schedule(graph, priority=priority, tie=tie, capacities=capacities)
        return
    found = list_schedule(graph, priority=priority, tie=tie, capacities=capacities)
    assert found.picked == picked
    assert found.starts == [starts[task] for task in range(len(graph))]


@pytest.mark.parametrize("rule", at_night_but(RULES[::5], RULES), ids=", ".join)
@examples(12)
@given(data=st.data())
def test_every_rule_keeps_every_limit(rule: tuple[str, str], data: st.DataObject) -> None:
    """Random graphs and capacities: the independent check has nothing to say, and every task is picked once."""
    graph = data.draw(random_graphs(memory=True, own_pools=True, nowhere=True))
    capacities = data.draw(capacities_of_pools)
    found = attempt(graph, rule, capacities)
    assert list(violations(graph, found.starts, capacities)) == []
    assert sorted(found.picked) == list(range(len(graph)))
    assert [found.starts[task] for task in found.picked] == sorted(found.starts)


@given(data=st.data())
def test_units_are_those_of_the_class_and_run_one_task_at_a_time(data: st.DataObject) -> None:
    """Each task has a unit below the capacity of its resource, and two tasks of one unit never overlap."""
    graph = data.draw(random_graphs())
    priority, tie = data.draw(rules)
    starts, units, _ = list_schedule(graph, priority=priority, tie=tie)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for task, unit in enumerate(units):
        assert 0 <= unit < graph.unit_counts[graph.resources[task]]
        place = (graph.resources[task], unit)
        spans.setdefault(place, []).append((starts[task], starts[task] + graph.durations[task]))
    for row in spans.values():
        row.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(row))


def test_a_task_takes_the_lowest_free_unit() -> None:
    """Three units, five tasks: the fourth takes unit 1 when that is free alone, the fifth unit 0 of 0 and 2."""
    assert list_schedule(TaskGraph([3, 1, 3, 4, 1], [0] * 5, [3])).units == [0, 1, 2, 1, 0]


@given(data=st.data())
def test_no_unit_idles_while_a_ready_task_fits(data: st.DataObject) -> None:
    """Under capacities, a ready task waits only for a busy unit or for memory, whichever pool it takes from."""
    graph = data.draw(random_graphs(memory=True, own_pools=True, least=4, most=10, unit_counts=(2, 1)))
    capacities = data.draw(capacities_of_pools)
    starts = attempt(graph, data.draw(rules), capacities).starts
    for task, ready in enumerate(ready_times(graph, starts)):
        resource, cap = graph.resources[task], capacities[graph.pools[task]]
        own = [other for other in range(len(graph)) if graph.pools[other] == graph.pools[task]]
        for now in range(ready, starts[task]):
            busy = sum(
                starts[other] <= now < starts[other] + graph.durations[other]
                for other in range(len(graph))
                if graph.resources[other] == resource
            )
            used = sum(graph.takes[other] for other in own if starts[other] <= now)
            used -= sum(graph.gives[other] for other in own if starts[other] + graph.durations[other] <= now)
            full = cap is not None and graph.takes[task] > 0 and used + graph.takes[task] > cap
            assert full or busy == graph.unit_counts[resource]


def test_unknown_rules_name_the_known_ones() -> None:
    """A misspelt priority or tie is a ConfigError with the nearest name and all names."""
    graph = TaskGraph([1], [0], [1])
    with pytest.raises(ConfigError, match=r"priority 'alp'; did you mean 'alap'.*none, asap.*mobility"):
        list_schedule(graph, priority="alp")
    with pytest.raises(ConfigError, match=r"tie 'pairng'; did you mean 'pairing'.*input, reverse.*dfs"):
        list_schedule(graph, tie="pairng")


def test_no_tasks() -> None:
    """The empty graph has the empty schedule, with a cap as well."""
    assert list_schedule(TaskGraph([], [], [])) == ([], [], [])
    assert list_schedule(TaskGraph([], [], [1]), priority="alap", tie="pairing", capacities=[1]) == ([], [], [])


@pytest.mark.parametrize("priority", PRIORITIES)
def test_a_circle_is_refused(priority: str) -> None:
    """Precedences in a circle are an InvalidSchedule whatever the rule, and no lack of memory."""
    graph = TaskGraph([1, 1, 1], [0] * 3, [1], [arrow(0, 1), arrow(1, 2), arrow(2, 1)])
    with pytest.raises(InvalidSchedule):
        list_schedule(graph, priority=priority)


# Graham, Bounds on multiprocessing timing anomalies, 1969: nine tasks, one list, three processors take 12.
GRAHAM_TIMES = [3, 2, 2, 2, 4, 4, 4, 4, 9]
GRAHAM_ARROWS = [(0, 8), (3, 4), (3, 5), (3, 6), (3, 7)]


@pytest.mark.parametrize(
    ("times", "arrows", "processors", "published"),
    [
        (GRAHAM_TIMES, GRAHAM_ARROWS, 3, 12),
        (GRAHAM_TIMES, GRAHAM_ARROWS, 4, 15),
        ([time - 1 for time in GRAHAM_TIMES], GRAHAM_ARROWS, 3, 13),
        (GRAHAM_TIMES, [(0, 8), (3, 6), (3, 7)], 3, 16),
    ],
)
def test_graham_anomalies(times: list[int], arrows: list[tuple[int, int]], processors: int, published: int) -> None:
    """Graham 1969: more processors, shorter tasks or fewer precedences make the same list longer than 12."""
    graph = TaskGraph(times, [0] * 9, [processors], [arrow(*pair) for pair in arrows])
    assert makespan(graph, list_schedule(graph, tie="input").starts) == published


@pytest.mark.parametrize("machines", [2, 3, 4, 5])
def test_graham_worst_case_of_a_list(machines: int) -> None:
    """Graham 1966: m(m-1) short tasks before one of length m take 2m-1 ticks where m is optimal; alap takes m."""
    graph = TaskGraph([1] * (machines * (machines - 1)) + [machines], [0] * (machines**2 - machines + 1), [machines])
    assert makespan(graph, list_schedule(graph, tie="input").starts) == 2 * machines - 1
    assert makespan(graph, list_schedule(graph, tie="reverse").starts) == machines
    assert makespan(graph, list_schedule(graph, priority="alap").starts) == machines


@pytest.mark.parametrize("priority", at_night_but(("alap",), PRIORITIES))
def test_eight_thousand_tasks(priority: str) -> None:
    """16 devices and 256 microbatches (8,192 tasks) under the cap of 1F1B take as long as 1F1B, by every priority."""
    graph = pipeline(16, 256, 1, 2)
    starts = list_schedule(graph, priority=priority, capacities=[16 - device for device in range(16)]).starts
    assert makespan(graph, starts) == 3 * (256 + 15)


def test_a_square_has_one_operand() -> None:
    """x*x: two arrows between the same two tasks are one successor and one descendant."""
    graph = TaskGraph([1, 1, 1], [0] * 3, [1], [arrow(0, 1), arrow(0, 1), arrow(1, 2)])
    assert PRIORITIES["successors"](graph) == [-1, -1, 0]
    assert PRIORITIES["descendants"](graph) == [-2, -1, 0]


def test_too_many_tasks_for_descendants_are_refused() -> None:
    """Their sets would fill the memory: a ConfigError that names another priority, for the tie as well."""
    size = MOST_TASKS_WITH_DESCENDANTS + 1
    graph = TaskGraph([1] * size, [0] * size, [1], [Edges(range(size - 1), range(1, size))])
    for priority, tie in (("descendants", "input"), ("none", "most-descendants")):
        with pytest.raises(ConfigError, match=r"20,001.*alap"):
            list_schedule(graph, priority=priority, tie=tie)


# Ties: what decides between equals, and what `pairing` can do that no fixed order can.


def test_random_ties_are_repeated_by_their_seed() -> None:
    """The same seed gives the same order, and among ten seeds there are different ones, all of them complete."""
    graph = TaskGraph([1] * 9, [0] * 9, [1])
    orders = [tuple(list_schedule(graph, tie="random", seed=seed).picked) for seed in range(10)]
    assert orders == [tuple(list_schedule(graph, tie="random", seed=seed).picked) for seed in range(10)]
    assert len(set(orders)) > 1
    assert all(sorted(order) == list(range(9)) for order in orders)


@pytest.mark.parametrize("resource", [1, NOWHERE])
def test_pairing_counts_an_operand_that_occupies_nothing(resource: int) -> None:
    """An operand that is issued on no resource is issued all the same: its partner completes the set."""
    # 3 (an input, at time 0) and 1 are the operands of 2; 0 and 1 are ready on one machine at time 1 (after 4).
    edges = [arrow(3, 2), arrow(1, 2), arrow(4, 0), arrow(4, 1)]
    graph = TaskGraph([1, 1, 1, 0, 1], [0, 0, 1, resource, 0], [1, 1], edges)
    assert [task for task in list_schedule(graph, tie="pairing").picked if task in {0, 1}] == [1, 0]


# Insertion, and many list schedules of one graph: all are schedules.


def test_a_later_task_takes_a_gap() -> None:
    """Task 2 waits for nothing and fits before task 1, which waits for another machine."""
    graph = TaskGraph([3, 2, 3], [0, 1, 1], (1, 1), [arrow(0, 1)], [0] * 3, [0] * 3, [0, 1, 1])
    inserted = insert_in_order(graph, [0, 1, 2], [None, None])
    assert inserted == ([0, 3, 0], [[0], [2, 1]])


def test_memory_is_taken_in_the_order() -> None:
    """A task waits until memory is free for good; one that never fits makes it None."""
    graph = TaskGraph([1, 1, 1], [0, 0, 0], (1,), [arrow(0, 1)], [1, 0, 1], [0, 1, 1], [0, 0, 0])
    inserted = insert_in_order(graph, [0, 1, 2], [1])
    assert inserted is not None
    assert inserted[0] == [0, 1, 2]
    assert insert_in_order(graph, [0, 2, 1], [1]) is None


@given(problems(("linear", "loop", "v", "explicit")), st.randoms())
def test_what_holds_without_memory(problem: Problem, random: object) -> None:
    """All tasks run once, none before what it waits for, none beside another on its machine."""
    index = OpIndex(problem.letters, problem.stages, problem.microbatches)
    graph = lower(problem, index)
    inserted = insert_in_order(graph, topological_order(graph), [None] * problem.devices)
    assert inserted is not None
    starts, orders = inserted
    ends = [start + time for start, time in zip(starts, graph.durations, strict=True)]
    for before, after, lag in graph.edges:
        assert starts[after] >= ends[before] + lag
    assert sorted(task for order in orders for task in order) == list(range(len(graph)))
    for order in orders:
        assert all(ends[one] <= starts[other] for one, other in pairwise(order))


@given(data=st.data())
def test_whatever_is_listed_is_a_schedule(data: st.DataObject) -> None:
    """Also by middles that mean nothing."""
    graph = data.draw(random_graphs(most=12, nowhere=True))
    middles = [data.draw(st.floats(0, 50)) for _ in range(len(graph))]
    lists = [by_rules(graph), back_and_forth(graph), by_tails(graph, tails(graph))]
    for found in [found for row in lists for found in row] + list(by_middles(graph, backwards_in_time(graph), middles)):
        assert list(violations(graph, found.starts)) == [], found.method


def test_backwards_in_time_heads_and_tails_are_swapped() -> None:
    graph = TaskGraph([3, 1, 2], [0, 0, 0], [1], [arrow(0, 1, 2), arrow(1, 2)])
    assert heads(backwards_in_time(graph)) == tails(graph)
    assert tails(backwards_in_time(graph)) == heads(graph)


def test_the_last_result_ends_a_schedule() -> None:
    """The first task ends at 1 and delivers 3 ticks later, the second ends at 2."""
    assert length_of(TaskGraph([1, 1], [0, 0], [1], deliveries=[3, 0]), [0, 1]) == 4


def test_middles_are_an_order() -> None:
    """One unit and no precedences: the tasks run in the order of their middles, also of those backwards in time."""
    graph = TaskGraph([2, 1, 3], [0, 0, 0], [1])
    assert [list(found.starts) for found in by_middles(graph, backwards_in_time(graph), [4.5, 0.25, 1.75])] == [
        [4, 0, 1]
    ] * 3

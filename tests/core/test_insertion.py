"""Insertion, and many list schedules of one graph: all are schedules."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from pipesched.core.listsched import (
    back_and_forth,
    backwards_in_time,
    by_middles,
    by_rules,
    by_tails,
    insert_in_order,
    length_of,
)
from pipesched.core.tasks import TaskGraph, arrow, violations
from pipesched.core.timing import heads, tails, topological_order
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from tests.core.graphs import random_graphs
from tests.strategies import problems


def test_a_later_task_takes_a_gap() -> None:
    """Task 2 waits for nothing and fits before task 1, which waits for another machine."""
    graph = TaskGraph([3, 2, 3], [0, 1, 1], (1, 1), [arrow(0, 1)], [0] * 3, [0] * 3, [0, 1, 1])
    inserted = insert_in_order(graph, [0, 1, 2], [None, None])
    assert inserted is not None
    assert (inserted.starts, inserted.orders) == ([0, 3, 0], [[0], [2, 1]])


def test_memory_is_taken_in_the_order() -> None:
    """A task waits until memory is free for good; one that never fits makes it None."""
    graph = TaskGraph([1, 1, 1], [0, 0, 0], (1,), [arrow(0, 1)], [1, 0, 1], [0, 1, 1], [0, 0, 0])
    inserted = insert_in_order(graph, [0, 1, 2], [1])
    assert inserted is not None
    assert inserted.starts == [0, 1, 2]
    assert insert_in_order(graph, [0, 2, 1], [1]) is None


@given(problems(("linear", "loop", "v", "explicit")), st.randoms())
def test_what_holds_without_memory(problem: Problem, random: object) -> None:
    """All tasks run once, none before what it waits for, none beside another on its machine."""
    index = OpIndex(problem.letters, problem.stages, problem.microbatches)
    graph = lower(problem, index)
    inserted = insert_in_order(graph, topological_order(graph), [None] * problem.devices)
    assert inserted is not None
    ends = [start + time for start, time in zip(inserted.starts, graph.durations, strict=True)]
    for before, after, lag in graph.arrows():
        assert inserted.starts[after] >= ends[before] + lag
    assert sorted(task for order in inserted.orders for task in order) == list(range(len(graph)))
    for order in inserted.orders:
        assert all(ends[one] <= inserted.starts[other] for one, other in pairwise(order))


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

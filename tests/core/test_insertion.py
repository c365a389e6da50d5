"""Insertion: tasks one after another into the earliest time that is free."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pipesched.core.listsched import insert_in_order
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.core.timing import topological_order
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
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


@pytest.mark.parametrize("capacity", [0, 3])
def test_no_tasks(capacity: int) -> None:
    """An empty order is an empty schedule."""
    assert insert_in_order(TaskGraph([], [], (1,)), [], [capacity]) == ([], [[]])

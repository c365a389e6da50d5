"""The task graph: bundles of arrows, and the two tables that are read from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from pipesched.core.tasks import Edges, TaskGraph, arrow

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]


def test_a_bundle_joins_each_task_to_its_counterpart() -> None:
    """A bundle of three is the same three arrows one by one, with the lag of the bundle, also at a stride."""
    graph = TaskGraph(
        [1] * 8, [0] * 8, [1], [Edges(range(0, 3), range(4, 7), 5), Edges(range(0, 4, 2), range(1, 5, 2))]
    )
    assert list(graph.arrows()) == [(0, 4, 5), (1, 5, 5), (2, 6, 5), (0, 1, 0), (2, 3, 0)]


def test_arrow_is_a_bundle_of_one() -> None:
    """`arrow` gives exactly one precedence, without lag unless one is said."""
    graph = TaskGraph([1, 1], [0, 0], [1], [arrow(1, 0), arrow(0, 1, 3)])
    assert list(graph.arrows()) == [(1, 0, 0), (0, 1, 3)]


def test_a_bundle_of_two_sizes_is_refused() -> None:
    """A bundle whose two sides differ in length is an error, never a silently shorter bundle."""
    with pytest.raises(ValueError, match="2 tasks before, 3 after, 2 lags"):
        Edges(range(0, 2), range(2, 5))


def test_the_length_is_the_number_of_tasks() -> None:
    """len() counts tasks, of the empty graph too."""
    assert len(TaskGraph([], [], [])) == 0
    assert len(TaskGraph([0, 4, 0], [0, 0, 0], [1])) == 3


@given(data=st.data())
def test_predecessors_and_successors_mirror_the_arrows(graphs: Graphs, data: st.DataObject) -> None:
    """Both tables hold every arrow exactly once, seen from its two ends, and have a row for every task."""
    graph = data.draw(graphs())
    arrows = Counter(graph.arrows())
    before = Counter((a, b, lag) for b, row in enumerate(graph.predecessors) for a, lag in row)
    after = Counter((a, b, lag) for a, row in enumerate(graph.successors) for b, lag in row)
    assert before == after == arrows
    assert len(graph.predecessors) == len(graph.successors) == len(graph)

"""The task graph: bundles of arrows, and the two tables that are read from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from pipesched.core.tasks import Edges, TaskGraph

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]


def test_a_bundle_joins_each_task_to_its_counterpart() -> None:
    """A bundle of three is the same three arrows one by one, with the lag of the bundle, also at a stride."""
    graph = TaskGraph(
        [1] * 8, [0] * 8, [1], [Edges(range(0, 3), range(4, 7), 5), Edges(range(0, 4, 2), range(1, 5, 2))]
    )
    assert list(graph.arrows()) == [(0, 4, 5), (1, 5, 5), (2, 6, 5), (0, 1, 0), (2, 3, 0)]


def test_a_bundle_of_two_sizes_is_refused() -> None:
    """A bundle whose two sides differ in length is an error, never a silently shorter bundle."""
    with pytest.raises(ValueError, match="2 tasks before, 3 after, 2 lags"):
        Edges(range(0, 2), range(2, 5))


@given(data=st.data())
def test_predecessors_and_successors_mirror_the_arrows(graphs: Graphs, data: st.DataObject) -> None:
    """Both tables hold every arrow exactly once, seen from its two ends, and have a row for every task."""
    graph = data.draw(graphs())
    arrows = Counter(graph.arrows())
    before = Counter((a, b, lag) for b, row in enumerate(graph.predecessors) for a, lag in row)
    after = Counter((a, b, lag) for a, row in enumerate(graph.successors) for b, lag in row)
    assert before == after == arrows
    assert len(graph.predecessors) == len(graph.successors) == len(graph)

"""Task graphs: bundles of arrows, and longest paths against a plain enumeration of all paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from pipesched.core.tasks import Edges, TaskGraph, arrow
from pipesched.core.timing import UNREACHED, heads, tails, topological_order
from pipesched.errors import InvalidSchedule
from tests.core.graphs import random_graphs


def all_paths(graph: TaskGraph) -> Iterator[tuple[int, int, int]]:
    """Every path as (its first task, its last task, the ticks from the start of one to the end of the other)."""
    stack = [(task, task, time) for task, time in enumerate(graph.durations)]
    while stack:
        first, last, ticks = stack.pop()
        yield first, last, ticks
        stack += [(first, b, ticks + lag + graph.durations[b]) for a, b, lag in graph.arrows() if a == last]


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
    assert all(order.index(before) < order.index(after) for before, after, _ in graph.arrows())


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
def test_predecessors_and_successors_mirror_the_arrows(data: st.DataObject) -> None:
    """Both tables hold every arrow exactly once, seen from its two ends, and have a row for every task."""
    graph = data.draw(random_graphs())
    arrows = Counter(graph.arrows())
    before = Counter((a, b, lag) for b, row in enumerate(graph.predecessors) for a, lag in row)
    after = Counter((a, b, lag) for a, row in enumerate(graph.successors) for b, lag in row)
    assert before == after == arrows
    assert len(graph.predecessors) == len(graph.successors) == len(graph)

"""Many list schedules of one graph: all are schedules, and a graph backwards in time swaps its sides."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, strategies as st

from pipesched.core.listsched import back_and_forth, backwards_in_time, by_middles, by_rules, by_tails, length_of
from pipesched.core.tasks import TaskGraph, arrow, violations
from pipesched.core.timing import heads, tails

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]


@given(data=st.data())
def test_whatever_is_listed_is_a_schedule(graphs: Graphs, data: st.DataObject) -> None:
    """Also by middles that mean nothing."""
    graph = data.draw(graphs(most=12, nowhere=True))
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

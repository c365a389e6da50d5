"""Branch and bound on windows: it finds a schedule or refutes them all, as brute force does."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from hypothesis import assume, given, settings, strategies as st

from pipesched.core.listsched import length_of
from pipesched.core.optimum import Bounds, Branching
from pipesched.core.tasks import TaskGraph, violations
from tests.core.windows import THREE_ON_TWO, draw_small, schedules, within

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]


@settings(max_examples=100)
@given(data=st.data())
def test_it_agrees_with_brute_force(graphs: Graphs, data: st.DataObject) -> None:
    """It finds a schedule within the bounds if there is one, and otherwise refutes them; it narrows no schedule out."""
    graph, bounds = draw_small(graphs, data)
    there = schedules(graph, bounds)
    branching = Branching(graph, bounds, monotonic() + 60)
    for one in branching.run():
        assert list(violations(graph, one.starts)) == []
        assert schedules(graph, branching.bounds) == there
        if tuple(one.starts) in there:
            return
    assert there == []
    assert branching.is_refuted


@settings(max_examples=25)
@given(data=st.data())
def test_to_the_end(graphs: Graphs, data: st.DataObject) -> None:
    """When nobody stops it, it finds every schedule that starts within the bounds."""
    graph, bounds = draw_small(graphs, data)
    there = schedules(graph, bounds)
    assume(len(there) <= 30)
    branching = Branching(graph, bounds, monotonic() + 60)
    assert {tuple(one.starts) for one in branching.run()} >= set(there)
    assert branching.is_refuted == (not there)


def test_out_of_time_nothing_is_refuted() -> None:
    branching = Branching(THREE_ON_TWO, within(THREE_ON_TWO, 1), monotonic())
    assert list(branching.run()) == []
    assert not branching.is_refuted


def test_the_first_schedule_is_often_the_one() -> None:
    """Three tasks on two units: what is listed along the first fractional schedule takes two ticks."""
    branching = Branching(THREE_ON_TWO, within(THREE_ON_TWO, 2), monotonic() + 60)
    assert length_of(THREE_ON_TWO, next(branching.run()).starts) == 2


def test_nothing_to_schedule() -> None:
    """No task: the empty schedule is within the bounds."""
    branching = Branching(TaskGraph([], [], []), Bounds([], []), monotonic() + 60)
    assert {tuple(found.starts) for found in branching.run()} == {()}
    assert not branching.is_refuted

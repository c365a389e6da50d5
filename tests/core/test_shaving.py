"""Shaved windows: every schedule stays within, and some windows become narrower than propagation makes them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pytest
from hypothesis import given, settings, strategies as st

from pipesched.core.optimum import Bounds, Impossible, Windows
from pipesched.core.tasks import TaskGraph, arrow
from tests.core.windows import draw_small, schedules, within

Graphs = Callable[..., st.SearchStrategy[TaskGraph]]
CHAIN = TaskGraph([2, 1, 3], [0, 1, 0], [1, 1], [arrow(0, 1, 1), arrow(1, 2)])  # 7 ticks


def windows(graph: TaskGraph, bounds: Bounds) -> Windows:
    return Windows(graph, bounds, monotonic() + 60)


@settings(max_examples=100)
@given(data=st.data())
def test_every_schedule_stays_within(graphs: Graphs, data: st.DataObject) -> None:
    graph, bounds = draw_small(graphs, data)
    shaved = windows(graph, bounds)
    there = schedules(graph, bounds)
    try:
        for _ in shaved.shave():
            assert schedules(graph, shaved.bounds) == there
    except Impossible:
        assert there == []


def test_neighbours_follow() -> None:
    """A chain of 7 ticks within 9: what starts 1 later at the front pushes the others, at the back it pulls them."""
    shaved = windows(CHAIN, within(CHAIN, 9))
    assert shaved.bounds == ([0, 3, 4], [2, 5, 6])
    shaved.narrow(0, 1, 2)
    assert shaved.bounds == ([1, 4, 5], [2, 5, 6])
    shaved.narrow(2, 5, 5)
    assert shaved.bounds == ([1, 4, 5], [1, 4, 5])
    assert shaved.slack(1) == 0


def test_an_empty_window_is_impossible() -> None:
    shaved = windows(CHAIN, within(CHAIN, 9))
    with pytest.raises(Impossible):
        shaved.narrow(2, 7, 9)


def test_a_reset_takes_back_what_was_narrowed() -> None:
    shaved = windows(CHAIN, within(CHAIN, 9))
    before = shaved.bounds.copy()
    shaved.narrow(0, 2, 2)
    shaved.reset(before)
    assert shaved.bounds == before
    assert not shaved.relaxation.never_by(0, 0)


def test_more_is_shaved_than_paths_say() -> None:
    """Six products of a tick on two units feed a sum: it cannot start before 3, nor a product after its end."""
    graph = TaskGraph([1] * 7, [0] * 6 + [1], [2, 1], [arrow(task, 6) for task in range(6)])
    shaved = windows(graph, within(graph, 4))
    assert shaved.bounds.earliest[6] == 1
    for _ in shaved.shave():
        pass
    assert shaved.bounds.earliest[6] == shaved.bounds.latest[6] == 3
    assert shaved.bounds.latest[:6] == [2] * 6


def test_a_wide_window_is_shaved_in_few_steps() -> None:
    """A task that waits for 20 ticks of others on one unit, within 30: 1, 2, 4, .. ticks at a time."""
    graph = TaskGraph([1] * 21, [0] * 20 + [1], [1, 1], [arrow(task, 20) for task in range(20)])
    shaved = windows(graph, within(graph, 30))
    steps = sum(1 for _ in shaved._shave_end(20, at_front=True))
    assert shaved.bounds.earliest[20] == 20
    assert steps < 12

"""The linear relaxation: what it says no to no schedule does, and a proof does not rest on floating point."""

from __future__ import annotations

from time import monotonic
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from pipesched.core.optimum import SCALE, Bounds, Impossible, OutOfTime, Relaxation
from pipesched.core.tasks import TaskGraph, arrow
from tests.core.graphs import THREE_ON_TWO, draw_small, schedules, within
from tests.examples import examples


def relax(graph: TaskGraph, bounds: Bounds, seconds: float = 60) -> Relaxation:
    return Relaxation(graph, *bounds, monotonic() + seconds)


@examples(100)
@given(data=st.data())
def test_no_schedule_is_refused(data: st.DataObject) -> None:
    """Brute force over all schedules within the windows, at first and after one of them has become narrower."""
    graph, bounds = draw_small(data)
    relaxation = relax(graph, bounds)
    for _ in range(2):
        there = schedules(graph, bounds)
        try:
            relaxation.check()
            for task, (first, last) in enumerate(zip(*bounds, strict=True)):
                for tick in range(first, last):
                    if relaxation.never_by(task, tick):
                        assert all(starts[task] > tick for starts in there)
                    if relaxation.never_after(task, tick):
                        assert all(starts[task] <= tick for starts in there)
        except Impossible:
            assert there == []
            return
        middles = relaxation.middles()
        windows = zip(bounds.earliest, middles, bounds.latest, strict=True)
        assert all(first - 0.01 <= middle <= last + 0.01 for first, middle, last in windows)
        task = data.draw(st.integers(0, len(graph) - 1))
        tick = data.draw(st.integers(bounds.earliest[task], bounds.latest[task]))
        bounds.earliest[task] = tick
        relaxation.narrow(task, tick, bounds.latest[task])


class _Row(NamedTuple):
    """A row with a dual value of our own."""

    value: float

    def dual_value(self) -> float:
        return self.value


@examples(100)
@given(data=st.data())
def test_whatever_the_dual_values_what_is_proved_is_true(data: st.DataObject) -> None:
    """GLOP's numbers are replaced by random ones: they may prove less, never what does not hold."""
    graph, bounds = draw_small(data)
    there = schedules(graph, bounds)
    relaxation = relax(graph, bounds)
    relaxation.rows = [_Row(data.draw(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.75]))) for _ in relaxation.rows]
    for task, (first, last) in enumerate(zip(*bounds, strict=True)):
        for tick in range(first, last):
            column = relaxation.first[task] + tick - first
            begun = [int(starts[task] <= tick) for starts in there]
            assert not relaxation._proves({column: 1}, 0) or all(begun)
            assert not relaxation._proves({column: -1}, -1) or not any(begun)


def test_a_proof_by_hand() -> None:
    """Three tasks of a tick on two units within one tick: the rule of that tick, weighed once, is one unit short."""
    graph, bounds = THREE_ON_TWO, Bounds([0, 0, 0], [0, 0, 0])
    relaxation = relax(graph, bounds)
    assert [(more, most) for more, _, most in relaxation.rules] == [([], -1)]
    relaxation.rows = [_Row(-1.0)]
    relaxation._bound(0, 0, 3)
    assert relaxation._proves({0: 1}, 0)
    assert not relaxation._proves({0: 1}, 1)
    relaxation.rows = [_Row(-1 / SCALE / 4)]  # rounded to nothing
    assert not relaxation._proves({0: 1}, 0)


def test_a_rule_is_weighed_in_one_direction() -> None:
    """One task is long over when the other begins: that their rule holds with room to spare proves nothing."""
    graph = TaskGraph([1, 1, 1], [0, 0, 1], [1, 1], [arrow(0, 1)])
    relaxation = relax(graph, within(graph, 4))
    relaxation.narrow(0, 0, 0)
    relaxation.narrow(1, 3, 3)
    relaxation.rows = [_Row(2.0) for _ in relaxation.rows]
    assert not relaxation._proves({relaxation.first[2]: 1}, 0)


def test_a_question_where_nothing_is_left() -> None:
    """Three tasks have one unit for two ticks; whoever asks about the fourth hears of it."""
    graph = TaskGraph([1] * 4, [0] * 4, [1])
    relaxation = relax(graph, within(graph, 4))
    for task in range(3):
        relaxation.narrow(task, 0, 1)
    with pytest.raises(Impossible):
        relaxation.never_by(3, 1)


def test_the_clock_is_looked_at() -> None:
    """While the relaxation is built, and before it is solved."""
    with pytest.raises(OutOfTime):
        relax(THREE_ON_TWO, within(THREE_ON_TWO, 3), seconds=0)
    relaxation = relax(THREE_ON_TWO, within(THREE_ON_TWO, 3))
    relaxation.deadline = monotonic()
    with pytest.raises(OutOfTime):
        relaxation.check()

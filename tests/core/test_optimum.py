"""The shortest schedule of a task graph: brute force, published instances, and stages that stop when they may."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

from pipesched import InvalidSchedule
from pipesched.core import optimum
from pipesched.core.bounds import sharpened
from pipesched.core.cpsat import Limits, TaskModel, TimeIndexed
from pipesched.core.listsched import length_of
from pipesched.core.optimum import Margins, Windows, lower_bound, shortest, state
from pipesched.core.tasks import NOWHERE, TaskGraph, arrow, violations
from tests.core.graphs import STUBBORN, random_graphs, six_by_six
from tests.examples import examples


def brute_force(graph: TaskGraph) -> int:
    """The least length, by trying every start of every task up to a horizon that is long enough."""
    horizon = sum(graph.durations) + sum(lag for _, _, lag in graph.edges)
    best = horizon + 1
    for starts in product(range(horizon), repeat=len(graph)):
        if length_of(graph, starts) < best and not any(violations(graph, starts)):
            best = length_of(graph, starts)
    return best


@examples(25)
@given(data=st.data())
def test_brute_force_finds_nothing_shorter(data: st.DataObject) -> None:
    graph = data.draw(random_graphs(most=4, shortest=1, nowhere=True).filter(lambda one: sum(one.durations) <= 8))
    found = shortest(graph, Limits(seconds=10))
    assert list(violations(graph, found.starts)) == []
    assert found.is_proved
    assert found.length == length_of(graph, found.starts) == brute_force(graph)


@examples(25)
@given(data=st.data())
def test_every_bound_holds_and_every_model_agrees(data: st.DataObject) -> None:
    """Interval and time-indexed models find the same optimum; at one tick less the time-indexed one says no."""
    graph = data.draw(random_graphs(shortest=1, most=9))
    found = shortest(graph, Limits(seconds=10))
    assert lower_bound(graph)[0] <= found.bound == found.length
    margins = Margins(graph, *sharpened(graph))
    model = TaskModel()
    state(model, graph, margins.within(found.length + 1))
    model.shortest(margins.after, 0, found.length + 1)
    assert model.solve(Limits(seconds=10)).objective == found.length
    ticks = TimeIndexed()
    state(ticks, graph, margins.within(found.length))
    answer = ticks.solve(Limits(seconds=10, linearization=2))
    assert answer.status == "optimal"
    assert list(violations(graph, answer.starts)) == []
    short = margins.within(found.length - 1)
    if all(first <= last for first, last in zip(*short, strict=True)):
        ticks = TimeIndexed()
        state(ticks, graph, short)
        assert ticks.solve(Limits(seconds=10)).status == "infeasible"


def test_a_delivery_counts_in_the_optimum() -> None:
    """Two tasks of one tick on one unit, the second of which delivers 3 ticks late: it goes first."""
    found = shortest(TaskGraph([1, 1], [0, 0], [1], deliveries=[0, 3]), Limits())
    assert (list(found.starts), found.length, found.is_proved) == ([1, 0], 4, True)


def test_six_jobs_on_six_machines() -> None:
    """Bounds and lists are more than a few ticks apart: CP-SAT with intervals comes first, and is enough."""
    found = shortest(six_by_six(), Limits(seconds=30))
    assert (found.length, found.bound, found.proof) == (55, 55, "CP-SAT")


def test_a_horizon_that_is_refuted_raises_the_bound_to_the_next() -> None:
    """13 ticks, by brute force: neither bounds nor the first relaxation of 12 say so."""
    found = shortest(STUBBORN, Limits(seconds=30))
    assert lower_bound(STUBBORN)[0] < 13
    assert (found.length, found.bound, found.proof) == (13, 13, "no schedule of 12 (linear relaxation)")


def test_ctrl_c_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed while the relaxation is solved: the best list schedule and the bound are there."""

    def interrupted(windows: Windows) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Windows, "shave", interrupted)
    monkeypatch.setattr(optimum, "FEW_TICKS", 100)  # CP-SAT with intervals does not come first
    found = shortest(six_by_six(), Limits())
    assert list(violations(six_by_six(), found.starts)) == []
    assert (found.stopped_by, found.is_proved) == ("interrupt", False)
    assert found.bound < 55 <= found.length


def test_list_schedules_alone_where_they_meet_a_bound() -> None:
    found = shortest(TaskGraph([2, 2, 2], [0, 0, NOWHERE], [1], [arrow(0, 2)]), Limits(seconds=0))
    assert (found.length, found.method, found.proof) == (4, "list (alap, pairing)", "critical path")


def test_a_cycle_is_said() -> None:
    with pytest.raises(InvalidSchedule, match="cycle"):
        shortest(TaskGraph([1, 1], [0, 0], [1], [arrow(0, 1), arrow(1, 0)]), Limits())

"""Windows of time: shaving, branch and bound and CP-SAT refute them or find a schedule, as brute force does."""

from __future__ import annotations

from time import monotonic

import pytest
from hypothesis import assume, given, strategies as st

from pipesched.core import optimum
from pipesched.core.cpsat import Limits, SearchAnswer, TimeIndexed
from pipesched.core.listsched import length_of
from pipesched.core.optimum import Bounds, Branching, HorizonSearch, Impossible, Windows
from pipesched.core.tasks import TaskGraph, violations
from tests.core.graphs import STUBBORN, THREE_ON_TWO, draw_small, schedules, six_by_six, within
from tests.examples import examples


@examples(100)
@given(data=st.data())
def test_it_agrees_with_brute_force(data: st.DataObject) -> None:
    """It finds a schedule within the bounds if there is one, and otherwise refutes them; it narrows no schedule out."""
    graph, bounds = draw_small(data)
    there = schedules(graph, bounds)
    branching = Branching(graph, bounds, monotonic() + 60)
    for one in branching.run():
        assert list(violations(graph, one.starts)) == []
        assert schedules(graph, branching.bounds) == there
        if tuple(one.starts) in there:
            return
    assert there == []
    assert branching.is_refuted


@examples(25)
@given(data=st.data())
def test_to_the_end(data: st.DataObject) -> None:
    """When nobody stops it, it finds every schedule that starts within the bounds."""
    graph, bounds = draw_small(data)
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


@pytest.mark.parametrize(
    ("first_turn", "most_terms", "refuted_by"),
    [(0, 10**6, "time-indexed CP-SAT"), (60, 10**6, "linear relaxation"), (0, 0, "linear relaxation")],
    ids=["CP-SAT first", "branch and bound alone", "too large for CP-SAT"],
)
def test_one_tick_less_is_refuted(
    monkeypatch: pytest.MonkeyPatch, first_turn: float, most_terms: int, refuted_by: str
) -> None:
    monkeypatch.setattr(optimum, "FIRST_TURN", first_turn)
    monkeypatch.setattr(optimum, "MOST_TERMS", most_terms)
    search = HorizonSearch(STUBBORN, within(STUBBORN, 12), Limits(seconds=60))
    lengths = [length_of(STUBBORN, found.starts) for found in search.run()]
    assert lengths
    assert min(lengths) >= 13
    assert search.refuted_by == refuted_by


def test_cp_sat_finds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum, "FIRST_TURN", 0)
    search = HorizonSearch(STUBBORN, within(STUBBORN, 13), Limits(seconds=60))
    found = next(found for found in search.run() if found.method == "time-indexed CP-SAT")
    assert list(violations(STUBBORN, found.starts)) == []
    assert length_of(STUBBORN, found.starts) == 13
    assert not search.refuted_by


def test_who_gives_up_refutes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT's turn ends without an answer: branch and bound goes on, and it alone may say no."""

    def no_answer(model: TimeIndexed, limits: Limits) -> SearchAnswer:
        return SearchAnswer("unknown", [], None, 0, limits.seconds)

    monkeypatch.setattr(optimum, "FIRST_TURN", 0)
    monkeypatch.setattr(TimeIndexed, "solve", no_answer)
    search = HorizonSearch(STUBBORN, within(STUBBORN, 12), Limits(seconds=60))
    for _ in search.run():
        assert not search.refuted_by
    assert search.refuted_by == "linear relaxation"


def test_the_first_relaxation_is_often_enough() -> None:
    """Fisher and Thompson's instance: the first relaxation refutes 54, where their 55 is possible."""
    search = HorizonSearch(six_by_six(), within(six_by_six(), 54), Limits(seconds=60))
    assert list(search.run()) == []
    assert search.refuted_by == "linear relaxation"


def windows(graph: TaskGraph, bounds: Bounds) -> Windows:
    return Windows(graph, bounds, monotonic() + 60)


@examples(100)
@given(data=st.data())
def test_every_schedule_stays_within(data: st.DataObject) -> None:
    graph, bounds = draw_small(data)
    shaved = windows(graph, bounds)
    there = schedules(graph, bounds)
    try:
        for _ in shaved.shave():
            assert schedules(graph, shaved.bounds) == there
    except Impossible:
        assert there == []

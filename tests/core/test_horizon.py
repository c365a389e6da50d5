"""Is there a schedule within a horizon: branch and bound and CP-SAT, alone and in turns."""

from __future__ import annotations

import pytest

from pipesched.core import optimum
from pipesched.core.cpsat import Limits, SearchAnswer, TimeIndexed
from pipesched.core.listsched import length_of
from pipesched.core.optimum import Bounds, HorizonSearch, columns_of, terms_of
from pipesched.core.tasks import TaskGraph, violations
from tests.core.windows import STUBBORN, within


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


def test_the_first_relaxation_is_often_enough(six_by_six: TaskGraph) -> None:
    """Fisher and Thompson's instance: the first relaxation refutes 54, where their 55 is possible."""
    search = HorizonSearch(six_by_six, within(six_by_six, 54), Limits(seconds=60))
    assert list(search.run()) == []
    assert search.refuted_by == "linear relaxation"


def test_how_large_the_models_are() -> None:
    """Starts 0..2 of a task of 2 ticks: two columns and the spare one; three starts of up to five ticks."""
    graph, bounds = TaskGraph([2], [0], [1]), Bounds([0], [2])
    assert (columns_of(bounds), terms_of(graph, bounds)) == (3, 15)

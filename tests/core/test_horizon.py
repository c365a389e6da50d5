"""Is there a schedule within a horizon: branch and bound and CP-SAT, alone and in turns."""

from __future__ import annotations

import pytest

from pipesched.core import horizon
from pipesched.core.check import violations
from pipesched.core.cpsat import Limits
from pipesched.core.horizon import Search, columns_of, terms_of
from pipesched.core.lists import length_of
from pipesched.core.shaving import Bounds
from pipesched.core.tasks import TaskGraph, arrow
from tests.core.windows import within

PAIRS = [(1, 2), (1, 4), (3, 4), (1, 5), (3, 5), (3, 7)]
# Two units for six tasks, one unit for two: 13 ticks, by brute force; the first relaxation does not refute 12.
STUBBORN = TaskGraph([4, 4, 4, 3, 3, 3, 4, 4], [0, 1, 0, 1, 0, 0, 0, 0], [2, 1], [arrow(*pair) for pair in PAIRS])


@pytest.mark.parametrize(
    ("first_turn", "most_terms", "refuted_by"),
    [(0, 10**6, "time-indexed CP-SAT"), (60, 10**6, "linear relaxation"), (0, 0, "linear relaxation")],
    ids=["CP-SAT first", "branch and bound alone", "too large for CP-SAT"],
)
def test_one_tick_less_is_refuted(
    monkeypatch: pytest.MonkeyPatch, first_turn: float, most_terms: int, refuted_by: str
) -> None:
    monkeypatch.setattr(horizon, "FIRST_TURN", first_turn)
    monkeypatch.setattr(horizon, "MOST_TERMS", most_terms)
    search = Search(STUBBORN, within(STUBBORN, 12), Limits(seconds=60))
    lengths = [length_of(STUBBORN, found.starts) for found in search.run()]
    assert lengths
    assert min(lengths) >= 13
    assert search.refuted_by == refuted_by


def test_cp_sat_finds_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(horizon, "FIRST_TURN", 0)
    search = Search(STUBBORN, within(STUBBORN, 13), Limits(seconds=60))
    found = next(found for found in search.run() if found.method == "time-indexed CP-SAT")
    assert list(violations(STUBBORN, found.starts)) == []
    assert length_of(STUBBORN, found.starts) == 13
    assert not search.refuted_by


def test_the_first_relaxation_is_often_enough(six_by_six: TaskGraph) -> None:
    """Fisher and Thompson's instance: the first relaxation refutes 54, where their 55 is possible."""
    search = Search(six_by_six, within(six_by_six, 54), Limits(seconds=60))
    assert list(search.run()) == []
    assert search.refuted_by == "linear relaxation"


def test_how_large_the_models_are() -> None:
    """Starts 0..2 of a task of 2 ticks: two columns and the spare one; three starts of up to five ticks."""
    graph, bounds = TaskGraph([2], [0], [1]), Bounds([0], [2])
    assert (columns_of(bounds), terms_of(graph, bounds)) == (3, 15)

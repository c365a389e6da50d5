"""What a solve returns is a local optimum: no single move that `explain` lists shortens it within the budget."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pipesched.analysis.explain import explain
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.schedule import Schedule
from pipesched.results.timed_moves import shortened
from pipesched.solver.case import Candidate
from pipesched.solver.search import Search
from pipesched.solver.solve import solve


def given(seed: int) -> dict[str, Any]:
    """Arguments of a problem with uneven stages, of which heuristics alone leave some that a move shortens."""
    random = Random(seed)
    devices, chunks = random.randint(2, 4), random.choice([1, 2])
    stages = devices * chunks

    def times(most: int) -> list[int]:
        return [random.randint(1, most) for _ in range(stages)]

    halves = random.random() < 0.5
    backward = {"backward_input": times(9), "backward_weight": times(9)} if halves else {"backward": times(12)}
    return {
        "devices": devices, "stages": stages, "microbatches": random.randint(4, 9), "forward": times(9), **backward,
        "p2p": random.choice([0, 1]), "budget": random.choice([None, 4, 6]), "activation": 1 / chunks,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.slow
def test_no_move_that_fits_shortens_the_answer(seed: int) -> None:
    found = explain(solve(make_problem(**given(seed)), method="portfolio", time_limit=20, advice=False))
    assert found.moves_complete
    assert not [move for move in found.moves if move.fits]


def test_what_the_portfolio_ends_with_is_reached_by_auto_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds a little less, from which no move goes on, does not keep away the moves of the portfolio."""
    problem = make_problem(**given(68))
    alone = solve(problem, method="portfolio", time_limit=20, advice=False)
    ends: list[Schedule] = []

    def search(found: Search, *_: object) -> None:
        assert found.best is not None
        number, source = found.candidates.index(found.best), found.best.schedule
        ends.append(next(iter(shortened(source))))
        found.offer(number, Candidate("other", ends[0]))

    monkeypatch.setattr("pipesched.solver.solve.search_in_turn", search)
    monkeypatch.setattr("pipesched.solver.solve.shortened", lambda one: () if one is ends[0] else shortened(one))
    both = solve(problem, time_limit=20, advice=False, polish=False)
    assert ends[0].makespan > both.schedule.makespan == alone.schedule.makespan

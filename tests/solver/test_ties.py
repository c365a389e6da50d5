"""Of schedules of one value the one that holds least is the answer; and no single move shortens an answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

import pipesched
from pipesched.analysis.explain import explain
from pipesched.errors import NoSchedule
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.timed_moves import shortened
from pipesched.schedulers.registry import FAMILIES
from pipesched.solver.case import Candidate
from pipesched.solver.search import Search
from pipesched.solver.solve import solve
from tests.examples import part
from tests.pipeline.test_imbalance import REAL
from tests.strategies import problems


def test_memory_breaks_ties() -> None:
    """Naive takes as long as 1F1B and holds 65.2 GB: the answer is 1F1B's makespan at 29.2 GB, and others are named."""
    whole = pipesched.make_problem(
        devices=8, microbatches=48, forward=[17] * 7 + [25], backward=[32] * 7 + [48], p2p=0.8, activation=0.9,
        static=22, budget=80,
    )  # fmt: skip
    solved = pipesched.solve(whole)
    assert max(solved.schedule.memory) == 29.2
    assert solved.report is not None
    assert solved.report.source == "1f1b"
    assert solved.report.equal["naive"] == 65.2


def test_the_equal_ones_are_in_the_document() -> None:
    """`solver.equal` lists their names, least memory first."""
    report = pipesched.solve(REAL).report
    assert report is not None
    assert report.source == "zb-h1"
    assert list(report.equal) == ["interleaved-zb", "zb-auto", "zb-h2"]
    assert len({report, pipesched.solve(REAL).report}) == 2  # reports can stand in sets


@given(problems(("linear", "loop", "v", "auto"), most_devices=3, most_microbatches=5, least=1))
@part(4)
@pytest.mark.slow
def test_no_family_of_the_same_makespan_holds_less(problem: Problem) -> None:
    """What a family reaches in the same time with less memory would have been the answer."""
    try:
        solved = pipesched.solve(problem, time_limit=20, split_backward=problem.costs.split)
    except NoSchedule:
        return
    for name in FAMILIES:
        try:
            other = pipesched.run(problem, name).schedule
        except (pipesched.NotApplicable, NoSchedule):
            continue
        if (
            other.fits
            and other.problem.stages == solved.problem.stages  # fused, gradients of one stage never wait beside another
            and other.makespan == solved.schedule.makespan
            and other.plan.index.letters == solved.schedule.plan.index.letters
            and not other.problem.settled_placement.mirrored
            and not other.plan.pairs
        ):
            assert max(solved.schedule.memory) <= max(other.memory)


def test_polishing_lowers_the_memory_of_what_has_no_name() -> None:
    """A list schedule is as long, and holds half of what it holds without the second phase."""
    problem = pipesched.make_problem(
        devices=2, stages=4, microbatches=6, placement="v", p2p=1, activation=[3, 2, 1, 3],
        forward=[5, 3, 2, 2], backward_input=[2, 5, 6, 4], backward_weight=[2, 3, 6, 6],
    )  # fmt: skip
    plain = pipesched.solve(problem, time_limit=20, workers=1, polish=False)
    polished = pipesched.solve(problem, time_limit=20, workers=1)
    assert polished.schedule.makespan == plain.schedule.makespan == 157
    assert max(plain.schedule.memory) == 24
    assert max(polished.schedule.memory) <= 12
    assert pipesched.check(polished) == []


def uneven(seed: int) -> dict[str, Any]:
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
    found = explain(solve(make_problem(**uneven(seed)), method="portfolio", time_limit=20, advice=False))
    assert found.moves_complete
    assert not [move for move in found.moves if move.fits]


def test_what_the_portfolio_ends_with_is_reached_by_auto_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds a little less, from which no move goes on, does not keep away the moves of the portfolio."""
    problem = make_problem(**uneven(68))
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

"""The periodic method of `solve`: its answers are schedules, and it says what is proved about those that repeat."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Outcome, Problem, Repetition, SolveReport
from pipesched.pipeline.check.check import violations
from pipesched.solver.policy import PeriodPolicy, SolvePolicy
from pipesched.solver.request import SolveRequest
from pipesched.solver.solve import solve_request
from tests.examples import examples
from tests.solver.periodic.problems import tight

pytestmark = pytest.mark.slow

LATENT: dict[str, Any] = {
    "devices": 4, "stages": 8, "microbatches": 24, "forward": 5, "backward": 10, "p2p": 1, "budget": 3,
}  # fmt: skip


LITTLE = SolvePolicy(periods=PeriodPolicy(most_runs=4))  # the search ends by itself, long before its time is up


def solve(problem: Problem, **settings: Any) -> Outcome:
    return solve_request(SolveRequest(problem, policy=LITTLE, **settings))


def report_of(problem: Problem, **settings: Any) -> SolveReport:
    report = solve(problem, **settings).report
    assert report is not None
    return report


@given(tight(most_devices=4, most_microbatches=8, most_chunks=2), st.sampled_from(["makespan", "span"]))
@examples(12)
@pytest.mark.nightly
def test_what_holds_on_every_answer(problem: Problem, objective: str) -> None:
    """Every rule is kept and the budget holds; no period of one microbatch is refuted that was found."""
    outcome = solve(problem, method="periodic", objective=objective, workers=1, time_limit=120, polish=False)
    assert not list(violations(outcome.schedule))
    assert outcome.schedule.fits
    assert outcome.report is not None
    assert outcome.report.bound.ticks <= outcome.report.value_ticks
    known = outcome.report.repetition
    if known is not None and known.microbatches == 1:
        assert known.refuted < known.period


@pytest.mark.nightly
def test_the_report_says_how_it_repeats() -> None:
    """No answer is longer than that of the heuristics, and what is known about blocks is of its placement."""
    problem = pipesched.make_problem(**LATENT, placement="v")
    lists = report_of(problem, method="portfolio")
    report = report_of(problem, method="periodic", workers=1, time_limit=120)
    assert report.value <= lists.value
    assert report.repetition is not None
    assert report.repetition.placement == "v"
    assert report.repetition.refuted >= 29


def test_a_document_keeps_what_is_known(tmp_path: Any) -> None:
    """What is known about periodic schedules is written and read."""
    given = {**LATENT, "devices": 3, "stages": 6, "microbatches": 6}
    outcome = solve(pipesched.make_problem(**given, placement="v"), method="periodic")
    assert outcome.report is not None
    path = pipesched.write(outcome, tmp_path / "found.json")
    section = json.loads(path.read_text())["solver"]["repetition"]
    assert set(section) == {"placement", "period", "microbatches", "refuted"}
    again = pipesched.read(path)
    assert isinstance(again, pipesched.Outcome)
    assert again.report is not None
    assert again.report.repetition == outcome.report.repetition


def test_a_repetition_is_checked() -> None:
    """A report takes a Repetition or None."""
    outcome = pipesched.solve(pipesched.make_problem(devices=2, microbatches=2), method="portfolio")
    assert outcome.report is not None
    fields = {name: getattr(outcome.report, name) for name in outcome.report.__dataclass_fields__}
    with pytest.raises(ConfigError, match="repetition: must be a Repetition or None"):
        SolveReport(**{**fields, "repetition": 5})
    assert SolveReport(**{**fields, "repetition": Repetition("v", 6, 1, 5)}).repetition == ("v", 6, 1, 5)

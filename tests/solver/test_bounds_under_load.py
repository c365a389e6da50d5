"""The bound of a solve is that of an idle machine on a loaded one; what was cut off or left out for time is named."""

from __future__ import annotations

from time import monotonic
from typing import Any, cast

import pytest

from pipesched.core import clock
from pipesched.documents.schedule import report_of, solver_document
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.results.outcome import SolveReport
from pipesched.schedulers.registry import algorithms
from pipesched.solver.cuts.tried import FamilyCuts, chain_of, fused_for_families, least_by_work
from pipesched.solver.feasible import placed
from pipesched.solver.solve import solve
from tests.fake_clock import FakeClock
from tests.results.test_best_cut import DEEPSEEK

LAYERS: dict[str, Any] = {
    "devices": 4, "chunks": 2, "microbatches": 12, "layer": {"forward": [2, 1, 3, 1, 2, 5, 1, 1, 4, 2, 1, 3, 1]},
    "last": {"forward": 4}, "p2p": 1,
}  # fmt: skip


def solved(**options: Any) -> SolveReport:
    """The report of a solve of LAYERS by heuristics."""
    report = solve(make_problem(**LAYERS), method="portfolio", advice=False, **options).report
    assert report is not None
    return report


def test_some_device_has_as_many_layers_as_the_pigeonhole_says() -> None:
    """58 layers of 11.6 on 16 devices: one has 4, for 48 microbatches; it needs no search."""
    for problem in placed(make_problem(**cast("dict[str, Any]", DEEPSEEK)), None):
        chain = chain_of(problem)
        assert least_by_work(chain) == 2227.2 * chain.per_unit


@pytest.mark.parametrize("times", [1, 4])
def test_a_loaded_machine_has_the_bound_of_an_idle_one(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes so many times faster is a machine that has so much less time."""
    monkeypatch.setattr(clock, "monotonic", lambda: times * monotonic())
    report = solved(time_limit=20)
    assert (report.bound.value, report.cut_off) == (307, ())
    assert report.covers.startswith("all cuts, 1 or 2 chunks, placements ")


def test_a_search_for_bounds_that_is_cut_off_says_so(fake_clock: FakeClock) -> None:
    """The bound is then at least what is known without a search, and the report names what had too little time."""
    report = solved(time_limit=40)
    assert "cuts" in report.cut_off
    problem = make_problem(**LAYERS)
    problems = placed(problem, None)
    chains = map(chain_of, [*problems, *fused_for_families(problem, problems)])
    assert report.bound.value >= min(least_by_work(chain) / chain.per_unit for chain in chains)
    assert solver_document(report)["cut_off"] == [*report.cut_off]


def test_algorithms_without_time_are_named(fake_clock: FakeClock) -> None:
    """In the report and its document, by the names that `list` has."""
    outcome = solve(make_problem(**LAYERS), method="portfolio", advice=False, time_limit=40)
    report = outcome.report
    assert report is not None
    assert report.not_tried
    assert {*report.not_tried} <= {algorithm.name for algorithm in algorithms()}
    content = solver_document(report)
    assert report_of(content, outcome.metrics, outcome.schedule).not_tried == report.not_tried


def test_what_was_tried_on_other_cuts_is_not_called_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm without time for its best cut, which ran on others, says so; one that ran on none is named alone."""
    left = FamilyCuts([], ["interleaved", "zb-v"])
    monkeypatch.setattr("pipesched.solver.solve.of_families", lambda *_: left)
    assert solved(time_limit=20).not_tried == ("interleaved on its best cut", "zb-v")


def test_a_report_has_its_bound_as_a_number() -> None:
    """In the user's unit, like its value; beside the makespan's own, which is about this cut and placement."""
    outcome = solve(make_problem(**{**LAYERS, "p2p": 0.5}), method="portfolio", advice=False, time_limit=20)
    report = outcome.report
    assert report is not None
    assert report.lower_bound == report.bound.value == report.bound.ticks / report.bound.per_unit
    assert report.lower_bound <= outcome.lower_bound <= report.value
    assert (outcome.claim.bound, outcome.claim.covers) == (report.bound, report.covers)

"""Solves of whole steps beside the best of all orders of tiny pipelines."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import make_problem, solve
from pipesched.pipeline.check import violations
from pipesched.results.status import Status
from tests.examples import part
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import step_configs
from tests.oracle.step_optimum import optimum
from tests.oracle.step_setup import read_step


@pytest.mark.nightly
@part(8)
@given(step_configs(most_devices=2, most_microbatches=2), st.booleans())
def test_no_answer_is_wrong(config: Config, is_open: bool) -> None:
    """No solve is shorter than the best order, no bound above it, and what is called optimal is as short."""
    step = read_step(config)
    is_open = is_open and step.level == "weights"
    if is_open:
        config = config | {"shard": config["shard"] | {"ahead": "auto"}}
    problem = make_problem(**config)
    count = step.setup.microbatches
    assume(step.setup.stages * count * len(problem.letters) + 2 * len(step.side) * count <= 9)
    outcome = solve(problem, time_limit=5, advice=False, polish=False)
    report = outcome.report
    best = optimum(step, problem.letters, any_ahead=is_open)
    assert report is not None
    assert best is not None
    assert not [*violations(outcome.schedule)]
    value, bound = (Fraction(ticks, problem.ticks.per_unit) for ticks in (report.value_ticks, report.bound.ticks))
    assert bound <= best <= value
    assert report.status != Status.OPTIMAL or value == best

"""Solving small pipelines of microbatches that differ: no better than the best of all orders, and that where proved."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched import make_problem, solve
from tests.examples import part
from tests.oracle.drawn import Config, small_configs
from tests.oracle.optimum import optimum
from tests.oracle.setup import read_setup


@pytest.mark.slow
@part(2)
@given(st.tuples(st.booleans(), st.booleans()).flatmap(lambda cut: small_configs(slices=cut[0], forward_only=cut[1])))
def test_solved_beside_every_order(config: Config) -> None:
    """Sizes, tables, slices and forwards alone, with a budget or without: the optimum is found, and proved."""
    problem = make_problem(**config)
    outcome = solve(problem, time_limit=60)
    kinds = "F" if "mode" in config else "FIW" if "backward_input" in config else "FB"
    best = optimum(read_setup(config), kinds)
    assert outcome.schedule.fits
    assert outcome.status == "optimal"
    assert outcome.schedule.makespan_ticks == outcome.bound.ticks
    assert best is not None
    assert outcome.schedule.makespan_ticks == best * outcome.schedule.problem.ticks.per_unit

"""Solving whole steps of small pipelines: no better than the best of all orders, and that where it is proved."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import NoSchedule, make_problem, run, solve
from tests.examples import part
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import random_texts, step_configs
from tests.oracle.step_optimum import optimum
from tests.oracle.step_replay import replay_step
from tests.oracle.step_setup import read_step


@st.composite
def small_steps(draw: st.DrawFn) -> Config:
    """A step of few operations, perhaps within a budget that some plan just keeps; at level weights with any ahead."""
    config = draw(step_configs(most_devices=2, most_microbatches=3, least=1))
    has_budget = draw(st.booleans())
    step = read_step(config)
    kinds = 3 if "backward_input" in config else 2
    works = step.setup.stages * step.setup.microbatches * kinds
    sides = sum(len(item.devices) * (2 if item.backward else 1) for item in step.side) * step.setup.microbatches
    assume(works + sides <= (8 if has_budget or step.level == "weights" else 12))
    if has_budget:
        random = Random(draw(st.integers(0, 9)))
        replayed = replay_step(step, random_texts(step, random)._replace(waits=()))
        config["budget"] = [max(peak + kept, 1) for peak, kept in zip(replayed.peak, step.statics(), strict=True)]
    if step.level == "weights":
        config["shard"]["ahead"] = "auto"
    return config


@pytest.mark.slow
@part(2)
@given(small_steps())
def test_solved_beside_every_order(config: Config) -> None:
    """All levels, tied weights, clipping and side work, with a budget or without: the optimum is found, and proved."""
    problem = make_problem(**config)
    best = optimum(read_step(config), "FIW" if "backward_input" in config else "FB", any_ahead=True)
    if best is None:  # the random program of the budget may hold less than any that the rule or a microbatch allows
        with pytest.raises(NoSchedule):
            solve(problem, time_limit=60)
        return
    outcome = solve(problem, time_limit=60)
    schedule = outcome.schedule
    assert schedule.fits
    assert schedule.makespan_ticks == best * schedule.problem.ticks.per_unit
    assert outcome.status == "optimal"
    assert outcome.bound.ticks == schedule.makespan_ticks


@pytest.mark.slow
@part(4)
@given(step_configs(("linear",), has_side=True), st.sampled_from(["1f1b", "naive", "zb-h1", "zb-h2", "list"]))
def test_side_work_in_bubbles(config: Config, name: str) -> None:
    """Side work in bubbles never takes longer than all of it first, whatever else the step has."""
    problem = make_problem(**config)
    makespans: list[Any] = [run(problem, name, side_rule=rule).schedule.makespan_ticks for rule in ("bubbles", "first")]
    assert makespans[0] <= makespans[1]

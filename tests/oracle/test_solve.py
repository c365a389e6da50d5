"""Solves and bounds of small pipelines and steps beside the best of all orders."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import NoSchedule, make_problem, plan, run, schedule_plan, solve
from pipesched.pipeline.bounds.bounds import lower_bound
from tests.examples import part
from tests.oracle.drawn import Config, small_configs
from tests.oracle.drawn_step import random_texts, step_configs
from tests.oracle.optimum import optimum
from tests.oracle.setup import read_setup
from tests.oracle.step_optimum import optimum as optimum_of_step
from tests.oracle.step_replay import replay_step
from tests.oracle.step_setup import read_step


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
        assume(config["shard"].get("gather") != "each")  # with which nothing is gathered ahead
        config["shard"]["ahead"] = "auto"
    return config


@pytest.mark.slow
@part(2)
@given(small_steps())
def test_steps_solved_beside_every_order(config: Config) -> None:
    """All levels, tied weights, clipping and side work, with a budget or without: the optimum is found, and proved."""
    problem = make_problem(**config)
    best = optimum_of_step(read_step(config), "FIW" if "backward_input" in config else "FB", any_ahead=True)
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


@given(step_configs(most_devices=2, most_microbatches=2), st.randoms(use_true_random=False), st.booleans())
def test_no_bound_is_above_the_optimum(config: Config, random: Random, is_split: bool) -> None:
    """Of the schedule of any plan the bound is at most what the best plan takes."""
    step = read_step(config)
    kinds = "FIW" if is_split else "FB"
    if step.level == "weights":
        assume(step.setup.stages * step.setup.microbatches <= 4)
    works = step.setup.stages * step.setup.microbatches * len(kinds) + 2 * len(step.side) * step.setup.microbatches
    assume(works <= (8 if step.level == "weights" else 14))
    texts = random_texts(step, random, split=is_split)
    waits = [(behind, before) for before, behind in texts.waits]
    problem = make_problem(**config)
    schedule = schedule_plan(problem, plan(problem, [*map(list, texts.rows)], waits=waits, network=[*texts.programs]))
    best = optimum_of_step(step, kinds, any_ahead=True)
    assert best is not None
    assert lower_bound(schedule).ticks <= best * schedule.problem.ticks.per_unit


@pytest.mark.parametrize(("devices", "microbatches", "least"), [(1, 1, 11), (1, 3, 25), (1, 8, 60), (2, 8, 63)])
def test_each_gather_counts(devices: int, microbatches: int, least: int) -> None:
    """Gathers of 4 before each F and behind the last one, while the device does nothing: 4 (M + 1) beside 3 M."""
    shard = {"level": "weights", "gather": "each"}
    problem = make_problem(devices=devices, microbatches=microbatches, gather=4, shard=shard)
    outcome = run(problem, "1f1b")
    assert outcome.bound.value == least
    assert devices > 1 or outcome.schedule.makespan == least

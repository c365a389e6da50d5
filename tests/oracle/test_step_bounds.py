"""Lower bounds of whole steps beside the best of all orders of tiny pipelines."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, strategies as st

import pipesched
from pipesched import make_problem, plan, schedule_plan
from pipesched.pipeline.bounds import lower_bound
from tests.oracle.drawn import Config
from tests.oracle.drawn_step import random_texts, step_configs
from tests.oracle.step_optimum import optimum
from tests.oracle.step_setup import read_step


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
    best = optimum(step, kinds, any_ahead=True)
    assert best is not None
    assert lower_bound(schedule).ticks <= best * schedule.problem.ticks.per_unit


@pytest.mark.parametrize(("devices", "microbatches", "least"), [(1, 1, 11), (1, 3, 25), (1, 8, 60), (2, 8, 63)])
def test_each_gather_counts(devices: int, microbatches: int, least: int) -> None:
    """Gathers of 4 before each F and behind the last one, while the device does nothing: 4 (M + 1) beside 3 M."""
    shard = {"level": "weights", "gather": "each"}
    problem = pipesched.make_problem(devices=devices, microbatches=microbatches, gather=4, shard=shard)
    outcome = pipesched.run(problem, "1f1b")
    assert outcome.bound.value == least
    assert devices > 1 or outcome.schedule.makespan == least

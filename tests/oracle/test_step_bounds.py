"""Lower bounds of whole steps beside the best of all orders of tiny pipelines."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given, strategies as st

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

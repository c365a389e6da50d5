"""Solves and bounds of small pipelines and steps beside the best of all orders."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from pipesched import NoSchedule, Outcome, make_problem, plan, run, schedule_plan, solve
from pipesched.pipeline.bounds.bounds import lower_bound
from tests.examples import part
from tests.oracle.drawn import Config, random_texts, small_configs, step_configs
from tests.oracle.optimum import optimum
from tests.oracle.setup import read_setup
from tests.oracle.step_optimum import optimum as optimum_of_step
from tests.oracle.step_replay import by_rule, replay_step
from tests.oracle.step_setup import Step, read_step


@pytest.mark.slow
@part(4)
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
@part(4)
@given(small_steps())
def test_steps_solved_beside_every_order(config: Config) -> None:
    """All levels, tied weights, clipping and side work, with a budget or without: the optimum is found, and proved.

    Where some stages of a device are whole at once, no bound is above it.
    """
    problem = make_problem(**config)
    best = optimum_of_step(read_step(config), "FIW" if "backward_input" in config else "FB", any_ahead=True)
    if best is None:  # the random program of the budget may hold less than any that the rule or a microbatch allows
        with pytest.raises(NoSchedule):
            solve(problem, time_limit=60)
        return
    outcome = solve(problem, time_limit=60)
    schedule = outcome.schedule
    assert schedule.fits
    least = best * schedule.problem.ticks.per_unit
    assert outcome.bound.ticks <= least <= schedule.makespan_ticks
    if problem.sharding.level != "weights" or problem.stages <= problem.devices:
        assert schedule.makespan_ticks == least
        assert outcome.status == "optimal"


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


# Solves at level weights beside the best of all orders, with some stages of a device whole at once, all, or any.

SHAPES: list[Config] = [
    {"devices": 1, "stages": 3, "placement": [0, 0, 0], "microbatches": 1},
    {"devices": 1, "stages": 4, "placement": [0, 0, 0, 0], "microbatches": 1},
    {"devices": 1, "stages": 2, "placement": [0, 0], "microbatches": 2},
    {"devices": 2, "stages": 3, "placement": [0, 1, 0], "microbatches": 2},
    {"devices": 2, "stages": 6, "placement": [0, 1, 0, 1, 0, 1], "microbatches": 1},
    {"devices": 3, "stages": 6, "placement": [0, 1, 2, 0, 1, 2], "microbatches": 1},
]


def times(count: int) -> st.SearchStrategy[Any]:
    """A time for all stages, or one each."""
    return st.one_of(st.integers(1, 9), st.lists(st.integers(1, 9), min_size=count, max_size=count))


@st.composite
def sharded(draw: st.DrawFn, shapes: list[Config]) -> Config:
    """A step at level weights; perhaps with the budget that one microbatch at a time keeps, or a little more."""
    config = dict(draw(st.sampled_from(shapes)))
    count = config["stages"]
    config |= {key: draw(times(count)) for key in ("forward", "backward", "gather")}
    config |= {key: draw(times(count)) for key in ("reduce", "optimizer") if draw(st.booleans())}
    if draw(st.booleans()):
        config["tied"] = draw(st.integers(1, 9))
    ahead = draw(st.sampled_from([1, 2, 2, 3, "full", "auto"]))
    config["shard"] = {"level": "weights", "ahead": ahead, "reduce": draw(st.sampled_from(["last", "each"]))}
    if draw(st.booleans()):
        config |= {key: draw(st.integers(0, 3)) for key in ("weights", "gradients")}
        step = read_step(config)
        whole = replay_step(step, by_rule(step, _one_at_a_time(step)))
        more = draw(st.integers(0, 2))
        config["budget"] = [max(peak + kept + more, 1) for peak, kept in zip(whole.peak, step.statics(), strict=True)]
    return config


def _one_at_a_time(step: Step) -> list[list[str]]:
    """Each device's passes of one microbatch behind those of another."""
    rows: list[list[str]] = [[] for _ in range(step.setup.devices)]
    stages = [*enumerate(step.setup.placement)]
    for microbatch in range(step.setup.microbatches):
        for kind, way in (("F", stages), ("B", stages[::-1])):
            for stage, device in way:
                rows[device].append(f"{stage}{kind}{microbatch}")
    return rows


def solved_beside_all(config: Config) -> Outcome | None:
    """The answer to a solve, after a look at the best of all orders: it is legal, and nothing false is said of it."""
    best = optimum_of_step(read_step(config), "FB", any_ahead=config["shard"]["ahead"] == "auto")
    try:
        outcome = solve(make_problem(**config), time_limit=40, advice=False)
    except NoSchedule:
        assert best is None
        return None
    schedule = outcome.schedule
    assert best is not None
    least = best * schedule.problem.ticks.per_unit
    assert schedule.fits
    assert outcome.bound.ticks <= least <= schedule.makespan_ticks
    stages = max(map(config["placement"].count, config["placement"]))
    all_whole = config["shard"]["ahead"] in (stages, "full")  # else the model lacks some gathers
    if "budget" not in config and all_whole:  # with one, times as early as possible may hold more than later ones would
        assert outcome.status == "optimal"
        assert schedule.makespan_ticks == least
    return outcome


@pytest.mark.slow
@settings(part(8), suppress_health_check=[HealthCheck.too_slow])
@given(sharded(SHAPES))
def test_beside_every_order(config: Config) -> None:
    """No bound is above the optimum; without a budget and with all stages whole it is found and proved."""
    solved_beside_all(config)

"""Solves at level weights beside the best of all orders, with some stages of a device whole at once, all, or any."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pipesched import NoSchedule, Outcome, make_problem, solve
from tests.examples import part
from tests.oracle.drawn import Config
from tests.oracle.step_optimum import optimum
from tests.oracle.step_replay import replay_step
from tests.oracle.step_rule import by_rule
from tests.oracle.step_setup import Step, read_step

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
    best = optimum(read_step(config), "FB", any_ahead=config["shard"]["ahead"] == "auto")
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
    if "budget" not in config:  # with one, times that are as early as possible may hold more than later ones would
        assert outcome.status == "optimal"
        assert schedule.makespan_ticks == least
    return outcome


@pytest.mark.slow
@settings(part(8), suppress_health_check=[HealthCheck.too_slow])
@given(sharded(SHAPES))
def test_beside_every_order(config: Config) -> None:
    """The optimum is found, and without a budget proved; no bound is above it."""
    solved_beside_all(config)

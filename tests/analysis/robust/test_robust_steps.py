"""Whole steps under noise and with slow devices: factors by text for all operations, lanes that no device slows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched import robustness, run, schedule_plan
from pipesched.analysis.robustness import Factors, Replay, Variation
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import Shard, SideItem
from tests.pipeline.steps import whole_steps, with_costs
from tests.strategies import plan_of, random_plan

FINE = 10**6  # parts of a tick
NOISE = Variation(noise=0.3, device_noise=0.2, samples=2, seed=5)


def factor(text: str, noise: float) -> list[float]:
    """The factors of a text in each sample."""
    row = np.empty((1, NOISE.samples))
    Factors(NOISE.seed, 0, NOISE.samples).fill(row, [text], noise)
    return [float(one) for one in row[0]]


def sampled(schedule: Schedule, sample: int) -> float:
    """The makespan where each operation lasts what its texts say, its device too; no latencies."""
    index, plan = schedule.plan.index, schedule.plan
    home = {number: device for device, order in enumerate(plan.orders) for number in order}
    lengths = [0] * index.size
    for order in plan.machines:
        for number in order:
            text = "0REDUCE_TIED" if index.kind_of(number) == "REDUCE_TIED" else str(plan.slot(number))
            times = factor(text, NOISE.noise)[sample]
            if number in home:
                times *= factor(f"device {home[number]}", NOISE.device_noise)[sample]
            lengths[number] = round(schedule.graph.durations[number] * times * FINE)
    return schedule_plan(schedule.problem, plan, lengths).makespan_ticks / FINE / schedule.problem.ticks.per_unit


def small(shard: Shard) -> Schedule:
    """A schedule with every kind of operation, and no latencies."""
    item = SideItem(forward=(2,), backward=(4,), devices=(0, 1))
    costs: dict[str, Any] = {"gather": 4, "reduce": 9, "optimizer": 2, "tied": 3, "side": (item,)}
    shape: dict[str, Any] = {"devices": 2, "stages": 4, "microbatches": 2, "forward": 5, "backward": 10}
    return run(with_costs(shard, **shape, **costs), "interleaved", side_rule="first").schedule


@pytest.mark.parametrize("shard", [Shard("optimizer"), Shard("gradients", reduce="each"), Shard("weights", ahead=1)])
def test_each_sample_is_a_replay(shard: Shard) -> None:
    """Operations of a step have the factors of their texts, both ends of tied gradients one, lanes none of devices."""
    schedule = small(shard)
    found = Replay(schedule).makespans(NOISE)
    assert found.tolist() == pytest.approx([sampled(schedule, sample) for sample in (0, 1)], rel=1e-5)
    assert Replay(schedule).makespans(Variation(noise=0, samples=2)).tolist() == [schedule.makespan] * 2


@given(problem=whole_steps(), random=st.randoms(use_true_random=False))
def test_stragglers_do_not_slow_lanes(problem: Problem, random: Random) -> None:
    """A device at half its speed is slow in its slots, optimizers and side work among them, and its lane is not."""
    problem = replace(problem, speed=(1,) * problem.devices)
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    slow = Replay(schedule).stragglers(to_fraction(2))
    for device, makespan in enumerate(slow):
        speed = tuple(Decimal("0.5") if one == device else 1 for one in range(problem.devices))
        other = replace(schedule.problem, speed=speed)  # type: ignore[arg-type]
        assert schedule_plan(other, schedule.plan).makespan == makespan


def test_figures_of_a_step() -> None:
    """A reduction that ends last counts, and a slow device makes its optimizer slow."""
    problem = with_costs(devices=2, microbatches=2, forward=1, backward=2, reduce=7, optimizer=3)
    (row,) = robustness(run(problem, "1f1b"), straggler=2, noise=0, samples=2)
    assert (row.makespan, row.mean) == (9 + 7 + 3, 19)
    assert row.stragglers == (13 + 7 + 6, 13 + 7 + 6)

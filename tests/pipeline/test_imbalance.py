"""What a device holds and how useful its time is: totals, imbalance, utilization, bottleneck."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.pipeline.layers.recut import saved_by_moving
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.problem import Problem
from tests.strategies import SETTLED, plan_of, problems, random_plan, random_saving_plan, saving_plan_of

# The last of eight devices has a heavy head.
HEAVY: dict[str, Any] = {
    "forward": [17] * 7 + [25],
    "backward_input": [17] * 7 + [25],
    "backward_weight": [15] * 7 + [23],
}
REAL = pipesched.make_problem(
    devices=8, microbatches=48, **HEAVY, p2p=0.8, activation=0.9, static=22, budget=80, time_unit="ms"
)


def test_a_heavy_head_is_named() -> None:
    """Device 7 works 40 % more than the mean, which is most of the bubble of a zero-bubble schedule."""
    schedule = pipesched.run(REAL, "zb-h1").schedule
    assert schedule.bottleneck == 7
    assert (schedule.ideal, schedule.balanced) == (3504, 2496)
    assert schedule.imbalance == pytest.approx(8 * (3504 - 2496) / (8 * 3628.6))
    assert schedule.utilization == pytest.approx(2496 / 3628.6)
    assert schedule.memory == [29.2] * 8


@given(problems(SETTLED), st.randoms(use_true_random=False))
def test_parts_of_the_bubble(problem: Problem, random: Random) -> None:
    """With whole forwards and backwards the rest is 1 - largest work / makespan, and both parts are the bubble."""
    schedule = schedule_plan(problem, plan_of(problem, random_plan(problem, random)))
    whole = problem.devices * schedule.makespan_ticks
    if not whole:
        assert (schedule.imbalance, schedule.utilization) == (0, 0)
        return
    rest = 1 - schedule.ideal_ticks / schedule.makespan_ticks
    assert schedule.imbalance + rest == pytest.approx(schedule.bubble)
    assert schedule.utilization == pytest.approx(1 - schedule.bubble)
    assert schedule.useful_ticks[schedule.bottleneck] == schedule.ideal_ticks == max(schedule.useful_ticks)
    balanced = Fraction(sum(schedule.useful_ticks), problem.devices * problem.ticks.per_unit)
    assert schedule.balanced == float(balanced)


@given(problems(SETTLED, saving=True), st.randoms(use_true_random=False))
def test_recomputation_is_busy_and_not_useful(problem: Problem, random: Random) -> None:
    """Useful work is what F, B, I and W take, however much is recomputed beside it."""
    texts = random_saving_plan(problem, random, split=0.3, pair=0, recompute=0.5, offload=0, wait=0)
    schedule = schedule_plan(problem, saving_plan_of(problem, texts))
    index, durations = schedule.plan.index, schedule.graph.durations
    for device, order in enumerate(schedule.plan.orders):
        useful = sum(durations[number] for number in order if index.op(number).kind != "R")
        assert schedule.useful_ticks[device] == useful
    assert [held - peak for held, peak in zip(schedule.memory_grains, schedule.peak_grains, strict=True)] == [
        problem.static_grains(device) for device in range(problem.devices)
    ]


def test_what_moving_work_saves() -> None:
    """Worked out by hand: of several stages the smallest moves, of one any part, and no device falls below the mean."""
    two: dict[str, Any] = {"devices": 2, "microbatches": 2}
    several = pipesched.make_problem(**two, stages=4, placement="linear", forward=[3, 1, 1, 1], backward=[6, 2, 2, 2])
    assert saved_by_moving(pipesched.run(several, "list").schedule) == 24 - 18  # 24 and 12: all of stage 1 is too much
    small = pipesched.make_problem(**two, stages=4, placement="linear", forward=[9, 1, 1, 1], backward=[6, 2, 2, 2])
    assert saved_by_moving(pipesched.run(small, "list").schedule) == 2 * 3  # stage 1, twice 1 + 2
    one = pipesched.make_problem(**two, forward=[3, 1], backward=[6, 2])
    assert saved_by_moving(pipesched.run(one, "1f1b").schedule) == 18 - 12
    assert saved_by_moving(pipesched.run(pipesched.make_problem(**two), "1f1b").schedule) == 0


def test_uneven_microbatches() -> None:
    """Six microbatches with works of 1 to 6 are as much as 21: so much more does moving a stage or a layer save."""
    sizes = {"work": [1, 2, 3, 4, 5, 6]}
    common: dict[str, Any] = {
        "devices": 2, "stages": 4, "placement": "linear", "microbatches": 6, "forward": [1, 1, 2, 1],
    }  # fmt: skip
    alike, uneven = (pipesched.run(pipesched.make_problem(**common, sizes=one), "list") for one in (None, sizes))
    assert saved_by_moving(alike.schedule) == 6 * Fraction(3, 2)
    assert saved_by_moving(uneven.schedule) == 21 * Fraction(3, 2)
    layers: dict[str, Any] = {
        "devices": 4, "layers": 10, "layer": {"forward": 1, "backward": 2}, "last": {"forward": 2, "backward": 4},
    }  # fmt: skip
    by_layer = pipesched.run(pipesched.make_problem(**layers, layout=[2, 2, 2, 4], sizes=sizes), "1f1b").schedule
    assert saved_by_moving(by_layer) == 21 * 3


def test_uneven_slices_and_forwards_alone() -> None:
    """An overhead of each slice counts, and where forwards run alone nothing else does."""
    common: dict[str, Any] = {
        "devices": 2, "stages": 4, "placement": "linear", "microbatches": 2, "forward": [1, 1, 2, 1],
    }  # fmt: skip
    cut = pipesched.make_problem(**common, slices={"count": 2, "overhead": 1})
    forwards = pipesched.make_problem(**common, slices=2, mode="forward")
    # Device 1 works 2 x 9 and 2 x 2 x 2 overheads for each of its stages, or 2 x 3 forwards.
    for problem, works in ((cut, (2 * 6 + 16, 2 * 9 + 16)), (forwards, (4, 6))):
        schedule = pipesched.run(problem, "list").schedule
        assert tuple(schedule.useful) == works
        assert saved_by_moving(schedule) == schedule.problem.ticks.per_unit * Fraction(works[1] - works[0], 2)

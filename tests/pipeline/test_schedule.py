"""Schedules: times, metrics and memory, by hand and against the naive replay."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, Deadlock
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from tests.examples import examples
from tests.oracle.alike import Stuck, parts, replay
from tests.oracle.judge import require_replayed
from tests.strategies import SETTLED, plan_of, problems, random_plan, with_capacities


def scheduled(problem: Problem, texts: list[list[str]]) -> Schedule:
    """The schedule of a plan written as texts."""
    return schedule_plan(problem, plan_of(problem, texts))


def times(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Start and end of each operation, by its text."""
    index = schedule.plan.index
    numbers = [*chain(*schedule.plan.orders), *schedule.plan.pairs.values()]
    return {str(index.op(number)): (schedule.start_ticks[number], schedule.end_ticks[number]) for number in numbers}


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (b"x", "lengths: must be a list, not b'x'"),
        ([1], "lengths: needs a length for each of the 8 operations; this has 1"),
        ([1, 2.5] * 4, "lengths[1]: must be a whole number of ticks, not 2.5"),
        ([1, -1] * 4, "lengths[1]: must be at least 0, not -1"),
    ],
)
def test_lengths_that_are_none(lengths: Any, message: str) -> None:
    """What is no length of each operation is a ConfigError."""
    problem = make_problem(devices=2, microbatches=2)
    plan = plan_of(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    with pytest.raises(ConfigError) as caught:
        schedule_plan(problem, plan, lengths)
    assert str(caught.value) == message


def test_times_by_hand() -> None:
    """1F1B on two devices with p2p 1, worked out on paper."""
    problem = make_problem(devices=2, microbatches=2, forward=1, backward=2, p2p=1, placement="linear")
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert times(schedule) == {
        "0F0": (0, 1), "0F1": (1, 2), "0B0": (6, 8), "0B1": (9, 11), "1F0": (2, 3), "1B0": (3, 5), "1F1": (5, 6),
        "1B1": (6, 8),
    }  # fmt: skip
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.ideal_ticks) == (11, 11, 6)
    assert (schedule.busy_ticks, schedule.idle_ticks) == ([6, 6], [5, 5])
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (10 / 22, 5 / 6, 5 / 11)
    assert schedule.peak_grains == [2, 1]


@examples(200)
@given(
    problems(SETTLED, overlap=True, most_devices=5),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5, 1]),
)
def test_random_plans_replay(problem: Problem, random: Random, split: float, pair: float) -> None:
    """Any legal plan (split, full and mixed backwards, pairs, any placement) has the naive replay's times."""
    texts = random_plan(problem, random, split=split, pair=pair)
    require_replayed(scheduled(problem, texts))


@examples(200)
@given(
    problems(SETTLED, most_devices=3, most_microbatches=3, most_chunks=2, overlap=True),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5]),
    st.integers(1, 4),
)
def test_shuffled_plans_replay_or_deadlock(problem: Problem, random: Random, pair: float, swaps: int) -> None:
    """With slots swapped at random, a plan deadlocks exactly when the naive replay gets stuck."""
    texts = random_plan(problem, random, split=0.3, pair=pair)
    for _ in range(swaps):
        row = random.choice(texts)
        one, other = random.randrange(len(row)), random.randrange(len(row))
        row[one], row[other] = row[other], row[one]
    try:
        replay(problem, texts)
    except Stuck as stuck:
        with pytest.raises(Deadlock) as caught:
            scheduled(problem, texts)
        waiting = {f"{op.stage}{op.kind}{op.microbatch}" for slot in stuck.at for op in parts(slot)}
        named = {word for word in str(caught.value).split() if word in waiting}
        assert named, "the message names none of the operations that wait"
        assert len(caught.value.cycle) >= 1
    else:
        require_replayed(scheduled(problem, texts))


def test_deadlock_names_the_circle() -> None:
    """1F1 waits for 0F1, which stands behind 0B0, which waits for 1B0, which stands behind 1F1."""
    problem = make_problem(devices=2, microbatches=2, placement="linear")
    with pytest.raises(Deadlock) as caught:
        scheduled(problem, [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]])
    assert "0B0 on device 0" in str(caught.value)
    assert "1F1 on device 1" in str(caught.value)
    assert len(caught.value.cycle) == 2


@given(
    problems(SETTLED, overlap=True),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5]),
)
def test_memory_steps(problem: Problem, random: Random, split: float, pair: float) -> None:
    """Memory over time rises in time, ends empty, and its largest level is the peak."""
    schedule = scheduled(problem, random_plan(problem, random, split=split, pair=pair))
    for device in range(problem.devices):
        steps = list(schedule.memory_steps(device))
        assert [time for time, _ in steps] == sorted({time for time, _ in steps})
        assert steps[-1][1] == 0
        assert min(level for _, level in steps) >= 0
        assert max(level for _, level in steps) == schedule.peak_grains[device]


@given(problems(SETTLED), st.randoms(use_true_random=False), st.data())
def test_fits(problem: Problem, random: Random, data: st.DataObject) -> None:
    """A schedule fits when peak and static memory are within the budget of every device."""
    texts = random_plan(problem, random)
    peaks = [int(peak) for peak in replay(problem, texts).peak]
    capacities = [
        max(peak + data.draw(st.integers(-1, 1)), -problem.static_grains(device))  # a budget is no less than nothing
        for device, peak in enumerate(peaks)
    ]
    schedule = scheduled(with_capacities(problem, capacities), texts)
    assert schedule.over_budget == [device for device, peak in enumerate(peaks) if peak > capacities[device]]
    assert schedule.fits == all(peak <= capacity for peak, capacity in zip(peaks, capacities, strict=True))
    assert scheduled(problem, texts).fits


def test_no_time_at_all() -> None:
    """When nothing takes time, the ratios are 0 instead of a division by zero."""
    problem = make_problem(devices=2, microbatches=2, forward=0, backward=0, placement="linear")
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.ideal_ticks) == (0, 0, 0)
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (0, 0, 0)

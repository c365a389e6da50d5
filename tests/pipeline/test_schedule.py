"""Schedules: times, metrics and memory, by hand and against the naive replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, Deadlock
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.check import violations
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import Exact, to_fraction
from pipesched.pipeline.schedule import Schedule, schedule_plan
from tests.examples import examples
from tests.replay import Stuck, parts, replay
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


def changes(schedule: Schedule, device: int) -> list[tuple[int, int]]:
    """The memory of a device over time, only where the level changes."""
    steps = [(0, 0), *schedule.memory_steps(device)]
    return [step for before, step in pairwise(steps) if step[1] != before[1]]


def assert_replays(schedule: Schedule, texts: list[list[str]]) -> None:
    """The schedule and the naive replay agree on every time and every metric, and no rule is broken."""
    naive = replay(schedule.problem, texts)
    assert times(schedule) == {text: (start, naive.end[text]) for text, start in naive.start.items()}
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.busy_ticks) == (
        naive.makespan,
        naive.span,
        naive.busy,
    )
    assert schedule.peak_grains == naive.peak
    assert list(violations(schedule)) == []


def test_times_by_hand() -> None:
    """1F1B on two devices with p2p 1, worked out on paper."""
    problem = make_problem(devices=2, microbatches=2, forward=1, backward=2, p2p=1, placement="linear")
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert times(schedule) == {
        "0F0": (0, 1),
        "0F1": (1, 2),
        "0B0": (6, 8),
        "0B1": (9, 11),
        "1F0": (2, 3),
        "1B0": (3, 5),
        "1F1": (5, 6),
        "1B1": (6, 8),
    }
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.ideal_ticks) == (11, 11, 6)
    assert (schedule.busy_ticks, schedule.idle_ticks) == ([6, 6], [5, 5])
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (10 / 22, 5 / 6, 5 / 11)
    assert schedule.peak_grains == [2, 1]


def test_span_and_makespan_differ() -> None:
    """A device that starts late and ends last: its own time is the span, and the span may have no bubble."""
    problem = make_problem(devices=2, microbatches=1, backward_input=1, backward_weight=[1, 9], placement="linear")
    schedule = scheduled(problem, [["0F0", "0I0", "0W0"], ["1F0", "1I0", "1W0"]])
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.ideal_ticks) == (12, 11, 11)
    assert (schedule.busy_ticks, schedule.idle_ticks) == ([3, 11], [9, 1])
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (10 / 24, 1 / 11, 0)


def test_memory_of_a_split_backward_by_hand() -> None:
    """I frees 1 - retain, W the rest: of 4, a quarter is retained; F, I, F, W, I, W take one tick each."""
    problem = make_problem(
        devices=1, microbatches=2, backward_input=1, backward_weight=1, activation=4, retain=0.25, placement="linear"
    )
    schedule = scheduled(problem, [["0F0", "0I0", "0F1", "0W0", "0I1", "0W1"]])
    assert changes(schedule, 0) == [(0, 4), (2, 5), (4, 4), (5, 1), (6, 0)]
    assert schedule.peak_grains == [5]


def test_free_before_allocation() -> None:
    """A free at time t counts before an allocation at t: one microbatch at a time never holds two."""
    problem = make_problem(devices=1, microbatches=3, placement="linear")
    schedule = scheduled(problem, [["0F0", "0B0", "0F1", "0B1", "0F2", "0B2"]])
    assert schedule.peak_grains == [1]
    assert max(level for _, level in schedule.memory_steps(0)) == 1


def test_memory_between_operations_of_no_length() -> None:
    """A device whose F and B last no time still holds the activation from the one to the other."""
    problem = make_problem(devices=2, microbatches=1, forward=[0, 1], backward=[0, 2], placement="linear")
    schedule = scheduled(problem, [["0F0", "0B0"], ["1F0", "1B0"]])
    assert changes(schedule, 0) == [(0, 1), (3, 0)]
    assert schedule.peak_grains == [1, 1]


def test_no_p2p_inside_a_device() -> None:
    """In a V the middle stages share a device, so their boundary costs nothing; the others cost 10 each way."""
    problem = make_problem(devices=2, stages=4, microbatches=1, p2p=10, placement="v")
    schedule = scheduled(problem, [["0F0", "3F0", "3B0", "0B0"], ["1F0", "2F0", "2B0", "1B0"]])
    assert schedule.makespan_ticks == 4 * 1 + 4 * 2 + 4 * 10


def test_overlap_defaults_to_the_sum_of_its_parts() -> None:
    """A pair lasts F + B unless `overlap` says otherwise, and then the entry of its forward's stage."""
    given: dict[str, Any] = {"devices": 1, "stages": 2, "microbatches": 2, "placement": "linear"}
    texts = [["0F0", "1F0", "(0F1;1B0)OVERLAP_F_B", "0B0", "1F1", "1B1", "0B1"]]
    plain = make_problem(**given, forward=[2, 3], backward=[4, 8])
    listed = make_problem(**given, forward=[2, 3], backward=[4, 8], overlap=[8, 100])
    assert times(scheduled(plain, texts))["0F1"] == times(scheduled(plain, texts))["1B0"] == (5, 15)
    assert times(scheduled(listed, texts))["0F1"] == times(scheduled(listed, texts))["1B0"] == (5, 13)


def test_a_pair_waits_for_both_and_gives_both_back() -> None:
    """Both inputs of a pair must be there, both outputs come at its end; by hand on two devices."""
    problem = make_problem(
        devices=2, microbatches=2, forward=1, backward=2, overlap=2.5, placement="bidirectional", activation=[1, 4]
    )
    # microbatch 0 enters at device 0, microbatch 1 at device 1
    texts = [["0F0", "(1F1;0B0)OVERLAP_F_B", "1B1"], ["0F1", "1F0", "1B0", "0B1"]]
    schedule = scheduled(problem, texts)
    ticks = {text: (start / 10, end / 10) for text, (start, end) in times(schedule).items()}
    assert ticks["1B0"] == (2, 4)
    assert ticks["1F1"] == ticks["0B0"] == (4, 6.5)
    assert ticks["1B1"] == (6.5, 8.5)
    assert ticks["0B1"] == (8.5, 10.5)
    assert schedule.peak_grains == [5, 5]
    assert_replays(schedule, texts)


def test_mixed_backwards_by_hand() -> None:
    """B on one stage and I, W on the other: the gradient of a full B is there when all of it is done."""
    problem = make_problem(
        devices=2, microbatches=1, forward=1, backward_input=2, backward_weight=3, placement="linear"
    )
    late = scheduled(problem, [["0F0", "0I0", "0W0"], ["1F0", "1B0"]])
    early = scheduled(problem, [["0F0", "0B0"], ["1F0", "1I0", "1W0"]])
    assert times(late)["0I0"] == (7, 9)
    assert times(early)["0B0"] == (4, 9)


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
    assert_replays(scheduled(problem, texts), texts)


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
        assert_replays(scheduled(problem, texts), texts)


def test_deadlock_names_the_circle() -> None:
    """1F1 waits for 0F1, which stands behind 0B0, which waits for 1B0, which stands behind 1F1."""
    problem = make_problem(devices=2, microbatches=2, placement="linear")
    with pytest.raises(Deadlock) as caught:
        scheduled(problem, [["0F0", "0B0", "0F1", "0B1"], ["1F0", "1F1", "1B0", "1B1"]])
    assert "0B0 on device 0" in str(caught.value)
    assert "1F1 on device 1" in str(caught.value)
    assert len(caught.value.cycle) == 2


def test_deadlock_on_one_device() -> None:
    """An operation that stands before its own input waits for itself."""
    with pytest.raises(Deadlock, match="0B0 on device 0"):
        scheduled(make_problem(devices=1, microbatches=1, placement="linear"), [["0B0", "0F0"]])


def test_deadlock_through_a_pair() -> None:
    """A pair that needs what stands behind it deadlocks, and its message names an operation of the pair."""
    problem = make_problem(devices=1, microbatches=2, placement="linear")
    with pytest.raises(Deadlock, match=r"0F1|0B0"):
        scheduled(problem, [["(0F1;0B0)OVERLAP_F_B", "0F0", "0B1"]])


@given(
    problems(SETTLED, overlap=True),
    st.randoms(use_true_random=False),
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5]),
)
def test_metric_formulas(problem: Problem, random: Random, split: float, pair: float) -> None:
    """idle, ideal and the three bubbles follow their definitions from the naive replay's numbers."""
    texts = random_plan(problem, random, split=split, pair=pair)
    schedule, naive = scheduled(problem, texts), replay(problem, texts)
    ideal, makespan, span = max(naive.busy), naive.makespan, naive.span
    idle = sum(makespan - busy for busy in naive.busy)
    assert (sum(schedule.idle_ticks), schedule.ideal_ticks) == (idle, ideal)
    assert schedule.bubble == (idle / (problem.devices * makespan) if makespan else 0)
    assert schedule.bubble_over_ideal == ((makespan - ideal) / ideal if ideal else 0)
    assert schedule.bubble_span == pytest.approx(1 - ideal / span if span else 0)


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


@given(problems(SETTLED, overlap=True, least=1), st.randoms(use_true_random=False), st.integers(2, 9))
def test_time_scales(problem: Problem, random: Random, factor: int) -> None:
    """A longer tick changes no order of events: all costs times k take k times as long."""
    costs = problem.costs

    def longer(values: Sequence[Any] | None) -> tuple[Exact, ...]:
        return tuple(to_fraction(value) * factor for value in values or ())

    slow = replace(
        problem,
        costs=replace(
            costs,
            forward=longer(costs.forward),
            backward_input=longer(costs.backward_input),
            backward_weight=longer(costs.backward_weight),
            overlap=longer(costs.overlap) or None,
            p2p=longer(costs.p2p),
            resolution=problem.ticks.per_unit,
        ),
    )
    texts = random_plan(problem, random, split=0.5, pair=0.5)
    one, other = scheduled(problem, texts), scheduled(slow, texts)
    assert {op: (start * factor, end * factor) for op, (start, end) in times(one).items()} == times(other)
    assert (one.makespan_ticks * factor, one.span_ticks * factor) == (other.makespan_ticks, other.span_ticks)
    assert one.bubble == pytest.approx(other.bubble)
    assert one.peak_grains == other.peak_grains


def test_no_time_at_all() -> None:
    """When nothing takes time, the ratios are 0 instead of a division by zero."""
    problem = make_problem(devices=2, microbatches=2, forward=0, backward=0, placement="linear")
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
    assert (schedule.makespan_ticks, schedule.span_ticks, schedule.ideal_ticks) == (0, 0, 0)
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (0, 0, 0)

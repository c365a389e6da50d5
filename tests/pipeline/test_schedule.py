"""Schedules: times, metrics and memory, by hand and against the second replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Deadlock, Problem, Schedule, make_problem, schedule_plan
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.layers.recut import saved_by_moving
from pipesched.pipeline.plan.plan import LanePair
from pipesched.pipeline.plan.schedule import timed_schedule
from tests.examples import examples
from tests.oracle.alike import Stuck, parts, replay, require_replayed
from tests.strategies import (
    SETTLED,
    Texts,
    plan_of,
    problems,
    random_plan,
    random_saving_plan,
    saving_plan_of,
    with_capacities,
)


def scheduled(problem: Problem, texts: list[list[str]]) -> Schedule:
    """The schedule of a plan written as texts."""
    return schedule_plan(problem, plan_of(problem, texts))


def times(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Start and end of each operation, by its text."""
    index = schedule.plan.index
    numbers = [*chain(*schedule.plan.orders), *schedule.plan.pairs.values()]
    return {str(index.op(number)): (schedule.start_ticks[number], schedule.end_ticks[number]) for number in numbers}


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
        max(peak + data.draw(st.integers(-1, 1)), -problem.static_grains[device])  # a budget is no less than nothing
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


# Recompute and offload: semantics by hand and against the naive replay, and every rule broken on purpose.

randoms = st.randoms(use_true_random=False)
chances = st.sampled_from([0, 0.3, 1])


def scheduled_saving(
    problem: Problem, devices: list[list[str]], lanes: Sequence[list[str]] = (), waits: Sequence[tuple[str, str]] = ()
) -> Schedule:
    """The schedule of a plan written as texts."""
    return schedule_plan(problem, saving_plan_of(problem, Texts(devices, list(lanes), list(waits))))


def one_device(**values: Any) -> Problem:
    """Two microbatches on one device; forward 2, backward 4, activation 10."""
    given = {"devices": 1, "microbatches": 2, "forward": 2, "backward": 4, "activation": 10, "placement": "linear"}
    return make_problem(**{**given, **values})


def legal(text: str = "") -> Schedule:
    """A legal schedule with one recomputed and one offloaded microbatch; `text` is taken out of it."""
    devices, lanes = [["0F0", "0F1", "0R1", "0B1", "0B0"]], [["0O0"], ["0L0"]]
    texts = [[op for op in row if op != text] for row in (*devices, *lanes)]
    return scheduled_saving(one_device(recompute=1, offload=1), texts[:1], texts[1:])


@pytest.mark.parametrize(("text", "missing"), [("0O0", "0O0"), ("0L0", "0L0"), ("0F1", "0F1"), ("0B0", "0B0")])
def test_missing(text: str, missing: str) -> None:
    """An offload without a load, and the reverse, and what is recomputed or offloaded without its F or B."""
    assert f"{missing} is missing" in list(violations(legal(text)))


def test_recomputed_and_offloaded() -> None:
    """An activation is kept, recomputed or offloaded: not two of them."""
    schedule = scheduled_saving(one_device(offload=1), [["0F0", "0F1", "0B1", "0R0", "0B0"]], [["0O0"], ["0L0"]])
    assert list(violations(schedule)) == ["stage 0, microbatch 0 is both recomputed and offloaded"]


def test_offload_without_a_cost() -> None:
    """A problem that does not say what a transfer costs has none."""
    schedule = scheduled_saving(one_device(), [["0F0", "0F1", "0B1", "0B0"]], [["0O0"], ["0L0"]])
    assert list(violations(schedule)) == ["0O0 has no length: the problem has no costs.offload"]


@pytest.mark.parametrize(
    ("lanes", "sentence"),
    [
        ([LanePair((), ()), LanePair((4,), (6,))], "0O0 runs on lane 1, which is not that of device 0"),
        ([LanePair((4,), ()), LanePair((), (6,))], "0L0 runs on lane 1, which is not that of device 0"),
        ([LanePair((6,), (4,)), LanePair()], "0L0 runs on a lane for O"),
    ],
)
def test_wrong_lane(lanes: list[LanePair], sentence: str) -> None:
    """A transfer runs on the lane of its device, out or back."""
    problem = make_problem(devices=2, microbatches=1, offload=1, placement="linear")
    good = scheduled_saving(problem, [["0F0", "0B0"], ["1F0", "1B0"]], [["0O0"], ["0L0"], [], []])
    assert good.plan.lanes[0] == ([4], [6])
    schedule = Schedule(problem, replace(good.plan, lanes=lanes), good.start_ticks, good.end_ticks)
    assert sentence in list(violations(schedule))


def test_a_transfer_in_a_slot() -> None:
    """An offload does not run on the device itself."""
    schedule = legal()
    plan = schedule.plan
    [order], [lane] = plan.orders, plan.lanes
    wrong = replace(plan, orders=[[*order, *lane.offloads]], lanes=[LanePair((), lane.reloads)])
    assert "0O0 is a transfer, but runs in a slot of a device" in list(
        violations(Schedule(schedule.problem, wrong, schedule.start_ticks, schedule.end_ticks))
    )


def test_wrong_number_of_lanes() -> None:
    """A plan has lanes of every device, or none."""
    problem = make_problem(devices=2, microbatches=1, offload=1, placement="linear")
    plan = scheduled_saving(problem, [["0F0", "0B0"], ["1F0", "1B0"]], [["0O0"], ["0L0"], [], []]).plan
    with pytest.raises(ConfigError, match="1 pairs of transfer lanes; the problem has 2"):
        schedule_plan(problem, replace(plan, lanes=plan.lanes[:1]))


def test_deadlock_on_a_lane() -> None:
    """Loads in an order that the backwards cannot wait for: the circle names the lane."""
    devices = [["0F0", "0F1", "0B0", "0B1"]]
    with pytest.raises(Deadlock, match="0L1 on lane 0 waits for 0B0"):
        scheduled_saving(one_device(offload=1), devices, [["0O0", "0O1"], ["0L1", "0L0"]], [("0B0", "0L1")])


def test_a_false_peak_is_caught() -> None:
    """The memory that a schedule claims is compared with its own replay."""
    schedule = legal()
    graph = schedule.graph.changed(gives=[0] * len(schedule.graph))
    false = timed_schedule(schedule.problem, schedule.plan, schedule.times, graph)
    assert list(violations(false)) == [
        f"device 0 reaches {schedule.peak_grains[0]} microbatch, not {false.peak_grains[0]} as the schedule claims"
    ]


def saving_schedule(problem: Problem, random: Random, **shares: float) -> tuple[Schedule, Texts]:
    """A random plan with all there is, scheduled."""
    texts = random_saving_plan(problem, random, **shares)
    return schedule_plan(problem, saving_plan_of(problem, texts)), texts


@given(problems(SETTLED, overlap=True, saving=True), randoms, chances, chances, chances)
def test_any_plan_replays(problem: Problem, random: Random, split: float, recompute: float, offload: float) -> None:
    """The schedule and the naive replay agree on every time, on work and on memory, and no rule is broken."""
    schedule, texts = saving_schedule(
        problem, random, split=split, pair=0.2, recompute=recompute, offload=offload, wait=0.3
    )
    require_replayed(schedule)
    ops = [op for row in texts.devices for slot in row for op in parts(slot)]
    assert schedule.recomputed == sum(op.kind == "R" for op in ops)
    assert schedule.offloaded == sum(map(len, texts.lanes)) // 2


# What a device holds and how useful its time is: totals, imbalance, utilization, bottleneck.


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
        problem.static_grains[device] for device in range(problem.devices)
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

"""Recompute and offload: semantics by hand and against the naive replay, and every rule broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched.errors import ConfigError, Deadlock
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.plan import LanePair
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import parse_op
from pipesched.pipeline.problem.problem import Problem
from tests.oracle.alike import parts
from tests.oracle.judge import require_replayed
from tests.strategies import SETTLED, Texts, plan_of, problems, random_saving_plan, saving_plan_of

randoms = st.randoms(use_true_random=False)
chances = st.sampled_from([0, 0.3, 1])


def scheduled(
    problem: Problem, devices: list[list[str]], lanes: Sequence[list[str]] = (), waits: Sequence[tuple[str, str]] = ()
) -> Schedule:
    """The schedule of a plan written as texts."""
    return schedule_plan(problem, saving_plan_of(problem, Texts(devices, list(lanes), list(waits))))


def times(schedule: Schedule, text: str) -> tuple[int, int]:
    """Start and end of an operation."""
    number = schedule.plan.index.number(parse_op(text))
    return schedule.start_ticks[number], schedule.end_ticks[number]


def steps(schedule: Schedule, device: int) -> list[tuple[int, int]]:
    """The memory of a device over time, where it changes."""
    levels = [(0, 0), *schedule.memory_steps(device)]
    return [step for before, step in pairwise(levels) if step[1] != before[1]]


def one_device(**values: Any) -> Problem:
    """Two microbatches on one device; forward 2, backward 4, activation 10."""
    given = {"devices": 1, "microbatches": 2, "forward": 2, "backward": 4, "activation": 10, "placement": "linear"}
    return make_problem(**{**given, **values})


def test_recompute_by_hand() -> None:
    """From the end of F to the start of R only the checkpoint stays; R is busy time, but no part of ideal."""
    problem = one_device(recompute=3, checkpoint=0.1)
    schedule = scheduled(problem, [["0F0", "0F1", "0B1", "0R0", "0B0"]])
    assert [times(schedule, text) for text in ("0F1", "0B1", "0R0", "0B0")] == [(2, 4), (4, 8), (8, 11), (11, 15)]
    assert steps(schedule, 0) == [(0, 10), (2, 11), (8, 10), (15, 0)]
    assert (schedule.makespan_ticks, schedule.busy_ticks, schedule.ideal_ticks) == (15, [15], 12)
    assert (schedule.bubble, schedule.bubble_over_ideal, schedule.bubble_span) == (0, 0.25, 0.2)
    assert (schedule.peak_grains, schedule.recomputed, schedule.offloaded) == ([11], 1, 0)


def test_offload_by_hand() -> None:
    """The activation leaves at the end of O and is back from the start of L; the device goes on meanwhile."""
    problem = one_device(offload=1, reload=3)
    schedule = scheduled(problem, [["0F0", "0F1", "0B1", "0B0"]], [["0O0"], ["0L0"]])
    assert [times(schedule, text) for text in ("0O0", "0L0", "0B0")] == [(2, 3), (3, 6), (8, 12)]
    assert steps(schedule, 0) == [(0, 10), (2, 20), (8, 10), (12, 0)]  # out and at once back
    late = scheduled(problem, [["0F0", "0F1", "0B1", "0B0"]], [["0O0"], ["0L0"]], [("0B1", "0L0"), ("0O0", "0F1")])
    assert [times(late, text) for text in ("0F1", "0L0", "0B0")] == [(3, 5), (9, 12), (12, 16)]
    assert steps(late, 0) == [(0, 10), (16, 0)]
    assert (late.peak_grains, late.recomputed, late.offloaded) == ([10], 0, 1)
    assert (late.makespan_ticks, late.busy_ticks, late.ideal_ticks) == (16, [12], 12)


@pytest.mark.parametrize(("lanes", "second"), [("device", (3, 8)), ("pair", (7, 12))])
def test_lanes_of_a_pair(lanes: str, second: tuple[int, int]) -> None:
    """Devices 0 and 1 share both lanes, or each has its own."""
    problem = make_problem(
        devices=2, microbatches=1, forward=[2, 1], offload=5, lanes=lanes, placement="linear", activation=1
    )
    rows = [["0O0", "1O0"], ["1L0", "0L0"]] if lanes == "pair" else [["0O0"], ["0L0"], ["1O0"], ["1L0"]]
    schedule = scheduled(problem, [["0F0", "0B0"], ["1F0", "1B0"]], rows)
    assert times(schedule, "0O0") == (2, 7)
    assert times(schedule, "1O0") == second


def legal(text: str = "") -> Schedule:
    """A legal schedule with one recomputed and one offloaded microbatch; `text` is taken out of it."""
    devices, lanes = [["0F0", "0F1", "0R1", "0B1", "0B0"]], [["0O0"], ["0L0"]]
    texts = [[op for op in row if op != text] for row in (*devices, *lanes)]
    return scheduled(one_device(recompute=1, offload=1), texts[:1], texts[1:])


def moved(schedule: Schedule, text: str, start: int = 0, end: int = 0) -> Schedule:
    """The schedule with an operation starting and ending that many ticks later."""
    starts, ends = list(schedule.start_ticks), list(schedule.end_ticks)
    number = schedule.plan.index.number(parse_op(text))
    starts[number] += start
    ends[number] += end
    return Schedule(schedule.problem, schedule.plan, starts, ends)


@pytest.mark.parametrize(("text", "missing"), [("0O0", "0O0"), ("0L0", "0L0"), ("0F1", "0F1"), ("0B0", "0B0")])
def test_missing(text: str, missing: str) -> None:
    """An offload without a load, and the reverse, and what is recomputed or offloaded without its F or B."""
    assert f"{missing} is missing" in list(violations(legal(text)))


def test_collision_on_a_lane() -> None:
    """Two offloads at once on one lane."""
    problem = one_device(offload=4)
    schedule = scheduled(problem, [["0F0", "0F1", "0B0", "0B1"]], [["0O0", "0O1"], ["0L0", "0L1"]])
    assert "0O1 starts before 0O0 has ended on the same lane" in list(violations(moved(schedule, "0O1", -1, -1)))


def test_recomputed_and_offloaded() -> None:
    """An activation is kept, recomputed or offloaded: not two of them."""
    schedule = scheduled(one_device(offload=1), [["0F0", "0F1", "0B1", "0R0", "0B0"]], [["0O0"], ["0L0"]])
    assert list(violations(schedule)) == ["stage 0, microbatch 0 is both recomputed and offloaded"]


def test_offload_without_a_cost() -> None:
    """A problem that does not say what a transfer costs has none."""
    schedule = scheduled(one_device(), [["0F0", "0F1", "0B1", "0B0"]], [["0O0"], ["0L0"]])
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
    good = scheduled(problem, [["0F0", "0B0"], ["1F0", "1B0"]], [["0O0"], ["0L0"], [], []])
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
    """A plan for devices with their own lanes is not one for pairs of devices."""
    problem = make_problem(devices=2, microbatches=1, offload=1, placement="linear")
    plan = scheduled(problem, [["0F0", "0B0"], ["1F0", "1B0"]], [["0O0"], ["0L0"], [], []]).plan
    with pytest.raises(ConfigError, match="2 pairs of transfer lanes; the problem has 1"):
        schedule_plan(replace(problem, lanes="pair"), plan)


def test_wait_edges_are_kept() -> None:
    """Times that ignore a wait edge break the plan."""
    problem = one_device(offload=1)
    plan = scheduled(problem, [["0F0", "0F1", "0B1", "0B0"]], [["0O0"], ["0L0"]], [("0B1", "0L0")]).plan
    free = schedule_plan(problem, replace(plan, waits=()))
    [sentence] = violations(Schedule(problem, plan, free.start_ticks, free.end_ticks))
    assert sentence == "0L0 starts before the end of 0B1, for which the plan makes it wait"


def test_deadlock_on_a_lane() -> None:
    """Loads in an order that the backwards cannot wait for: the circle names the lane."""
    devices = [["0F0", "0F1", "0B0", "0B1"]]
    with pytest.raises(Deadlock, match="0L1 on lane 0 waits for 0B0"):
        scheduled(one_device(offload=1), devices, [["0O0", "0O1"], ["0L1", "0L0"]], [("0B0", "0L1")])


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


@given(problems(SETTLED, saving=True), randoms, chances)
def test_ideal_is_the_work_without_recompute(problem: Problem, random: Random, split: float) -> None:
    """Taking every R out of a plan leaves the busy time that ideal counts."""
    schedule, texts = saving_schedule(problem, random, split=split, pair=0, recompute=0.5, offload=0)
    without = [[slot for slot in row if "R" not in slot] for row in texts.devices]
    assert schedule.ideal_ticks == schedule_plan(problem, plan_of(problem, without)).ideal_ticks


@given(problems(SETTLED, overlap=True, saving=True), randoms, chances, st.sampled_from([-1, 1]))
def test_any_wrong_length(problem: Problem, random: Random, split: float, by: int) -> None:
    """A transfer or recompute that lasts a tick more or less than it costs is named."""
    schedule, texts = saving_schedule(problem, random, split=split, pair=0.5, recompute=0.4, offload=0.7)
    saving = [slot for row in (*texts.devices, *texts.lanes) for slot in row if slot.strip("0123456789") in "ROL"]
    assume(saving)
    text = random.choice(saving)
    assert any(text in sentence for sentence in violations(moved(schedule, text, end=by)))

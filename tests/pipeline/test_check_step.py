"""The check of whole steps: every rule of gathers, reductions, optimizers and side work, broken on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipesched import Deadlock, InvalidSchedule, Plan, Problem, Schedule, make_problem, plan, run, schedule_plan
from pipesched.pipeline.check.check import checked, excesses, violations
from pipesched.pipeline.plan.plan import NetworkEntry, with_scoped
from pipesched.pipeline.plan.step import Shard, SideItem
from pipesched.pipeline.problem.ops import OpIndex, parse_op

Program = list[tuple[str, str | None]]
ITEM = SideItem(forward=(2,), backward=(4,), devices=(0, 1), p2p=1, activation="0.5", output="0.1")  # type: ignore[arg-type]


def sharded(**given: Any) -> Problem:
    """Two devices with a stage and a microbatch each, weights sharded, all costs of a step."""
    costs = {"gather": 4, "reduce": 3, "optimizer": 2, "tied": 1}
    shape = {"devices": 2, "microbatches": 1, "forward": 5, "backward": 10, "placement": "linear"}
    return make_problem(shard=Shard("weights"), **{**shape, **costs, **given})


ORDERS = ["0F0 0B0 0OPTIMIZER", "1F0 1B0 1OPTIMIZER"]


def program(stage: int) -> Program:
    """The program of a stage's device by the rule."""
    ops = [("UNSHARD0", None), ("REDUCE_GRAD", "B0"), ("RESHARD0", "B0"), ("REDUCE_TIED", None)]
    return [(f"{stage}{op}", None if after is None else f"{stage}{after}") for op, after in ops]


def whole(**given: Any) -> Schedule:
    """A legal schedule with every kind of operation: two stages a device, side work, and the rule's programs."""
    costs = {"gather": 4, "reduce": 3, "optimizer": 2, "tied": 1, "side": (ITEM,)}
    kept = {"weights": 2, "gradients": 4, "states": 12, "shard": Shard("weights", ahead=1)}
    shape = {"devices": 2, "stages": 4, "microbatches": 2, "forward": 5, "backward": 10, "p2p": 1}
    problem = make_problem(**{**shape, **costs, **kept, **given})
    return run(problem, "interleaved", side_rule="first").schedule


def shifted(schedule: Schedule, number: int, start: int, end: int) -> Schedule:
    """The schedule with one operation starting and ending that many ticks later."""
    starts, ends = [*schedule.start_ticks], [*schedule.end_ticks]
    starts[number], ends[number] = starts[number] + start, ends[number] + end
    return Schedule(schedule.problem, schedule.plan, starts, ends)


def naming(schedule: Schedule, op: str) -> list[str]:
    """The sentences of the check that name an operation."""
    return [sentence for sentence in violations(schedule) if op in sentence.replace("(", " ").split()]


@pytest.mark.parametrize("op", ["0UNSHARD0", "0RESHARD0", "0REDUCE_GRAD", "0REDUCE_TIED", "0OPTIMIZER", "0E0", "0G0"])
def test_missing_and_twice(op: str) -> None:
    """A plan that lacks an operation of the step, or has one twice, is told which."""
    schedule = whole()
    plan_ = schedule.plan
    number = plan_.index.number(parse_op(op))
    orders = [[one for one in order if one != number] for order in plan_.orders]
    network = [[entry for entry in one if entry.number != number] for one in plan_.network]
    lacking = replace(schedule, plan=replace(plan_, orders=orders, network=network))
    assert any(op in sentence or "stage 0 is sharded" in sentence for sentence in violations(lacking))
    with pytest.raises(InvalidSchedule):
        checked(lacking)
    orders = [[*order, *(one for one in order if one == number)] for order in plan_.orders]
    network = [[*one, *(entry for entry in one if entry.number == number)] for one in plan_.network]
    assert naming(replace(schedule, plan=replace(plan_, orders=orders, network=network)), op)


@pytest.mark.parametrize("op", ["0UNSHARD0", "0REDUCE_GRAD", "0REDUCE_TIED"])
def test_foreign_lane(op: str) -> None:
    """An operation on the lane of another device is named, with both devices."""
    schedule = whole()
    plan_ = schedule.plan
    number = plan_.index.number(parse_op(op))
    network: list[list[Any]] = [[tuple(one) for one in row if one.number != number] for row in plan_.network]
    network[1].append(NetworkEntry(number))
    found = naming(replace(schedule, plan=replace(plan_, network=network)), op)
    assert f"{op} is on the network lane of device 1, not on that of device 0" in found


@pytest.mark.parametrize(("op", "home"), [("0OPTIMIZER", "a device runs it"), ("0F0", "a device runs it")])
def test_slots_on_lanes(op: str, home: str) -> None:
    """What a device runs has no place on a lane, and so the other way round."""
    schedule = whole()
    plan_ = schedule.plan
    number, gather = (plan_.index.number(parse_op(text)) for text in (op, "0UNSHARD0"))
    network = [[*plan_.network[0], NetworkEntry(number)], *plan_.network[1:]]
    found = [*violations(replace(schedule, plan=replace(plan_, network=network)))]
    assert f"{op} has no place on the network lane of device 0: {home}" in found
    orders = [[*plan_.orders[0], gather], *plan_.orders[1:]]
    found = [*violations(replace(schedule, plan=replace(plan_, orders=orders)))]
    assert "0UNSHARD0 has no place on device 0: a network lane moves it" in found


def test_slots_of_other_devices() -> None:
    """An optimizer runs on the device of its stage, side work on one of its devices, and both its parts on one."""
    schedule = whole(side=(replace(ITEM, devices=(0,)),))
    plan_ = schedule.plan
    optimizer, forward = (plan_.index.number(parse_op(text)) for text in ("0OPTIMIZER", "0E0"))
    orders = [
        [number for number in plan_.orders[0] if number not in (optimizer, forward)],
        [forward, *plan_.orders[1], optimizer],
    ]
    found = {*violations(replace(schedule, plan=replace(plan_, orders=orders)))}
    assert {
        "0E0 runs on device 1, not on device 0",
        "0G0 runs on device 0, but its forward on device 1",
        "0OPTIMIZER runs on device 1, not on device 0",
    } <= found


def test_both_ends_of_tied_gradients() -> None:
    """Both ends of REDUCE_TIED start and end together."""
    schedule = whole()
    late = shifted(schedule, schedule.plan.index.number(parse_op("3REDUCE_TIED")), 1, 1)
    (sentence,) = naming(late, "0REDUCE_TIED")[:1]
    assert sentence == (
        "0REDUCE_TIED on the network lane of device 0 and 3REDUCE_TIED on the network lane of device 1 are one,"
        " but do not start and end together"
    )


LANE = "on the network lane of device 0"
WRONG: list[tuple[Program, str]] = [
    (program(0)[1:], "0F0 runs on device 0 while stage 0 is sharded"),
    ([*program(0), ("0UNSHARD1", "0B0")], f"0RESHARD1 is missing {LANE}"),
    ([*program(0), ("0UNSHARD1", None)], f"0UNSHARD1 {LANE} stands before all slots, and goes back behind 0RESHARD0"),
    ([*program(0)[:1], ("0RESHARD0", "0F0"), program(0)[1]], "0REDUCE_TIED is missing"),
    ([*program(0)[:1], ("0RESHARD0", "0F0"), program(0)[1], program(0)[3]],
     "0B0 runs on device 0 while stage 0 is sharded"),
    ([("0UNSHARD0", None), ("0UNSHARD1", None), *program(0)[1:]], f"0UNSHARD1 {LANE} gathers stage 0, which is whole"),
    ([("0UNSHARD1", None), *program(0)[1:]], f"0UNSHARD1 {LANE} is no turn of stage 0: it has 1, numbered from 0"),
    ([("0UNSHARD1", None), ("0RESHARD1", None), *program(0)], f"0UNSHARD1 {LANE} is turn 1 of stage 0, not 0"),
    ([*program(0), ("0RESHARD1", "0B0")], f"0RESHARD1 {LANE} frees stage 0, which no UNSHARD"),
    ([program(0)[0], ("0REDUCE_GRAD", "0F0"), *program(0)[2:]], f"0REDUCE_GRAD {LANE} stands before 0B0, which it"),
    ([*program(0)[:3], ("0REDUCE_TIED", "0B0")], f"0REDUCE_TIED {LANE} stands after 0B0, but it is issued behind no"),
    ([*program(0), program(0)[0]], "0UNSHARD0 stands twice on the network lane of device 0"),
    ([("0UNSHARD0", "1F0"), *program(0)[1:]], f"0UNSHARD0 {LANE} stands after 1F0, which is no slot of device 0"),
    ([("0UNSHARD0", "0F0"), *program(0)[1:]], "0F0 runs on device 0 while stage 0 is sharded"),
    ([], f"0REDUCE_GRAD is missing {LANE}"),
    ([*program(0), ("1UNSHARD1", "0B0")], f"1UNSHARD1 {LANE}, not on that of device 1"),
]  # fmt: skip


@pytest.mark.parametrize(("network", "sentence"), WRONG)
def test_wrong_programs(network: Program, sentence: str) -> None:
    """A program that breaks a rule is refused with the operation and the device."""
    with pytest.raises(InvalidSchedule) as caught:
        schedule_plan(sharded(), plan(sharded(), ORDERS, network=[network, program(1)]))
    said = "; ".join(caught.value.violations)
    assert sentence.removeprefix("1UNSHARD1 ") in said
    assert "device 0" in said


def test_gathers_before_their_stage() -> None:
    """Below level weights a stage is gathered before its first forward, wherever its program issues that."""
    problem = make_problem(devices=1, stages=2, microbatches=1, forward=5, backward=10, gather=4)
    orders = ["0F0 1F0 1B0 0B0"]
    programs: list[Program] = [[("0UNSHARD0", None), ("1UNSHARD0", after)] for after in ("0F0", "1F0")]
    assert schedule_plan(problem, plan(problem, orders, network=[programs[0]])).makespan == 4 + 5 + 4 + 5 + 20
    with pytest.raises(InvalidSchedule, match="1F0 runs on device 0 before 1UNSHARD0 is issued there"):
        schedule_plan(problem, plan(problem, orders, network=[programs[1]]))


def test_wrong_slots() -> None:
    """Optimizers and side work that a problem lacks or misses are named, and those too early are a deadlock."""
    problem = sharded(side=(replace(ITEM, devices=(0,)),))

    def refusal(*orders: str) -> str:
        with pytest.raises(InvalidSchedule) as caught:
            schedule_plan(problem, plan(problem, orders))
        return "; ".join(caught.value.violations)

    last = "1F0 1B0 1OPTIMIZER"
    assert refusal("0E0 0F0 0B0 0G0", last) == "0OPTIMIZER is missing on device 0"
    assert refusal("0E0 0F0 0B0 0OPTIMIZER", last) == "0G0 is missing: it runs on device 0"
    assert "0G0 runs on device 1, not on device 0" in refusal("0E0 0F0 0B0 0OPTIMIZER", f"{last} 0G0")
    early = refusal("0E0 0OPTIMIZER 0F0 0B0 0G0", last)
    assert early == "deadlock: 0OPTIMIZER on device 0 waits for 0B0, which comes after 0OPTIMIZER on device 0"


@pytest.mark.parametrize(
    ("step", "network", "sentence"),
    [
        ({}, None, "0OPTIMIZER on device 0 is none of the problem"),
        ({"optimizer": 1}, [[("0UNSHARD0", None)]], "0UNSHARD0 on the network lane of device 0 is"),
    ],
)
def test_no_step(step: dict[str, Any], network: Any, sentence: str) -> None:
    """A problem without a step, or without a part of it, has none of these operations."""
    problem = make_problem(devices=1, microbatches=1, **step)
    with pytest.raises(InvalidSchedule, match=sentence):
        schedule_plan(problem, plan(problem, ["0F0 0B0 0OPTIMIZER"], network=network))
    index = with_scoped(OpIndex("FB", 1, 1), [parse_op(sentence.split(maxsplit=1)[0])], 0)
    with pytest.raises(InvalidSchedule, match=r"on no device is none|is missing"):  # numbered, and planned nowhere
        schedule_plan(problem, Plan(index, [[0, 1]]))


def test_what_takes_no_time_waits_for_nothing_else() -> None:
    """An optimizer waits for another (which ends at 40, 2 after its tied gradients); a RESHARD cannot."""
    late, free = (
        plan(sharded(), ORDERS, network=[program(0), program(1)], waits=[(later, "1OPTIMIZER")])
        for later in ("0OPTIMIZER", "0RESHARD0")
    )
    assert schedule_plan(sharded(), late).start_ticks[late.index.number(parse_op("0OPTIMIZER"))] == 40
    with pytest.raises(InvalidSchedule, match=r"0RESHARD0 .* cannot wait for 1OPTIMIZER: it takes no time"):
        schedule_plan(sharded(), free)


def test_lanes_that_wait_in_a_circle() -> None:
    """A gather that waits for what its own device runs first is a deadlock that names lane and device."""
    given_plan = plan(sharded(), ORDERS, network=[program(0), program(1)], waits=[("0UNSHARD0", "1B0")])
    with pytest.raises(Deadlock, match="0UNSHARD0 on the network lane of device 0 waits for 1B0"):
        schedule_plan(sharded(), given_plan)


def test_false_peaks() -> None:
    """A peak that the schedule does not reach is told, whatever makes it: weights, gradients, side work."""
    schedule = whole()
    false = replace(schedule)
    vars(false)["peak_grains"] = [one + 1 for one in schedule.peak_grains]
    assert [*violations(schedule)] == []
    assert [sentence.split(" reaches")[0] for sentence in violations(false)] == ["device 0", "device 1"]


@pytest.mark.parametrize("level", ["optimizer", "gradients", "weights"])
def test_budgets_count_what_stays(level: str) -> None:
    """A budget a little below what devices hold, of side work too, is exceeded by that little, computed anew."""
    schedule = whole(shard=Shard(level), side=(replace(ITEM, static=5),))
    budget = tuple(held - 1 for held in schedule.memory)
    problem = replace(schedule.problem, memory=replace(schedule.problem.memory, budget=budget))
    assert [*map(tuple, map(dict.values, excesses(replace(schedule, problem=problem))))] == [
        (device, held, held - 1) for device, held in enumerate(schedule.memory)
    ]


def test_the_backward_of_side_work_waits_for_the_gradient() -> None:
    """It starts no earlier than the first stage's backward has ended, nor its own forward."""
    schedule = whole()
    number = schedule.plan.index.number(parse_op("0G0"))
    start = -schedule.start_ticks[number]
    found = naming(shifted(schedule, number, start, start), "0G0")
    assert found[-2:] == [f"0G0 on device 0 starts at 0, before the end of {op}" for op in ("0B0 at 84", "0E0 at 2")]


def test_own_lengths() -> None:
    """Operations of a measured step last what they last, but none ends before it starts, nor a pass."""
    schedule = whole()
    back = shifted(schedule, schedule.plan.index.number(parse_op("0F0")), 0, -6)
    assert "0F0 ends before it starts" in [*violations(replace(back, own_lengths=True))]
    number = schedule.plan.index.number(parse_op("0OPTIMIZER"))
    longer = shifted(schedule, number, 0, 1)
    assert [*violations(replace(longer, own_lengths=True))] == []
    reversed_ = shifted(schedule, number, 0, -5)
    assert "0OPTIMIZER ends before it starts" in [*violations(replace(reversed_, own_lengths=True))]

"""Whole steps: programs of network lanes, bounds, metrics, and who waits for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipesched import make_problem, plan, run, schedule_plan
from pipesched.pipeline.bounds.bounds import Bound, lower_bound, problem_bounds, work_bounds
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import WEIGHTS, Shard
from pipesched.pipeline.problem.problem import Problem
from tests.pipeline.steps import with_costs
from tests.stepped import REDUCED


def program_text(schedule: Schedule, device: int) -> str:
    """Return the program of a lane: a line for all that is issued behind one slot."""
    index = schedule.plan.index
    lines: dict[str, list[str]] = {}
    for number, after in schedule.plan.network[device]:
        lines.setdefault(f"{index.op(after)}" if after >= 0 else "", []).append(str(index.op(number)))
    return "".join(f"{' '.join(ops)} < {slot}".rstrip() + "\n" for slot, ops in lines.items())


LATE = """
1UNSHARD0 <
1RESHARD0 1UNSHARD1 < 1F0
1RESHARD1 1UNSHARD2 < 1F1
1REDUCE_GRAD 1RESHARD2 < 1B1
"""


def test_nothing_is_gathered_ahead() -> None:
    """A forward frees its stage, a backward leaves it whole for the next forward; a gather begins with the input."""
    problem = with_costs(Shard(WEIGHTS, gather="each"), devices=2, microbatches=8, forward=5, backward=10, gather=4)
    schedule = run(problem, "1f1b").schedule
    assert schedule.makespan == 175
    assert [len(row) for row in schedule.plan.index.rows("UNSHARD")] == [9, 9]
    assert [*violations(schedule)] == []
    two = run(replace(problem, microbatches=2), "1f1b").schedule
    assert program_text(two, 1) == LATE[1:]
    first = two.plan.index.row("UNSHARD", 1)[0]
    assert (two.start_ticks[first], two.end_ticks[first]) == (9, 13)  # once the message of stage 0 is there
    starts, ends = [*two.start_ticks], [*two.end_ticks]
    starts[first], ends[first] = 8, 12
    early = "the gather for 1F0 starts at 8, before its input is there at 9"
    assert early in [*violations(replace(two, start_ticks=starts, end_ticks=ends))]


FOUR: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}


TWO: dict[str, Any] = {"devices": 2, "microbatches": 3, "forward": 5, "backward": 10}


STEP: dict[str, Any] = {"gather": 15, "reduce": 30, "optimizer": 5}


UNIT: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward_input": 10, "backward_weight": 10}


@pytest.mark.parametrize(
    ("algorithm", "given", "best"),
    [
        ("1f1b", FOUR | {"reduce": 20}, 350),
        ("1f1b", FOUR | STEP, 380),
        ("1f1b", FOUR | STEP | {"tied": 8}, 388),
        ("zb-h2", UNIT | STEP, 320),
        ("zb-h1", UNIT | STEP | {"clip": True}, 320),
        (
            "interleaved",
            FOUR | {"stages": 8, "forward": 5, "backward": 10, "gather": 8, "reduce": 15, "optimizer": 2},
            310,
        ),
    ],
)
def test_makespans_that_are_bounds(algorithm: str, given: dict[str, Any], best: int) -> None:
    """Of these schedules the bound is the makespan."""
    schedule = run(make_problem(**given), algorithm).schedule
    assert (schedule.makespan, lower_bound(schedule).value) == (best, best)


def best_bound(problem: Problem) -> Bound:
    return max(problem_bounds(problem, problem.letters, paired=False), key=lambda bound: bound.ticks)


@pytest.mark.parametrize(
    ("given", "value", "reason"),
    [
        (TWO | {"side": [{"forward": 2, "backward": 4}]}, 66,
         "device 1: first input after 7, work 45, then 14 until the step ends"),
        (TWO | {"side": [{"forward": 2, "backward": 40}]}, 108,
         "all work of devices 0, 1, with the side work that they share"),
        (TWO | {"side": [{"forward": 2, "backward": 4, "devices": [0]}]}, 66,
         "device 1: first input after 7, work 45, then 14 until the step ends"),
        (TWO | {"reduce": 30, "shard": {"level": "gradients", "reduce": "each"}}, 120,
         "Jackson's preemptive schedule of the network of device 0"),
        ({"devices": 1, "stages": 2, "microbatches": 1, "forward": 5, "backward": 10, "gather": 40}, 105,
         "critical path of one microbatch"),
    ],
)  # fmt: skip
def test_what_a_step_adds(given: dict[str, Any], value: int, reason: str) -> None:
    """Side work of any device counts on all together, that of one there; a lane moves one thing at a time."""
    bound = best_bound(make_problem(placement="linear", **given))
    assert (bound.ticks, bound.reason) == (value, reason)


def test_bounds_of_the_span() -> None:
    """A device and a network lane take at least what they have to do."""
    problem = make_problem(**TWO, gather=25, reduce=40, placement="linear")
    assert max(bound.ticks for bound in work_bounds(problem, "FB", paired=False)) == 65


F_AND_B: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 10, "backward": 20}


def test_an_optimizer_is_work_and_waiting_for_the_network_is_idle() -> None:
    """The bubble of 1f1b grows by the reduction that shows; a device that updates its stage is busy."""
    reduced = run(with_costs(**F_AND_B, reduce=20), "1f1b").schedule
    assert round(reduced.bubble, 7) == 0.3142857
    assert reduced.busy == [240] * 4
    assert run(with_costs(**F_AND_B, optimizer=5), "1f1b").schedule.busy == [245] * 4


def test_text() -> None:
    """A step says of itself what it costs beside the pipeline, and what is exposed."""
    schedule = run(make_problem(**REDUCED), "1f1b").schedule
    assert repr(schedule.step) == "StepTimes(pipeline 330, network 45, exposed 0UNSHARD0, 0REDUCE_GRAD)"


def test_programs_that_are_given_stay() -> None:
    """A gather that is issued behind a slot waits for its end, and the passes behind it wait for the gather."""
    problem = with_costs(devices=1, microbatches=2, forward=5, backward=10, gather=4, reduce=3)
    typed = plan(problem, ["0F0 0F1 0B0 0B1"], network=[[("0UNSHARD0", None), ("0REDUCE_GRAD", "0B1")]])
    schedule = schedule_plan(problem, typed)
    index = schedule.plan.index
    times = {str(index.op(number)): schedule.start_ticks[number] for number in range(index.size)}
    assert times == {"0F0": 4, "0F1": 9, "0B0": 14, "0B1": 24, "0UNSHARD0": 0, "0REDUCE_GRAD": 34}


def test_side_work_of_one_microbatch_waits_for_its_input_gradient() -> None:
    """Its backward comes before the weight gradient, also where the only microbatch is all that the stage has."""
    problem = make_problem(devices=2, microbatches=1, forward=1, backward_input=2, backward_weight=3,
                           side=[{"forward": 1, "backward": 1, "into": 1}])  # fmt: skip
    schedule = schedule_plan(problem, plan(problem, ["0F0 0B0", "0E0 1F0 1I0 0G0 1W0"]))
    assert [(slot.start, slot.end) for slot in schedule.timeline(1)] == [(0, 1), (1, 2), (2, 4), (4, 5), (5, 8)]

"""Lower bounds of problems with a step: published makespans that they reach, and what each part of a step adds."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import make_problem, run
from pipesched.pipeline.bounds import Bound, lower_bound, problem_bounds, work_bounds
from pipesched.pipeline.problem import Problem

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

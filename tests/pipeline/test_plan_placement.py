"""A placement that a problem leaves open is read off the plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError
from pipesched.pipeline.check.check import check
from pipesched.pipeline.plan.plan import Plan, placement_of, plan_from_slots, settled
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import parse_slot
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from tests.strategies import SETTLED, plan_of, problems, random_plan


def planned(*rows: str, stages: int = 2) -> Plan:
    """The plan that these rows of operations spell, of two microbatches."""
    return plan_from_slots([map(parse_slot, row.split()) for row in rows], stages, 2)


@given(problems(SETTLED), st.randoms(use_true_random=False), st.sampled_from([0, 0.5]))
def test_any_plan_says_where_its_stages_live(problem: Problem, random: Random, pair: float) -> None:
    """Without its placement a problem gets it back from any plan, and the schedule is the same."""
    plan = plan_of(problem, random_plan(problem, random, split=0.5, pair=pair))
    free = replace(problem, placement=None)
    schedule, again = schedule_plan(problem, plan), schedule_plan(free, plan)
    assert again.start_ticks == schedule.start_ticks
    assert check(again) == []
    found, placement = again.problem.settled_placement, problem.settled_placement
    if placement.mirrored and (problem.microbatches == 1 or problem.devices == 1):
        assert not found.mirrored  # one half of the microbatches, or of the devices, is all there is
    else:
        assert found == placement


def test_a_bidirectional_plan_by_hand() -> None:
    """Each half of the microbatches goes another way round: a mirrored placement."""
    plan = planned("0F0 1F1 1B1 0B0", "1F0 0F1 1B0 0B1")
    assert placement_of(plan) == Placement((0, 1), mirrored=True)


def test_a_plan_of_one_direction() -> None:
    """Both halves on the same devices, in any order: no mirror."""
    assert placement_of(planned("1F0 1F1 1B0 1B1", "0F0 0F1 0B0 0B1")) == Placement((1, 0))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("0F0 0B0 0F1 1B1", "1F0 1B0 1F1 0B1"), "stage 0 must run on one device; this plan has it on 0 and 1"),
        (("0F0 0B0 0F1 0B1", ""), "stage 1 must run on one device; this plan has it on none"),
        (
            ("0F0 0B0 0F1 0B1", "1F0 1B0 1F1", "1B1"),
            "stage 1 must run on one device; this plan has it on 1 and 2: 1B1 on 2, the rest on 1",
        ),
        (("0F0 0B0", "0F1 0B1 1F0 1B0 1F1 1B1"), "on one device, or on two that mirror each other"),
        (("0F0 0B0 0F1 0B1", "1F0 1B0", "1F1 1B1"), "on one device, or on two that mirror each other"),
    ],
)
def test_plans_without_a_placement(rows: tuple[str, ...], message: str) -> None:
    """A stage on several devices, or on none, is refused with where it is; the parameter at fault is the plan."""
    with pytest.raises(ConfigError, match=message) as caught:
        placement_of(planned(*rows))
    assert caught.value.key == "plan"


def test_a_settled_problem_stays_as_it_is() -> None:
    """A placement that the problem has is not read off the plan, even where the plan breaks it: the check says so."""
    problem = make_problem(devices=2, microbatches=1, placement="linear")
    plan = plan_of(problem, [["1F0", "1B0"], ["0F0", "0B0"]])
    assert settled(problem, plan) is problem
    assert any("0F0 runs on device 1, not on 0" in sentence for sentence in check(schedule_plan(problem, plan)))
    free = schedule_plan(replace(problem, placement=None), plan)
    assert free.problem.placement == Placement((1, 0))
    assert check(free) == []


def test_a_plan_of_another_problem_is_refused() -> None:
    """Sizes are compared also where the placement is open."""
    plan = planned("0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1")
    with pytest.raises(ConfigError, match="the problem has 2, 2 and 3") as caught:
        schedule_plan(make_problem(devices=2, microbatches=3), plan)
    assert caught.value.key == "plan"

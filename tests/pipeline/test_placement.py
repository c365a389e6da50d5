"""Placements: each by name, what they refuse, and what a plan says of one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Placement, Plan, Problem, check, make_problem, schedule_plan
from pipesched.pipeline.plan.plan import placement_of, plan_from_slots, settled
from pipesched.pipeline.problem.ops import parse_slot
from pipesched.pipeline.problem.placement import PLACEMENTS, named_placement, placement_name
from tests.oracle.alike import device_of
from tests.strategies import SETTLED, plan_of, problems, random_plan


@pytest.mark.parametrize(
    ("name", "devices", "stages", "devices_of_stages"),
    [
        ("linear", 4, 4, [0, 1, 2, 3]),
        ("linear", 2, 6, [0, 0, 0, 1, 1, 1]),
        ("linear", 3, 5, [0, 0, 1, 1, 2]),
        ("linear", 1, 3, [0, 0, 0]),
        ("loop", 4, 8, [0, 1, 2, 3, 0, 1, 2, 3]),
        ("loop", 2, 3, [0, 1, 0]),
        ("v", 4, 8, [0, 1, 2, 3, 3, 2, 1, 0]),
        ("v", 1, 2, [0, 0]),
        ("wave", 2, 8, [0, 1, 1, 0, 0, 1, 1, 0]),
        ("wave", 3, 6, [0, 1, 2, 2, 1, 0]),
        ("bidirectional", 4, 4, [0, 1, 2, 3]),
        ("bidirectional", 4, 8, [0, 1, 2, 3, 3, 2, 1, 0]),
        ("bidirectional", 2, 8, [0, 1, 1, 0, 0, 1, 1, 0]),
    ],
)
def test_by_name(name: str, devices: int, stages: int, devices_of_stages: list[int]) -> None:
    """Where each named placement puts the stages, written out by hand (v as the config's reference lists it)."""
    placement = named_placement(name, devices, stages)
    assert list(placement.devices) == devices_of_stages
    assert placement.mirrored == (name == "bidirectional")


@given(st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 6), st.integers(1, 24))
def test_sizes(name: str, devices: int, stages: int) -> None:
    """A placement takes S >= P; v only 2P, wave multiples of 2P, bidirectional P too; and it uses every device."""
    takes = {"v": stages == 2 * devices, "wave": stages % (2 * devices) == 0}
    takes["bidirectional"] = stages == devices or takes["wave"]
    if stages >= devices and takes.get(name, True):
        placement = named_placement(name, devices, stages)
        assert len(placement.devices) == stages
        assert set(placement.devices) == set(range(devices))
    else:
        with pytest.raises(ConfigError):
            named_placement(name, devices, stages)


@pytest.mark.parametrize("value", [[0, 1, 1, 0], (0, 1, 1, 0), [0, "1", 1.0, Decimal(0)], np.array([0, 1, 1, 0])])
def test_lists_of_device_numbers(value: Any) -> None:
    """Device numbers may be written in any way in which a whole number may be."""
    assert make_problem(devices=2, stages=4, placement=value).placement == Placement((0, 1, 1, 0))


@given(st.permutations([0, 1, 2, 0, 2]))
def test_two_lists(devices_of_stages: list[int]) -> None:
    """Two lists, of which the second mirrors the first, are two copies; a config says them so again."""
    both = [devices_of_stages, [2 - device for device in devices_of_stages]]
    placement = make_problem(devices=3, stages=5, placement=both).settled_placement
    assert placement == Placement(tuple(devices_of_stages), mirrored=True)
    assert (placement.written, placement.said) == (both, f"{devices_of_stages} in both directions")


@given(st.integers(1, 4), st.integers(0, 2), st.integers(1, 2))
def test_two_copies_by_name(devices: int, waves: int, parts: int) -> None:
    """What a config says of two copies makes the same placement, also of stages in parts."""
    stages = devices * max(2 * waves, 1)
    placement = named_placement("bidirectional", devices, stages).in_blocks(stages * parts)
    again = make_problem(devices=devices, stages=stages * parts, placement=placement.written)
    assert again.placement == placement
    assert parts > 1 or placement.written == placement_name(placement, devices) == "bidirectional"


@given(st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 5), st.integers(1, 2))
def test_stages_on_are_those_that_run_there(name: str, devices: int, waves: int) -> None:
    """A device holds the weights of exactly the stages that some microbatch runs there."""
    stages = {"bidirectional": devices, "v": 2 * devices}.get(name, 2 * devices * waves)
    problem = make_problem(devices=devices, stages=stages, microbatches=4, placement=name)
    for device in range(devices):
        run_there = [s for s in range(stages) if device in {device_of(problem, s, mb) for mb in range(4)}]
        assert problem.settled_placement.stages_on(device) == run_there


# A placement that a problem leaves open is read off the plan.


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

"""Fusing stages: the same model in fewer, larger ones."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import NotApplicable, Problem, make_problem
from pipesched.pipeline.layers.recut import fuse
from pipesched.pipeline.problem.placement import named_placement
from tests.oracle.alike import parts, replay
from tests.strategies import problems, random_plan


def test_absent_costs_stay_absent() -> None:
    """Overlap, offload and a budget that nobody gave are not made up; an overlap of 0 stays one."""
    fused = fuse(make_problem(devices=2, stages=4), 2)
    assert (fused.costs.overlap, fused.costs.offload, fused.costs.reload, fused.memory.budget) == (None,) * 4
    assert fuse(make_problem(devices=2, stages=4, overlap=0), 2).costs.overlap == (0, 0)


@pytest.mark.parametrize(("have", "want"), [(6, 4), (5, 2), (3, 2), (2, 4)])
def test_unequal_groups_are_refused(have: int, want: int) -> None:
    """Stages that cannot be merged into equal groups are not; the message names both numbers."""
    with pytest.raises(NotApplicable, match=f"multiple of {want} stages.*are {have}"):
        fuse(make_problem(devices=2, stages=have), want)


@given(problems(("linear",), least=1, split=False), st.randoms(use_true_random=False))
def test_the_same_model(problem: Problem, random: Random) -> None:
    """Any plan of the fused stages takes as long, and holds as much, as the same plan with its stages one by one."""
    fused = fuse(problem, problem.devices)
    fused = make_linear(fused)
    size = problem.stages // problem.devices
    plan = random_plan(fused, random)
    unfused = [[text for slot in row for text in _one_by_one(slot, size)] for row in plan]
    whole, apart = replay(fused, plan), replay(problem, unfused)
    assert (whole.makespan, whole.span, whole.busy) == (apart.makespan, apart.span, apart.busy)
    held, due = (
        [peak / one.grains.per_unit for peak in peaks] for one, peaks in ((fused, whole.peak), (problem, apart.peak))
    )
    assert held == due


def make_linear(problem: Problem) -> Problem:
    """`problem` with one stage a device, in order."""
    from dataclasses import replace

    return replace(problem, placement=named_placement("linear", problem.devices, problem.stages))


def _one_by_one(slot: str, size: int) -> list[str]:
    """The operations of the stages that were fused into one: forwards up, backwards down."""
    [(stage, kind, mb, _)] = parts(slot)
    stages = list(range(stage * size, (stage + 1) * size))
    return [f"{one}{kind}{mb}" for one in (stages if kind == "F" else stages[::-1])]

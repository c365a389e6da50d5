"""Fusing stages: the same model in fewer, larger ones."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import NotApplicable, Problem, make_problem
from pipesched.pipeline.layers.recut import fuse
from pipesched.pipeline.problem.placement import named_placement
from tests.oracle.alike import parts, replay
from tests.strategies import problems, random_plan


def test_sums_by_hand() -> None:
    """Costs, activations and static memory add up; of the p2p boundaries only those between groups stay."""
    problem = make_problem(
        devices=2, stages=6, forward=[1, 2, 3, 4, 5, 6], backward_input=[2, 2, 2, 3, 3, 3],
        backward_weight=[1, 1, 1, 0, 0, 5], recompute=[1, 1, 1, 2, 2, 2], overlap=[5, 5, 5, 7, 7, 7],
        offload=[1, 2, 3, 1, 2, 3], reload=[3, 3, 3, 4, 4, 4], p2p=[1, 2, 9, 3, 4], activation=[1, 2, 3, 4, 5, 6],
        static=[1, 1, 2, 2, 3, 3], budget=[30, 40],
    )  # fmt: skip
    fused = fuse(problem, 2)
    costs, memory = fused.costs, fused.memory
    assert (fused.devices, fused.stages, fused.microbatches, fused.placement) == (2, 2, 4, None)
    assert (costs.forward, costs.backward_input, costs.backward_weight) == ((6, 15), (6, 9), (3, 5))
    assert (costs.recompute, costs.overlap, costs.offload, costs.reload) == ((3, 6), (15, 21), (6, 6), (9, 12))
    assert (costs.p2p, costs.split, fused.ticks.per_unit) == ((9,), True, 1)
    assert (memory.activation, memory.static, memory.budget) == ((6, 15), (4, 8), (30, 40))


def test_fractions_are_weighted_by_the_activation() -> None:
    """1 of 1 and half of 3 is 2.5 of 4 retained; none of 1 and a tenth of 3 is 0.3 of 4 kept."""
    problem = make_problem(
        devices=1, stages=2, activation=[1, 3], retain=[1, Decimal("0.5")], checkpoint=[0, Decimal("0.1")]
    )
    fused = fuse(problem, 1)
    assert fused.memory.retain == (0.625,)
    assert fused.memory.checkpoint == (0.075,)
    assert Fraction(fused.grains.largest["retained"][0], fused.grains.per_unit) == Fraction(5, 2)
    assert Fraction(fused.grains.largest["checkpointed"][0], fused.grains.per_unit) == Fraction(3, 10)


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

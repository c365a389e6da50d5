"""Choosing a block for the given costs: never worse than what is offered, never more in memory."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import Problem, make_problem
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers import block
from pipesched.schedulers.block import Waits, best_of, costing, in_chunks, squeeze, v_blocks
from pipesched.schedulers.registry import family
from pipesched.schedulers.v_schedules import published_order
from tests.strategies import problems

TIGHT, LOOSE = Waits(0, 0, 0, 0), Waits(3, 1, 3, 1)  # V-Min's and ZB-V's


def unit(devices: int = 4, microbatches: int = 8) -> Problem:
    """Two stages a device on a V, f = b = w."""
    return make_problem(
        devices=devices,
        stages=2 * devices,
        microbatches=microbatches,
        backward_input=1,
        backward_weight=1,
        activation=1,
        placement="v",
    )


def test_costs_between() -> None:
    """They are f = b = w at the mean of all, or halfway between that and the problem's own; and never with p2p."""
    problem = make_problem(devices=2, forward=[2, 4], backward_input=[6, 4], backward_weight=[1, 7], p2p=3)
    even, half = costing(problem).costs, costing(problem, between=True).costs
    assert even.forward == even.backward_input == even.backward_weight == (4, 4)
    assert (half.forward, half.backward_input, half.backward_weight) == ((3, 4), (5, 4), (2, 5))
    assert even.p2p == half.p2p == (0,)


@settings(deadline=None, max_examples=15)
@given(problems(("v",), most_devices=3, most_microbatches=6, split=True), st.sampled_from(["span", "makespan"]))
def test_no_worse_than_any_design_squeezed(problem: Problem, objective: str) -> None:
    """Whatever the costs: in the room of 2P chunks, no longer than any of the designs squeezed as it stands."""
    designs, peak = v_blocks(problem, LOOSE), 2 * problem.devices
    counted, chunk = in_chunks(problem)
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    chosen = schedule_plan(counted, best_of(problem, designs, peak, objective))
    assert max(chosen.peak_grains) <= peak * chunk
    for design in designs:
        orders = squeeze(
            lower(in_chunks(design.problem)[0], index), index, design.block, [peak * chunk] * problem.devices
        )
        if orders is not None:
            offered = schedule_plan(counted, Plan(index, orders))
            assert getattr(chosen, objective) <= getattr(offered, objective)


def test_a_known_order_takes_part() -> None:
    """ZB-V's published order has no idle time in its span, which no squeezed V-Min reaches in as much memory."""
    problem, index = unit(), OpIndex("FIW", 8, 8)
    known = [published_order(index, 4, device) for device in range(4)]
    assert best_of(problem, v_blocks(problem, TIGHT), 8, "span", known=[known]).orders == known


@pytest.mark.parametrize("peak", [4, 5, 8])
def test_the_peak_is_the_limit(peak: int) -> None:
    """V-Min's block holds 4 chunks: more room is used, but never exceeded."""
    problem = unit()
    schedule = schedule_plan(problem, best_of(problem, v_blocks(problem, TIGHT), peak, "makespan"))
    assert max(schedule.peak_grains) <= peak
    assert schedule.makespan_ticks <= 59


def test_equal_designs_are_tried_once() -> None:
    """At unit costs all designs of a block are the same one."""
    problem = unit()
    with mock.patch.object(block, "squeeze", wraps=squeeze) as tried:
        best_of(problem, v_blocks(problem, TIGHT), 4, "makespan")
    assert tried.call_count == 1


@pytest.mark.parametrize("name", ["1f1b-v", "zb-v", "v-half", "v-min"])
def test_a_plan_is_kept_for_all_budgets(name: str) -> None:
    """These families do not look at budgets, so a frontier has their plans made once; other costs are another plan."""
    chosen = family(name)
    given: list[dict[str, Any]] = [{"budget": 4}, {"budget": 9}, {"budget": 4, "forward": 3}]
    small, large, other = (
        make_problem(devices=2, stages=4, microbatches=4, placement="v", backward_input=2, backward_weight=1, **more)
        for more in given
    )
    assert chosen.plan(small) is chosen.plan(large)
    assert chosen.plan(other) is not chosen.plan(large)

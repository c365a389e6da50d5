"""Choosing a block for the given costs: never worse than what is offered, never more in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import Problem, make_problem
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.block import Waits, best_of, in_chunks, squeeze, v_blocks
from pipesched.schedulers.registry import family
from tests.strategies import problems

TIGHT, LOOSE = Waits(0, 0, 0, 0), Waits(3, 1, 3, 1)  # V-Min's and ZB-V's


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

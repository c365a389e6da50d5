"""The local search on critical blocks: it never loses, keeps the memory, and gets to known optima."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import Plan, Problem, make_problem
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.trials import Orders, shorten_path
from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.strategies import limited

PROBLEM = make_problem(
    devices=2, microbatches=4, backward_input=1, backward_weight=1, activation=2, retain=0.5, placement="linear"
)


def shortened(problem: Problem, orders: Orders, capacity: int, rounds: int) -> Orders:
    """What the search makes of the makespan of these orders."""
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    capacities, offsets = [capacity] * problem.devices, [0] * problem.devices
    return shorten_path(lower(problem, index), index, capacities, offsets, orders, rounds, 0)


def one_by_one(problem: Problem) -> Orders:
    """Each device works on one microbatch at a time: no two devices ever work together."""
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    rows = [[index.row(kind, device) for kind in "FIW"] for device in range(problem.devices)]
    return [[row[microbatch] for microbatch in range(problem.microbatches) for row in three] for three in rows]


@pytest.mark.parametrize(("activations", "makespan"), [(1, 20), (2, 13)])
def test_from_one_microbatch_at_a_time(activations: int, makespan: int) -> None:
    """P2 M4 at unit costs, where I frees half: as short as it gets. With room for one, no two ever overlap."""
    index = OpIndex("FIW", PROBLEM.stages, PROBLEM.microbatches)
    capacity = activations * PROBLEM.grains.largest["activation"][0]
    orders = shortened(PROBLEM, one_by_one(PROBLEM), capacity, rounds=400)
    schedule = schedule_plan(PROBLEM, Plan(index, orders))
    assert list(violations(schedule)) == []
    assert max(schedule.peak_grains) <= capacity
    assert schedule.makespan_ticks == makespan


@settings(deadline=None)
@given(limited(), st.integers(0, 60), st.booleans())
def test_the_local_search_never_loses(problem: Problem, rounds: int, by_span: bool) -> None:
    """From a greedy schedule: it still runs and fits, and what is shortened is not longer."""
    capacities = [capacity if capacity is not None else 0 for capacity in problem.capacity_grains]
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    start = greedy_orders(problem, capacities, Switches([9] * problem.devices, False, 0, 0, 0))
    before = schedule_plan(problem, Plan(index, start))
    offsets = before.first_start_ticks if by_span else [0] * problem.devices
    improved = shorten_path(lower(problem, index), index, capacities, offsets, start, rounds, 50)
    after = schedule_plan(problem, Plan(index, improved))
    assert list(violations(after)) == []
    assert after.fits
    assert (
        (after.span_ticks <= before.span_ticks)
        if by_span
        else (max(after.last_end_ticks) <= max(before.last_end_ticks))
    )


@pytest.mark.parametrize(
    "switches",
    [Switches([24] * 8, True, 2, 1, 2), Switches([24] * 8, True, 2, 0, 0), Switches([24] * 8, False, 2, 0, 1)],
)
def test_the_local_search_finds_the_optimum(switches: Switches) -> None:
    """Row 1 of the Zero Bubble paper's table 5 at 2P: from a greedy schedule to (P-1)(f+b+2c) + M(f+b) + w, which is a
    bound: between its first F and the last I of all, the last device runs every F and I.
    """
    f, b, w, hop, capacity = 18522, 18086, 9337, 601, 16 * 201216
    costs: dict[str, Any] = {"forward": f, "backward_input": b, "backward_weight": w, "p2p": hop, "placement": "linear"}
    memory: dict[str, Any] = {"activation": 201216, "retain": Fraction(73728, 201216), "budget": capacity}
    problem = make_problem(devices=8, microbatches=24, **costs, **memory)
    index = OpIndex("FIW", 8, 24)
    greedy = greedy_orders(problem, [capacity] * 8, switches)
    offsets = [device * (f + hop) for device in range(8)]
    improved = shorten_path(lower(problem, index), index, [capacity] * 8, offsets, greedy, 200, 50)
    before, after = (schedule_plan(problem, Plan(index, orders)).span_ticks for orders in (greedy, improved))
    assert before > after == 7 * (f + b + 2 * hop) + 24 * (f + b) + w

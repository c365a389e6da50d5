"""Weight gradients that wait with more than the activation (`retain` above 1): what is optimal, and who obeys."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pipesched.errors import NoSchedule
from pipesched.pipeline.bounds.memory import capacity_edges
from pipesched.pipeline.check.check import check
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.results.outcome import run
from pipesched.solver.solve import solve
from tests.oracle.alike import replay
from tests.strategies import texts_of

UNIT: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 1, "backward_input": 1, "backward_weight": 1}


@pytest.mark.parametrize(("budget", "best"), [(1.5, 72), (2, 72), (2.5, 41), (3, 41), (4, 31), (4.5, 28)])
def test_the_optimum_under_a_budget(budget: float, best: int) -> None:
    """P4 M8, f = b = w = 1, half an activation beside each that waits for W: proved, and within the budget."""
    outcome = solve(make_problem(**UNIT, retain=1.5, budget=budget), time_limit=30)
    assert (outcome.schedule.makespan, outcome.status) == (best, "optimal")
    naive = replay(outcome.problem, texts_of(outcome.schedule.plan))
    assert naive.makespan == best
    assert max(naive.peak) <= Fraction(budget) * outcome.problem.grains.per_unit
    assert check(outcome) == []


@pytest.mark.parametrize("name", ["solve", "list", "zb-auto"])
def test_the_floor_holds_what_an_i_takes(name: str) -> None:
    """Under an activation and what its I takes, there is no order: the device, the floor and what fits are named."""
    problem = make_problem(**UNIT, retain=1.5, budget=1.4)
    with pytest.raises(NoSchedule, match=r"at least 1\.5 microbatch") as caught:
        solve(problem) if name == "solve" else run(problem, name)
    assert (caught.value.device, caught.value.floor, caught.value.budget) == (0, 1.5, 1.4)


def test_a_whole_backward_takes_nothing_more() -> None:
    """The same budget holds 1F1B with whole backwards: one activation a device is enough for any order of them."""
    problem = make_problem(devices=4, microbatches=8, forward=1, backward=2, retain=1.5, budget=1)
    assert solve(problem).schedule.makespan == 8 * (4 + 8)
    free = make_problem(devices=4, microbatches=8, forward=1, backward=2, retain=1.5)
    assert run(free, "1f1b").schedule.peak_memory == [4, 3, 2, 1]


def test_memory_of_a_split_backward() -> None:
    """One device, F I W, three ticks each of 1: 1 during F, 1.5 from the start of I to the end of W."""
    problem = make_problem(devices=1, microbatches=1, forward=1, backward_input=1, backward_weight=1, retain=1.5)
    schedule = run(problem, "list").schedule
    steps = [(time, Fraction(level, problem.grains.per_unit)) for time, level in schedule.memory_steps(0)]
    assert steps == [(0, 1), (1, Fraction(3, 2)), (2, Fraction(3, 2)), (3, 0)]


def test_every_forward_leaves_the_room_that_an_i_needs() -> None:
    """Budget 3 with half an activation more for each I: F2 waits for I0 and W0, where 3 activations alone would fit."""
    problem = make_problem(
        devices=1, microbatches=3, backward_input=1, backward_weight=1, retain=1.5, budget=3, placement="linear"
    )
    index = OpIndex("FIW", 1, 3)
    arrows = {
        (str(index.op(before)), str(index.op(after)))
        for edge in capacity_edges(problem, index)
        for before, after in zip(edge.before, edge.after, strict=True)
    }
    assert arrows == {("0I0", "0F2"), ("0W0", "0F2")}

"""Lower bounds: published values, and the optimum of tiny problems by trying every order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import run
from pipesched.pipeline.bounds.bounds import Bound, lower_bound, problem_bounds
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from tests.examples import examples
from tests.oracle.alike import optimum
from tests.strategies import SETTLED, plan_of, problems, random_plan, with_capacities

randoms = st.randoms(use_true_random=False)
tiny = problems(SETTLED, most_devices=2, most_microbatches=3, most_chunks=2, overlap=True, unlike=True)


def bound_of(problem: Problem, plan: Plan) -> int:
    """The bound that applies to the schedule of a plan."""
    return lower_bound(schedule_plan(problem, plan)).ticks


@pytest.mark.parametrize(
    ("algorithm", "given", "best"),
    [
        ("1f1b", {"devices": 4, "microbatches": 8}, 33),
        ("1f1b", {"devices": 8, "microbatches": 16}, 69),
        ("naive", {"devices": 4, "microbatches": 8}, 33),
        ("interleaved", {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}, 285),
        ("interleaved", {"devices": 4, "stages": 8, "microbatches": 8}, 57),
        ("1f1b", {"devices": 4, "stages": 8, "microbatches": 8, "forward": 5, "backward": 10}, 330),
        ("list", {"devices": 4, "microbatches": 8, "backward_input": 1, "backward_weight": 1}, 27),
        ("list", {"devices": 4, "stages": 8, "microbatches": 8, "placement": "loop"}, 57),
        ("1f1b", {"devices": 8, "microbatches": 64, "forward": 10, "backward": 20, "budget": 8}, 2130),
    ],
)
def test_bounds_that_are_optimal(algorithm: str, given: dict[str, Any], best: int) -> None:
    """Where the optimum is known and no limit binds, the bound meets it."""
    assert run(make_problem(**given), algorithm).bound.ticks == best


SOLVED = [  # optima that CP-SAT proved: problem, and (budget in activations of one stage, optimum)
    ({"devices": 4, "microbatches": 8}, [(1, 96), (2, 51), (3, 39), (4, 33)]),
    (
        {"devices": 4, "microbatches": 8, "backward_input": 1, "backward_weight": 1},
        [(1, 72), (2, 41), (3, 31), (4, 27)],
    ),
    (
        {"devices": 4, "stages": 8, "placement": "v", "backward_input": 1, "backward_weight": 1, "activation": 1},
        [(2, 101), (3, 86), (4, 59), (5, 56), (6, 53), (8, 51)],
    ),
    (
        {"devices": 4, "stages": 8, "placement": "loop", "activation": 1},
        [(3, 114), (4, 87), (5, 75), (6, 65), (7, 60), (8, 57)],
    ),
    ({"devices": 4, "forward": 2, "backward": 4, "p2p": 1}, [(4, 80), (5, 74), (6, 72)]),
    ({"devices": 3, "microbatches": 6}, [(1, 54), (2, 30), (3, 24)]),
    (
        {
            "devices": 4,
            "microbatches": 12,
            "forward": 5,
            "backward_input": 6,
            "backward_weight": 4,
            "activation": 2,
            "retain": Decimal("0.5"),
        },
        [(8, 201), (10, 195), (14, 195)],
    ),
]


@pytest.mark.parametrize(("given", "budget", "best"), [(given, *case) for given, cases in SOLVED for case in cases])
def test_proven_optima(given: dict[str, Any], budget: int, best: int) -> None:
    """No bound is above, and no list schedule within the budget below, an optimum that CP-SAT proved."""
    outcome = run(make_problem(**given, budget=budget), "list")
    assert outcome.schedule.fits
    assert outcome.bound.ticks <= best <= outcome.schedule.makespan_ticks


H11: dict[str, Any] = {
    "devices": 8, "microbatches": 32, "forward": 12, "backward_input": 13, "backward_weight": 9, "p2p": 1,
    "budget": 5, "placement": "linear",
}  # fmt: skip


def test_memory_area_by_hand() -> None:
    """Case h11: 32 residences of (8 F + 8 I + 14 hops) 214 and W 9, in room for 5: 1428 (its optimum: 1648)."""
    problem = make_problem(**H11)
    assert Bound(1428, "memory area of device 0") in problem_bounds(problem, "FIW", paired=False)


def test_memory_area_with_recomputation_by_hand() -> None:
    """Half of an activation for 2 F + 2 B, 12, the other half for F, R and B, 8, or for 12 too if R takes longer."""
    sizes: dict[str, Any] = {"devices": 2, "microbatches": 3, "placement": "linear", "activation": 1, "budget": 1}
    for recompute, area in ((2, 3 * 10), (6, 3 * 12)):
        saved: dict[str, Any] = {"recompute": recompute, "checkpoint": Decimal("0.5")}
        problem = make_problem(**sizes, forward=2, backward=4, **saved)
        assert Bound(area, "memory area of device 0") in problem_bounds(problem, "FBR", paired=False)


def test_a_bound_is_rounded_up_to_a_sum_of_costs() -> None:
    """Three activations for 2 F + 2 I, 12, and 0.7 of each for W, 2, take 40.2 of room 1; costs are even, so 42."""
    part = Decimal("0.7")
    costs: dict[str, Any] = {"forward": 2, "backward_input": 4, "backward_weight": 2, "retain": part}
    sizes: dict[str, Any] = {"devices": 2, "microbatches": 3, "placement": "linear"}
    problem = make_problem(**sizes, **costs, activation=[1, part], budget=1)
    assert Bound(41, "memory area of device 0") in problem_bounds(problem, "FIW", paired=False)
    outcome = run(problem, "list")
    assert outcome.bound == Bound(42, "memory area of device 0")
    assert outcome.schedule.makespan_ticks == 42


def test_residences_by_hand() -> None:
    """The same case: of 32 stays of 214 + 9 in 5 slots two slots run 7, and the second of them begins an F later."""
    problem = make_problem(**H11)
    assert run(problem, "list").bound == Bound(7 * 223 + 12, "residences of device 0 under the budget")


def test_memory_bounds_only_what_fits() -> None:
    """A bound that counts the budget applies only to schedules that fit it: naive needs 8 and gets 33 all the same."""
    tight = make_problem(devices=4, microbatches=8, budget=1)
    assert run(tight, "naive").bound.ticks == 33
    assert run(tight, "list").bound.ticks == 96


@pytest.mark.parametrize(("p2p", "path"), [(0, 12), (2, 24)])
def test_critical_path_by_hand(p2p: int, path: int) -> None:
    """One microbatch: 4 F, 4 B and 6 hops one after another."""
    outcome = run(make_problem(devices=4, microbatches=1, p2p=p2p), "1f1b")
    assert outcome.bound.ticks == outcome.schedule.makespan_ticks == path
    assert outcome.status == "optimal"


def test_pairs_lower_the_bound() -> None:
    """Overlap must be able to help: with pairs of 2, two microbatches on one device take 1 + 2 + 2, not 6."""
    problem = make_problem(devices=1, microbatches=2, overlap=2, placement="linear")
    plan = plan_of(problem, [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]])
    schedule = schedule_plan(problem, plan)
    assert schedule.makespan_ticks == 5
    assert lower_bound(schedule).ticks <= 5
    assert lower_bound(run(problem, "1f1b").schedule).ticks == 6


@examples(200)
@given(
    problems(SETTLED, overlap=True, most_devices=5, most_microbatches=9),
    randoms,
    st.sampled_from([0, 0.5, 1]),
    st.sampled_from([0, 0.5, 1]),
    st.booleans(),
)
@pytest.mark.slow
def test_never_above_a_legal_plan(
    problem: Problem, random: Random, split: float, pair: float, has_budget: bool
) -> None:
    """No legal plan (pairs, mixed backwards, any placement, with a budget that it just meets) is below its bound."""
    plan = plan_of(problem, random_plan(problem, random, split=split, pair=pair))
    schedule = schedule_plan(problem, plan)
    if has_budget:
        schedule = schedule_plan(with_capacities(problem, schedule.peak_grains), plan)
        assert schedule.fits
    assert 0 <= lower_bound(schedule).ticks <= schedule.makespan_ticks


@given(tiny, randoms)
def test_never_above_the_best_of_many_plans_with_pairs(problem: Problem, random: Random) -> None:
    """The bound of a plan that has a pair is at most the shortest of many random plans with any pairs."""
    assume(problem.microbatches >= 2 and problem.stages * problem.microbatches <= 6)
    plans = [plan_of(problem, random_plan(problem, random, pair=1)) for _ in range(12)]
    best = min(schedule_plan(problem, plan).makespan_ticks for plan in plans)
    assert all(bound_of(problem, plan) <= best for plan in plans if plan.pairs)


@given(problems(SETTLED, most_devices=2, most_microbatches=2, most_chunks=2, least=1))
def test_one_microbatch_is_exact(problem: Problem) -> None:
    """A single microbatch runs along its critical path, so the bound is the optimum, but where W may fill a wait."""
    one = replace(problem, microbatches=1)
    bound = bound_of(one, run(one, "list").schedule.plan)
    if one.costs.split:  # W is not divided over two waits, which a bound does not know
        assert bound <= (optimum(one, "FIW") or 0)
    else:
        assert bound == optimum(one, "FB")

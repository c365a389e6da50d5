"""Offload and recompute in the solver: proved optima, every way of tiny problems, what must hold on every answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Problem, make_problem, run, schedule_plan, solve
from pipesched.core.cpsat import Limits
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.lowering import plan_of_times
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.solver.model import recompute_offload_model
from pipesched.solver.recompute_offload import (
    RECOMPUTE as RECOMPUTE_RULE,
    RecomputeOffloadRule,
    RecomputeOffloadVariant,
    recompute_offload_rules,
    with_savings,
)
from tests.examples import examples, part
from tests.solver.every_way import least_makespan
from tests.strategies import SETTLED, problems, random_saving_plan, saving_plan_of, with_capacities

pytestmark = pytest.mark.slow

randoms = st.randoms(use_true_random=False)
OFFLOAD, RECOMPUTE, BOTH = MemorySavings(True, False), MemorySavings(False, True), MemorySavings(True, True)
actions = st.sampled_from([OFFLOAD, RECOMPUTE, BOTH])


def linear(devices: int, microbatches: int, budget: Any, **values: Any) -> Problem:
    """One stage a device, f=1, B=2."""
    given: dict[str, Any] = {
        "devices": devices, "microbatches": microbatches, "budget": budget, "forward": 1, "backward": 2,
    }  # fmt: skip
    return make_problem(**{**given, "placement": "linear", **values})


@pytest.mark.parametrize(
    ("problem", "allowed", "optimum"),
    [
        (linear(3, 4, 2, offload=3), OFFLOAD, 20),
        (linear(4, 8, 2, offload=1), OFFLOAD, 33),
        (linear(4, 8, 2, checkpoint=0), RECOMPUTE, 33),
        *(
            pytest.param(linear(8, 16, 4, offload=cost), which, 69, marks=pytest.mark.nightly)
            for cost, which in ((1, OFFLOAD), (2, BOTH))
        ),
    ],
)
def test_known_optima(problem: Problem, allowed: MemorySavings, optimum: int) -> None:
    """The proven optima of independent programs, reached and proved."""
    outcome = solve(problem, offload=allowed.offload, recompute=allowed.recompute, time_limit=60)
    assert (outcome.schedule.makespan_ticks, outcome.status, outcome.schedule.fits) == (optimum, "optimal", True)


def exact(problem: Problem, allowed: MemorySavings) -> int | None:
    """The optimum of the model alone, replayed."""
    case = RecomputeOffloadVariant(problem, "makespan", allowed)
    costs = [problem.ticks.of(letter) for letter in "ROL"]
    longest = sum(case.graph.durations) + problem.microbatches * sum(map(sum, costs))
    answer = recompute_offload_model(case, case.full, 0, longest).solve(Limits(60, workers=1))
    if answer.status == "infeasible":
        return None
    assert answer.status == "optimal"
    schedule = checked(case.replay([start * case.quantum for start in answer.starts]))
    assert schedule.fits
    assert answer.objective is not None
    assert schedule.makespan_ticks == answer.objective * case.quantum
    return schedule.makespan_ticks


@st.composite
def tiny(draw: st.DrawFn) -> Problem:
    """At most two devices and a few microbatches, a tight budget, whole costs."""
    devices = draw(st.integers(1, 2))
    few = st.integers(1, 3)
    return linear(
        devices,
        draw(st.integers(2, 4 if devices == 1 else 2)),
        draw(st.sampled_from([1, 1.25, 1.5, 2, 2.25])),
        forward=draw(st.lists(few, min_size=devices, max_size=devices)),
        backward=draw(st.sampled_from([2, 4])),
        recompute=draw(few),
        offload=draw(few),
        reload=draw(few),
        checkpoint=draw(st.sampled_from([0, 0.25, 0.5])),
    )


@part(2)
@given(tiny(), actions)
def test_the_model_finds_the_optimum(problem: Problem, allowed: MemorySavings) -> None:
    """Walking through every state of a tiny problem finds nothing shorter than the model, and nothing less."""
    letters = "R" * allowed.recompute + "O" * allowed.offload
    assert exact(problem, allowed) == least_makespan(problem, letters)


@pytest.mark.parametrize("budget", [1, 1.25, 1.5])
@pytest.mark.parametrize("retain", [0, 0.5, 1])
def test_the_model_of_a_split_backward(budget: float, retain: float) -> None:
    """With I and W, every answer keeps its memory in the replay, and more freedom is never worse."""
    problem = linear(
        2, 3, budget, backward=None, backward_input=1, backward_weight=1, retain=retain, offload=1, checkpoint=0.25
    )
    kept = solve(problem, time_limit=30).schedule.makespan_ticks
    offloaded, recomputed, both = (exact(problem, allowed) for allowed in (OFFLOAD, RECOMPUTE, BOTH))
    assert offloaded is not None
    assert recomputed is not None
    assert both is not None
    assert both <= min(offloaded, recomputed)
    assert max(offloaded, recomputed) <= kept


@part(4)
@given(problems(SETTLED, saving=True, most_devices=3, most_microbatches=3, most_chunks=2, least=1), actions)
def test_at_the_floor_something_is_found(problem: Problem, allowed: MemorySavings) -> None:
    """At the smallest budget that any order can keep, the portfolio has a schedule; all it has is legal and fits."""
    capacities = [least_capacity(problem, device, allowed) for device in range(problem.devices)]
    case = RecomputeOffloadVariant(with_capacities(problem, capacities), "makespan", allowed)
    candidates = list(case.ruled_candidates())
    assert any(candidate.schedule.fits for candidate in candidates)
    for candidate in (one for one in (*case.named_candidates(), *candidates) if one.schedule.fits):
        schedule = checked(candidate.schedule)
        assert case.value(schedule) >= case.bound().ticks
        assert schedule.plan.index == case.full


@pytest.mark.parametrize("allowed", [OFFLOAD, RECOMPUTE, BOTH])
@pytest.mark.parametrize("device", [0, 1])
def test_below_the_floor_the_model_has_no_schedule(allowed: MemorySavings, device: int) -> None:
    """At the floor of each device the exact model has a schedule; a grain below it on one, none."""
    problem = make_problem(
        devices=2, stages=4, microbatches=2, placement="loop", activation=[2, 3, 2, 1], checkpoint=0.5, offload=1
    )
    capacities = [least_capacity(problem, there, allowed) for there in range(2)]
    assert exact(with_capacities(problem, capacities), allowed) is not None
    capacities[device] -= 1
    assert exact(with_capacities(problem, capacities), allowed) is None


@examples(40)
@given(problems(SETTLED, saving=True, least=1), randoms, st.sampled_from([0, 1]))
def test_a_plan_of_times_keeps_times_and_memory(problem: Problem, random: Random, split: int) -> None:
    """From the times of any schedule comes a plan that starts nothing later and holds no more."""
    texts = random_saving_plan(problem, random, split=split, pair=0, recompute=0.3, offload=0.6, wait=0.5)
    schedule = schedule_plan(problem, saving_plan_of(problem, texts))
    again = checked(schedule_plan(problem, plan_of_times(problem, schedule.plan.index, schedule.start_ticks)))
    assert all(new <= old for new, old in zip(again.start_ticks, schedule.start_ticks, strict=True))
    assert all(new <= old for new, old in zip(again.peak_grains, schedule.peak_grains, strict=True))
    assert (again.recomputed, again.offloaded) == (schedule.recomputed, schedule.offloaded)


def test_a_hint_with_transfers() -> None:
    """A schedule that offloads may be where a solve begins."""
    problem = linear(4, 8, 2, offload=1)
    best = solve(problem, offload=True).schedule
    again = solve(problem, offload=True, hint=best, method="portfolio")
    assert again.schedule.makespan_ticks == 33
    with pytest.raises(ConfigError, match="hint: is of another model"):
        solve(problem, hint=best)


@pytest.mark.parametrize("rule", list(recompute_offload_rules(BOTH)), ids=str)
def test_savings_keep_the_order_and_the_budget(rule: RecomputeOffloadRule) -> None:
    """What a rule makes of naive, which holds eight, fits a budget of two, and runs naive's operations in its order."""
    problem = linear(2, 8, 2, offload=1, checkpoint=0.1)
    base = run(problem, "naive").schedule
    plan = with_savings(base, BOTH, rule)
    assert plan is not None
    schedule = checked(schedule_plan(base.problem, plan))
    assert schedule.fits
    for before, after in zip(base.plan.orders, plan.orders, strict=True):
        assert [number for number in after if number < base.plan.index.size] == list(before)
    assert (schedule.recomputed > 0) or (schedule.offloaded > 0)
    assert schedule.offloaded == 0 or rule.action != RECOMPUTE_RULE

"""Joined backwards: a W that directly follows its I runs with it as one whole backward, where that is shorter."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import run
from pipesched.schedulers.plan_of import joined, with_joins
from pipesched.schedulers.registry import algorithms
from tests.oracle.alike import replay
from tests.strategies import plan_of, problems, random_plan, texts_of

DEAR_HALVES: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}


def problem_of(**changes: Any) -> Problem:
    """Halves that take 3 where the whole takes 2."""
    return make_problem(**{"devices": 4, "microbatches": 8, **DEAR_HALVES, **changes})


@pytest.mark.parametrize(
    ("algorithm", "makespan", "joins"), [("1f1b", 33, 32), ("zb-h1", 36, 8), ("zb-h2", 35, 0), ("list", 32, 30)]
)
def test_goldens(algorithm: str, makespan: float, joins: int) -> None:
    """Where halves take 3 and the whole 2, families take these times, with so many backwards whole."""
    outcome = run(problem_of(), algorithm)
    assert (outcome.schedule.makespan, outcome.metrics["joined"]) == (makespan, joins)


def test_what_a_join_is() -> None:
    """A W right behind its I becomes one B; one that stands elsewhere does not."""
    problem = problem_of(devices=1, microbatches=2, placement="linear")
    plan = plan_of(problem, [["0F0", "0F1", "0I0", "0W0", "0I1", "0W1"]])
    assert texts_of(joined(problem, plan)) == [["0F0", "0F1", "0B0", "0B1"]]
    plan = plan_of(problem, [["0F0", "0F1", "0I0", "0I1", "0W0", "0W1"]])
    assert joined(problem, plan) is plan


def test_a_join_that_delays_a_gradient_is_undone() -> None:
    """The first stage waits for gradients of the second one, whose I is shorter than its B: some joins are undone."""
    costs = {"backward": 5, "backward_input": [4, 1], "backward_weight": 5}
    problem = problem_of(devices=2, microbatches=1, placement="linear", **costs)
    plan = plan_of(problem, [["0F0", "0I0", "0W0"], ["1F0", "1I0", "1W0"]])
    found = joined(problem, plan)
    assert texts_of(found) == [["0F0", "0B0"], ["1F0", "1I0", "1W0"]]
    assert schedule_plan(problem, found).makespan == 1 + 1 + 1 + 5


def test_memory_of_a_joined_backward() -> None:
    """A joined backward frees all of its activation at its end, and catches no gradients, as a whole one."""
    problem = problem_of(devices=1, microbatches=1, placement="linear", retain=1.5, activation=2)
    apart, whole = (plan_of(problem, [["0F0", *texts]]) for texts in (["0I0", "0W0"], ["0B0"]))
    assert schedule_plan(problem, apart).peak_memory == [3]
    assert schedule_plan(problem, whole).peak_memory == [2]
    half = problem_of(devices=1, microbatches=1, placement="linear", retain=0.5, activation=2)
    one = schedule_plan(half, plan_of(half, [["0F0", "0B0"]]))
    assert [grains for _, grains in one.memory_steps(0)] == [2, 2, 0]


@given(
    problems(("linear", "loop", "v", "bidirectional", "two-v"), both=True, unlike=True),
    st.randoms(use_true_random=False),
)
def test_never_longer(problem: Problem, random: Random) -> None:
    """The joined plan keeps every rule, has the same order, and is never longer than the plan as it is."""
    plan = plan_of(problem, random_plan(problem, random, split=1 if random.random() < 1 / 2 else 1 / 2))
    before, after = (schedule_plan(problem, one) for one in (plan, joined(problem, plan)))
    naive = replay(problem, texts_of(after.plan))
    assert (naive.makespan, naive.span, naive.busy) == (after.makespan_ticks, after.span_ticks, after.busy_ticks)
    assert naive.peak == after.peak_grains
    assert not [*violations(after)]
    assert after.makespan_ticks <= before.makespan_ticks
    rows = [[text.replace("B", "I") for text in row if "W" not in text] for row in texts_of(after.plan)]
    assert rows == [[text.replace("B", "I") for text in row if "W" not in text] for row in texts_of(plan)]


@given(
    problems(("linear",), most_devices=2, most_microbatches=2, most_chunks=1, both=True),
    st.randoms(use_true_random=False),
)
def test_no_longer_than_without_one_of_its_joins(problem: Problem, random: Random) -> None:
    """No single join of the answer can be undone to make it shorter."""
    plan = plan_of(problem, random_plan(problem, random, split=1))
    found = joined(problem, plan)
    joins = {one: plan.index.counterpart(one, "W") for one in plan.index.of_kind("I")}
    whole = {text for row in texts_of(found) for text in row if "B" in text}
    kept = {one: weight for one, weight in joins.items() if str(plan.index.op(one)).replace("I", "B") in whole}
    best = schedule_plan(problem, found).makespan_ticks
    for fewer in combinations(kept.items(), max(len(kept) - 1, 0)):
        assert schedule_plan(problem, with_joins(plan, dict(fewer))).makespan_ticks >= best


@given(problems(("linear",), both=True, most_microbatches=5), st.sampled_from([one.name for one in algorithms()]))
def test_families_are_never_longer_than_without_joins(problem: Problem, algorithm: str) -> None:
    """A family takes no longer than where the whole backward is not given, and none that splits nothing joins."""
    apart = replace(problem, placement=None, costs=replace(problem.costs, whole=None))
    both = replace(problem, placement=None)
    try:
        without, with_joins_ = (run(one, algorithm).schedule for one in (apart, both))
    except (ConfigError, NoSchedule):
        return
    kinds = {*without.plan.index.letters}
    if "B" not in kinds:
        ratio = with_joins_.problem.ticks.per_unit, without.problem.ticks.per_unit
        assert with_joins_.makespan_ticks * ratio[1] <= without.makespan_ticks * ratio[0]
    assert not [*violations(with_joins_)]


def test_a_v_is_drawn_for_its_halves() -> None:
    """A whole backward that is far from its halves changes no block, so the schedule with joins is no longer."""
    halves: dict[str, Any] = {
        "backward_input": [9, 0.25, 0.25, 9, 6.7, 2.75],
        "backward_weight": [1, 7, 2.75, 0.25, 2, 0.25],
    }
    both = {**halves, "forward": [2.75, 9, 3.4, 2.75, 2, 9], "p2p": [3.4, 2.2, 2.75, 0.25, 3]}
    sizes: dict[str, Any] = {"devices": 3, "stages": 6, "microbatches": 3}
    apart = run(make_problem(**sizes, **both), "zb-v").metrics["makespan"]
    joined_ = run(make_problem(**sizes, **both, backward=[8, 1, 4.3, 8, 0.25, 2.75]), "zb-v").metrics["makespan"]
    assert joined_ <= apart


def test_a_length_of_the_other_way_is_found() -> None:
    """The check knows both lengths: B as long as both halves, or an I as long as B, breaks a rule."""
    problem = problem_of(devices=1, microbatches=2, placement="linear")
    plan = plan_of(problem, [["0F0", "0F1", "0B0", "0I1", "0W1"]])
    schedule = schedule_plan(problem, plan)
    assert not [*violations(schedule)]
    by_name = {text: number for number, text in zip(plan.orders[0], texts_of(plan)[0], strict=True)}
    for text, more in (("0B0", 10), ("0I1", 5)):
        ends, starts = [*schedule.end_ticks], [*schedule.start_ticks]
        for other in ("0B0", "0I1", "0W1")[("0B0", "0I1").index(text) :]:
            ends[by_name[other]] += more
            starts[by_name[other]] += more * (other != text)
        wrong = [*violations(Schedule(problem, plan, starts, ends))]
        assert wrong == [f"{text} lasts {3 if text == '0B0' else 2}, not {2 if text == '0B0' else 1.5}"]


def test_a_budget_is_kept() -> None:
    """Joins that would hold more than a budget, which the plan keeps, are not made."""
    problem = problem_of(devices=2, microbatches=6, retain=0, budget=2)
    outcome = run(problem, "zb-auto")
    assert outcome.schedule.fits


def test_two_costs_join_nothing() -> None:
    """Where a whole backward is given alone, or its halves, or as their sum, no plan changes."""
    plan: Plan = run(problem_of(backward=None), "zb-h1").schedule.plan
    for changes in ({"backward": None}, {"backward": 3}):
        problem = problem_of(**changes)
        assert not problem.costs.chooses
        assert texts_of(run(problem, "zb-h1").schedule.plan) == texts_of(plan)

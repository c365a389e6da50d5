"""`solve` where the whole backward stands beside its halves: each backward runs the way that serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import ConfigError, NoSchedule, NotApplicable, Problem, Status, algorithms, make_problem, run, solve
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.solver.feasible import variants_of
from tests.examples import at_night_but, part
from tests.oracle.alike import setup_of
from tests.oracle.optimum import optimum_of_choices
from tests.strategies import problems, with_capacities

ALL_THREE: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}


def problem_of(**changes: Any) -> Problem:
    return make_problem(**{"devices": 4, "microbatches": 8, **ALL_THREE, **changes})


@pytest.mark.parametrize("microbatches", at_night_but((4,), (4, 8)))
@pytest.mark.parametrize(("split", "makespans"), [(None, (18.5, 30.5)), (False, (21, 33)), (True, (20.5, 35))])
def test_goldens(split: bool | None, makespans: tuple[float, float], microbatches: int) -> None:
    """Each of both ways is longer than the choice between them, which is proved to be best."""
    makespan = makespans[microbatches == 8]
    outcome = solve(problem_of(microbatches=microbatches), split_backward=split, time_limit=60, workers=2, advice=False)
    assert (outcome.schedule.makespan, outcome.status) == (makespan, Status.OPTIMAL)
    assert not [*violations(outcome.schedule)]


@part(2)
@given(
    problems(
        ("linear", "loop", "v", "bidirectional", "two-v"),
        most_devices=2,
        most_microbatches=2,
        most_chunks=2,
        least=1,
        both=True,
        unlike=True,
    ),
    st.data(),
)
def test_the_optimum_of_tiny_problems(problem: Problem, data: st.DataObject) -> None:
    """What solve proves, with a budget or without, is the least over all choices and all orders."""
    assume(problem.stages * problem.microbatches <= 4)
    if data.draw(st.booleans()):
        floors = [least_capacity(problem, device) for device in range(problem.devices)]
        most = 3 * problem.microbatches * max(problem.grains.largest["activation"])
        problem = with_capacities(problem, [data.draw(st.integers(least, max(least, most))) for least in floors])
    best = optimum_of_choices(setup_of(problem))
    try:
        outcome = solve(problem, time_limit=20, workers=1, advice=False)
    except NoSchedule:
        assert best is None
        return
    assert not [*violations(outcome.schedule)]
    assert best is not None
    assert outcome.status == Status.OPTIMAL
    assert outcome.schedule.makespan_ticks == best * problem.ticks.per_unit


@given(problems(("linear", "loop"), most_devices=2, most_microbatches=2, most_chunks=1, both=True, unlike=True))
def test_bounds_are_never_above_the_optimum(problem: Problem) -> None:
    """Neither the bound of a case that chooses, nor that of a family's own kinds, is above what they bound."""
    assume(problem.stages * problem.microbatches <= 4)
    best = optimum_of_choices(setup_of(problem))
    assert best is not None
    (case,) = variants_of(problem, None, KEEP_ONLY)
    assert case.bound().ticks <= best * problem.ticks.per_unit


def test_ticks_of_either_way_are_not_those_of_both() -> None:
    """A whole backward of 1 beside halves of 0 and 2: the step takes 1, though halves alone take a multiple of 2."""
    costs: dict[str, Any] = {"forward": 0, "backward": 1, "backward_input": 0, "backward_weight": 2}
    found = solve(make_problem(devices=1, microbatches=1, **costs), time_limit=20, workers=1, advice=False)
    assert (found.status, found.schedule.makespan, found.report and found.report.bound.value) == (Status.OPTIMAL, 1, 1)


@part(4)
@given(problems(both=True, most_devices=3, most_microbatches=5, most_chunks=2, least=1), st.booleans())
def test_never_longer_than_a_family(problem: Problem, is_limited: bool) -> None:
    """An answer by heuristics alone is no longer than any family that has the placement, nor than either way."""
    problem = replace(problem, placement=None)
    if is_limited:
        held = run(problem, "1f1b").schedule if problem.stages == problem.devices else None
        budget = max(held.memory) if held and max(held.memory) > 0 else None
        problem = (
            problem
            if budget is None
            else replace(problem, memory=replace(problem.memory, budget=(budget,) * problem.devices))
        )
    try:
        found = solve(problem, method="portfolio", time_limit=30, advice=False)
    except (NoSchedule, NotApplicable):
        return
    per_unit = found.problem.ticks.per_unit
    for family in algorithms():
        if family.required or family.placement in ("any", "bidirectional"):
            continue
        try:
            schedule = run(problem, family.name).schedule
        except (ConfigError, NoSchedule):
            continue
        if schedule.fits:
            least = found.schedule.makespan_ticks * schedule.problem.ticks.per_unit
            assert least <= schedule.makespan_ticks * per_unit, family.name
    assert not [*violations(found.schedule)]


BESIDE: list[dict[str, Any]] = [
    {"offload": 0.5, "budget": 2.5, "allowed": {"offload": True}},
    {"checkpoint": 0.1, "budget": 2.5, "allowed": {"recompute": True}},
    {"optimizer": 1, "reduce": 1, "weights": 1, "gradients": 1},
    {"slices": 2},
    {"sizes": {"work": [1, 2, 1, 3]}},
    {"retain": 1.5, "budget": 4},
]


@pytest.mark.parametrize("more", at_night_but(BESIDE[3:4], BESIDE))
def test_everything_else_goes_along(more: dict[str, Any]) -> None:
    """With savings, a step, slices and the like, heuristics find nothing longer than for either way alone."""
    allowed = more.get("allowed", {})
    problem = problem_of(devices=3, microbatches=4, **{key: value for key, value in more.items() if key != "allowed"})
    choice, *others = (
        solve(problem, split_backward=way, method="portfolio", time_limit=300, advice=False, **allowed)
        for way in (None, False, True)
    )
    assert not [*violations(choice.schedule)]
    assert choice.schedule.fits
    assert choice.schedule.makespan <= min(one.schedule.makespan for one in others)
    assert choice.lower_bound <= choice.schedule.makespan


@pytest.mark.parametrize("more", [{"optimizer": 1, "reduce": 1}])
def test_exact_models_of_either_way(more: dict[str, Any]) -> None:
    """Where no exact model chooses, those of both ways are solved: nothing is longer than what each of them proves."""
    problem = problem_of(devices=2, microbatches=2, **more)
    choice, *others = (
        solve(problem, split_backward=way, time_limit=60, workers=1, advice=False) for way in (None, False, True)
    )
    assert {one.status for one in others} == {Status.OPTIMAL}
    assert choice.schedule.makespan <= min(one.schedule.makespan for one in others)

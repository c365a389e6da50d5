"""Plans of families for problems with a step: passes alone, within a budget that the step uses too."""

from __future__ import annotations

from typing import Any

import pytest

from pipesched import make_problem, run
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.plan_of import of_passes, plan_of
from pipesched.schedulers.registry import algorithms, family

GIVEN: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "forward": 5, "backward_input": 6, "backward_weight": 4,
    "static": 1, "weights": 2, "gradients": 1.5, "states": 0.25, "gather": 3, "reduce": 4,
    "shard": {"level": "weights", "ranks": 8},
}  # fmt: skip


def problem_with(**more: Any) -> Problem:
    return make_problem(**GIVEN, placement="linear", **more)


@pytest.mark.parametrize("budget", [20, 20.3])
def test_passes_keep_what_stays(budget: float) -> None:
    """What stays of weights, gradients and states is the static memory of the passes; scales are the same."""
    problem = problem_with(budget=budget)
    passes = of_passes(problem, [0] * 4)
    assert not passes.has_step
    assert (passes.ticks.per_unit, passes.grains.per_unit) == (problem.ticks.per_unit, problem.grains.per_unit)
    assert passes.capacity_grains == problem.capacity_grains
    assert of_passes(problem, [3] * 4).capacity_grains == tuple(room - 3 for room in problem.capacity_grains if room)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-auto", "list"])
def test_families_order_passes(name: str) -> None:
    """The order of a family is that without the step."""
    problem = problem_with()
    bare = make_problem(**{key: GIVEN[key] for key in list(GIVEN)[:5]}, placement="linear")
    plans = plan_of(family(name), problem), family(name).plan(bare)
    assert [*map(list, plans[0].orders)] == [*map(list, plans[1].orders)]


@pytest.mark.parametrize("name", [one.name for one in algorithms() if one.obeys_budget])
@pytest.mark.parametrize("budget", [8.5, 10, 12])
def test_budgets_count_what_comes_over_time(name: str, budget: float) -> None:
    """Families that obey a budget keep it with whole weights and gradients, and use less of it than without."""
    schedule = run(problem_with(budget=budget), name).schedule
    assert schedule.fits
    assert max(schedule.peak_of("weights")) == 2

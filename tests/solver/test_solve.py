"""The best schedule under a budget: published and brute-force optima, and what must hold on every answer."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import (
    ConfigError,
    Event,
    Outcome,
    Problem,
    SolveReport,
    check,
    make_problem,
    plan,
    run,
    schedule_plan,
    solve,
)
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from pipesched.schedulers.registry import FAMILIES
from pipesched.solver.recompute_offload import PlainVariant
from plain_model import plain_model
from tests.examples import part
from tests.oracle.alike import replay
from tests.strategies import problems, texts_of, with_capacities

FUSED: dict[str, Any] = {"forward": 1, "backward": 2}
UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
LATENT: dict[str, Any] = {"forward": 2, "backward": 4, "p2p": 1}
HALF_RETAINED: dict[str, Any] = {
    "forward": 5, "backward_input": 6, "backward_weight": 4,
    "retain": Decimal("0.5"), "activation": 2, "microbatches": 12,
}  # fmt: skip


def linear(**values: Any) -> Problem:
    """Four devices with a stage each and eight microbatches, unless said otherwise; an activation is 1."""
    return make_problem(**{"devices": 4, "microbatches": 8, "placement": "linear", "activation": 1, **values})


def report_of(outcome: Outcome) -> SolveReport:
    assert outcome.report is not None
    return outcome.report


KNOWN: list[tuple[str, int | None, int, dict[str, Any]]] = [  # objective, budget, optimum, costs and the like
    *[("makespan", k, best, FUSED) for k, best in {1: 96, 2: 51, 3: 39, 4: 33, 5: 33}.items()],
    *[("makespan", k, best, UNIT) for k, best in {1: 72, 2: 41, 3: 31, 4: 27, 5: 27}.items()],
    *[("span", k, best, UNIT) for k, best in {2: 41, 3: 31, 4: 27, 5: 26, 6: 25, 7: 24}.items()],
    *[("makespan", k, best, LATENT) for k, best in {4: 80, 5: 74, 6: 72}.items()],
    *[("makespan", k, best, {**FUSED, "devices": 3, "microbatches": 6}) for k, best in {1: 54, 2: 30, 3: 24}.items()],
    *[("makespan", k, best, HALF_RETAINED) for k, best in {8: 201, 14: 195}.items()],
    ("makespan", 2, 101, {**UNIT, "stages": 8, "placement": "v"}),
    ("makespan", 8, 51, {**UNIT, "stages": 8, "placement": "v"}),
    ("makespan", 3, 114, {**FUSED, "stages": 8, "placement": "loop"}),
    ("makespan", 4, 87, {**FUSED, "stages": 8, "placement": "loop"}),
    ("makespan", 8, 57, {**FUSED, "stages": 8, "placement": "loop"}),
    ("makespan", None, 285, {"forward": 5, "backward": 10, "stages": 8, "placement": "loop"}),
    ("makespan", 4, 105, {**FUSED, "devices": 8, "microbatches": 16}),
]
OPTIMA = [
    case if place % 3 == 0 else pytest.param(*case, marks=pytest.mark.nightly) for place, case in enumerate(KNOWN)
]


@pytest.mark.parametrize(("objective", "budget", "best", "values"), OPTIMA)
@pytest.mark.slow
def test_proven_optima(objective: str, budget: int | None, best: int, values: dict[str, Any]) -> None:
    """Optima that another program proved."""
    report = report_of(solve(linear(**values, budget=budget), objective=objective))
    assert (report.value_ticks, report.bound.ticks, report.status, report.stopped_by) == (
        best, best, "optimal", "proof",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("best", "values"),
    [
        (13095, {"devices": 8, "microbatches": 24, "forward": 185, "backward_input": 181, "backward_weight": 93,
                 "p2p": 6, "budget": 8}),
        (207, {"devices": 16, "microbatches": 64, **UNIT, "budget": 16}),
        (2970, {"devices": 16, "microbatches": 64, "forward": 10, "backward": 20, "budget": 12}),
        (2730, {"devices": 8, "microbatches": 64, "forward": 10, "backward": 20, "budget": 6}),
    ],
)  # fmt: skip
def test_large_optima_that_bounds_prove(best: int, values: dict[str, Any]) -> None:
    """Bounds under the budget and the portfolio settle cases on which a plain CP-SAT model does not end."""
    report = report_of(solve(linear(**values), method="portfolio"))
    assert (report.value_ticks, report.bound.ticks, report.status) == (best, best, "optimal")


PLACEMENTS = ("linear", "loop", "v", "wave", "bidirectional", "two-v", "explicit")


@st.composite
def tight(draw: st.DrawFn, least: int = 0, most: int = 12) -> Problem:
    """A tiny problem with a budget somewhere between its floor and twice that, on any placement."""
    problem = draw(problems(PLACEMENTS, most_devices=3, most_microbatches=3, most_chunks=2, least=least))
    while problem.stages * problem.microbatches > most and problem.microbatches > 1:
        problem = replace(problem, microbatches=problem.microbatches - 1)
    capacities = [least_capacity(problem, device) for device in range(problem.devices)]
    return with_capacities(problem, [capacity + draw(st.integers(0, capacity)) for capacity in capacities])


def test_a_device_may_begin_later_to_have_a_shorter_span() -> None:
    """With its second microbatch, before the first is there to run: 45.75, and 46.5 where microbatches are in order."""
    costs = {"forward": [7, 1.25], "backward_input": 5, "backward_weight": [1.25, 9], "p2p": 2.75}
    problem = linear(devices=2, microbatches=3, activation=0, **costs)
    rows = ["0F0 0F1 0F2 0I1 0W1 0I0 0W0 0I2 0W2", "1F1 1F0 1I1 1I0 1F2 1I2 1W1 1W0 1W2"]
    assert schedule_plan(problem, plan(problem, rows)).span == 45.75
    report = report_of(solve(problem, objective="span"))
    assert (report.bound.value, report.status) == (45.75, "feasible")


@given(tight())
@part(2)
@pytest.mark.slow
def test_what_holds_on_every_answer(problem: Problem) -> None:
    """Every rule is kept, times are the plan's own replay, the budget holds, no bound is above the makespan."""
    outcome = solve(problem, workers=1)
    schedule = outcome.schedule
    assert not list(violations(schedule))
    assert schedule.fits
    again = replay(schedule.problem, texts_of(schedule.plan))
    assert (again.makespan, again.span) == (schedule.makespan_ticks, schedule.span_ticks)
    assert outcome.bound.ticks <= schedule.makespan_ticks
    assert report_of(outcome).value_ticks == schedule.makespan_ticks


@given(tight(most=6))
@part(4)
def test_span_equals_the_plain_model(problem: Problem) -> None:
    """A CP-SAT model without bounds, capacity edges or hints has the least span that is proved once all is tried."""
    from pipesched.core.cpsat import Limits

    case = PlainVariant(problem, "span")
    most = sum(case.graph.durations) + sum(problem.ticks.mean["p2p"]) * 2 * problem.microbatches
    plain = plain_model(case, 0, most).solve(Limits(5, workers=1))
    if plain.status != "optimal":
        return
    report = report_of(solve(problem, objective="span", workers=1))
    assert plain.objective is not None
    assert report.bound.ticks <= plain.objective * case.quantum <= report.value_ticks
    if report.stopped_by in ("proof", "search"):
        assert report.bound.ticks == plain.objective * case.quantum


def test_settled_without_cpsat() -> None:
    """A solve that bounds and portfolio settle does not load OR-Tools."""
    import subprocess
    import sys

    code = "import sys, pipesched; pipesched.solve(pipesched.make_problem(devices=4)); print('ortools' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.nightly
def test_auto_takes_the_best_placement() -> None:
    """Over linear, loop and v at a budget of 3: v and split backwards win, each placement alone is no better."""
    values: dict[str, Any] = {"devices": 4, "stages": 8, "microbatches": 4, **UNIT, "budget": 2}
    best = report_of(solve(make_problem(**values)))
    assert best.placements == ("linear", "loop", "v")
    assert best.status == "optimal"
    single = [report_of(solve(make_problem(**values), placement=[name])).value for name in best.placements]
    assert best.value == min(single)


def test_a_split_backward_is_no_worse() -> None:
    """`split_backward` on costs that give the whole backward: budget 4 takes 27 where the whole one takes 33."""
    problem = linear(**FUSED, budget=4)
    assert report_of(solve(problem)).value == 33
    assert report_of(solve(problem, split_backward=True)).value == 27
    assert report_of(solve(linear(**UNIT, budget=4), split_backward=False)).value == 33


@pytest.mark.slow
def test_overlapped_pairs_are_kept() -> None:
    """Where pairs are shorter than their parts, schedules with pairs compete, and no bound without pairs proves."""
    problem = linear(forward=1, backward=2, overlap=2, microbatches=12)
    outcome = solve(problem, time_limit=2)
    assert outcome.schedule.makespan_ticks <= run(problem, "1f1b-overlap").schedule.makespan_ticks
    assert outcome.bound.ticks <= outcome.schedule.makespan_ticks


def test_a_hint_is_taken() -> None:
    """A good schedule given as a hint is the answer when the portfolio knows no better."""
    problem = linear(**UNIT, budget=3)
    best = solve(problem)
    again = solve(problem, hint=best.schedule, method="portfolio")
    assert report_of(again).value == 31
    assert report_of(again).source in ("hint", *FAMILIES)
    with pytest.raises(ConfigError, match="hint: is of another model"):
        solve(replace(problem, microbatches=9), hint=best.schedule)


def test_events_tell_better_schedules_and_bounds() -> None:
    """Values fall, bounds rise, and the last event is the answer."""
    events: list[Event] = []
    report = report_of(solve(linear(**UNIT, budget=3), listener=events.append))
    values = [event.value for event in events if event.value is not None]
    assert values == sorted(values, reverse=True)
    assert [event.bound for event in events] == sorted(event.bound for event in events)
    assert (values[-1], events[-1].bound) == (report.value_ticks, report.bound.ticks)


@pytest.mark.slow
def test_large_cases_have_something_to_show_soon() -> None:
    """A schedule in one pass, then one list schedule of each placement come before the algorithms that take long."""
    events: list[Event] = []
    problem = make_problem(devices=4, stages=8, microbatches=64, **UNIT, budget=3)
    solve(problem, listener=events.append, method="portfolio", time_limit=2)
    stages = list(dict.fromkeys(event.step for event in events))
    assert stages[:5] == [
        "first schedule, linear",
        "bounds",
        *(f"quick schedules, {name}" for name in ("linear", "loop", "v")),
    ]
    assert all(event.value for event in events if event.step.startswith("portfolio"))


def test_the_gap_is_relative_to_the_bound_in_every_stage() -> None:
    """A search that ends because its gap is good enough has it to the bound (CP-SAT takes it of the objective)."""
    problem = linear(stages=8, placement="loop", forward=5, backward=10, activation=0.5, budget=2)
    report = report_of(solve(problem, gap=0.2))
    assert report.stopped_by in ("gap", "proof")
    assert report.gap <= 0.2


def test_a_budget_that_only_some_placements_keep() -> None:
    """One stage of device 0 is too large to lie beside another: placements that pair it so are left out."""
    problem = make_problem(devices=2, stages=4, microbatches=2, activation=[1, 1, 1, 4], budget=[2, 5], forward=1)
    report = report_of(solve(problem))
    assert report.placements == ("linear", "loop")


# Weight gradients that wait with more than the activation (`retain` above 1): what is optimal, and who obeys.

UNIT_retained: dict[str, Any] = {
    "devices": 4,
    "microbatches": 8,
    "forward": 1,
    "backward_input": 1,
    "backward_weight": 1,
}


@pytest.mark.parametrize(("budget", "best"), [(1.5, 72), (2.5, 41), (4.5, 28)])
def test_the_optimum_under_a_budget(budget: float, best: int) -> None:
    """P4 M8, f = b = w = 1, half an activation beside each that waits for W: proved, and within the budget."""
    outcome = solve(make_problem(**UNIT_retained, retain=1.5, budget=budget), time_limit=30)
    assert (outcome.schedule.makespan, outcome.status) == (best, "optimal")
    naive = replay(outcome.problem, texts_of(outcome.schedule.plan))
    assert naive.makespan == best
    assert max(naive.peak) <= Fraction(budget) * outcome.problem.grains.per_unit
    assert check(outcome) == []

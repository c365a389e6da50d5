"""ZB-auto: published and proven figures, the memory limit, and what its greedy promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pipesched import ConfigError, NoSchedule, Plan, Problem, make_problem, run
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.results.outcome import Outcome
from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.oracle.alike import replay
from tests.strategies import limited, texts_of

UNIT: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 1, "backward_input": 1, "backward_weight": 1}
MIDDLE: dict[str, Any] = {
    "devices": 8, "microbatches": 24, "forward": 185, "backward_input": 181, "backward_weight": 93, "p2p": 6,
}  # fmt: skip
UNEVEN = {
    "devices": 8,
    "microbatches": 32,
    "forward": [30715, 29233, 29106, 29078, 28850, 28919, 28924, 41678],
    "backward_input": [31308, 29344, 29357, 29455, 29217, 29384, 29354, 38731],
    "backward_weight": [18746, 18789, 19062, 19367, 19455, 19967, 20096, 32833],
    "p2p": 473,
    "activation": [943, 1240, 1240, 1240, 1240, 1240, 1240, 1071],
}
RETAINED = {
    "devices": 4, "microbatches": 12, "forward": 5, "backward_input": 6, "backward_weight": 4, "activation": 2,
    "retain": 0.5,
}  # fmt: skip


def auto(objective: str, **values: Any) -> Outcome:
    """zb-auto on a problem, which must fit its budget."""
    outcome = run(make_problem(**values), "zb-auto", objective=objective)
    assert outcome.schedule.fits
    return outcome


@pytest.mark.parametrize(("budget", "span"), [(2, 41), (3, 31), (4, 27), (5, 26), (6, 25), (7, 24), (8, 24)])
def test_spans_that_are_proved_optimal(budget: int, span: int) -> None:
    """P4 M8 at unit costs: every budget's proven optimum; no idle time in the span from 7 activations on."""
    schedule = auto("span", budget=budget, **UNIT).schedule
    assert schedule.span_ticks == span
    assert (schedule.bubble_span == 0) == (budget >= 7)


@pytest.mark.parametrize(
    ("problem", "budget", "makespan"),
    [
        *((UNIT, budget, makespan) for budget, makespan in ((1, 72), (2, 41), (3, 31), (4, 27), (8, 27))),
        *((RETAINED, budget, makespan) for budget, makespan in ((8, 201), (10, 195), (14, 195))),
        *((MIDDLE, budget, makespan) for budget, makespan in ((8, 13095), (16, 12353))),
        *((UNEVEN, periods * 1240, 3831880) for periods in (8, 16)),
    ],
)
def test_makespans_that_are_proved_optimal(problem: dict[str, Any], budget: int, makespan: int) -> None:
    """Proven optima for unit costs, for activations of which I frees half, with p2p, and for uneven stages."""
    assert auto("makespan", budget=budget, **problem).schedule.makespan_ticks == makespan


def test_objectives_differ() -> None:
    """Each objective is the better one by its own measure where the two disagree."""
    by_span, by_makespan = (auto(goal, budget=10, **RETAINED).schedule for goal in ("span", "makespan"))
    assert by_makespan.makespan_ticks == 195
    assert by_span.span_ticks < by_makespan.span_ticks


def test_the_default_limit_is_two_p() -> None:
    """Without a budget a device holds at most 2P activations of the largest stage, and uses more than P of them."""
    outcome = run(make_problem(**{**UNIT, "microbatches": 40}), "zb-auto")
    assert outcome.schedule.bubble_span == 0
    assert 4 < max(outcome.schedule.peak_grains) <= 8
    free = run(make_problem(**{**UNIT, "microbatches": 40, "budget": 8}), "zb-auto")
    assert texts_of(free.schedule.plan) == texts_of(outcome.schedule.plan)


def test_a_budget_below_one_microbatch() -> None:
    """The answer is no, with the device, the floor and what would fit."""
    problem = make_problem(**UNIT, activation=[1, 1, 3, 1], static=1, budget=[2, 2, 3.5, 2])
    with pytest.raises(NoSchedule, match=r"device 2 needs a budget of at least 4 microbatch") as caught:
        run(problem, "zb-auto")
    assert (caught.value.device, caught.value.floor, caught.value.budget) == (2, 4, 3.5)
    assert caught.value.would_fit == ("a budget of 4 microbatch on device 2",)


def test_an_objective_that_does_not_exist() -> None:
    """Bad input names what is valid."""
    with pytest.raises(ConfigError, match=r"unknown objective 'spam'; did you mean 'span'.*span, makespan"):
        auto("spam", **UNIT)


@settings(deadline=None)
@given(limited(), st.sampled_from(["span", "makespan"]))
@pytest.mark.slow
def test_never_over_budget_nor_worse_than_what_fits(problem: Problem, objective: str) -> None:
    """The naive replay agrees, the check passes, the peaks fit, and ZB-H1, ZB-H2 and 1F1B that fit are no better."""
    schedule = run(problem, "zb-auto", objective=objective).schedule
    naive = replay(schedule.problem, texts_of(schedule.plan))
    assert list(violations(schedule)) == []
    assert all(
        peak <= capacity
        for peak, capacity in zip(naive.peak, problem.capacity_grains, strict=True)
        if capacity is not None
    )
    for name in ("zb-h1", "zb-h2", "1f1b"):
        other = run(problem, name).schedule
        if other.fits and not (name == "1f1b" and any(problem.grains.largest["caught"])):
            assert getattr(naive, objective) <= getattr(other, f"{objective}_ticks")


@st.composite
def switches_for(draw: st.DrawFn, problem: Problem) -> Switches:
    """Any setting of the greedy."""
    flights = draw(st.lists(st.integers(1, 9), min_size=problem.devices, max_size=problem.devices))
    first, later, weight = (draw(st.integers(0, 5)) for _ in range(3))
    return Switches(flights, draw(st.booleans()), first, later, weight)


@settings(deadline=None)
@given(st.data())
def test_the_greedy_always_ends_within_its_rooms(data: st.DataObject) -> None:
    """Whatever the switches and the rooms: every operation once, in an order that runs and fits."""
    problem = data.draw(limited())
    capacities = [capacity if capacity is not None else 0 for capacity in problem.capacity_grains]
    orders = greedy_orders(problem, capacities, data.draw(switches_for(problem)))
    schedule = schedule_plan(problem, Plan(OpIndex("FIW", problem.stages, problem.microbatches), orders))
    assert list(violations(schedule)) == []
    assert schedule.fits

"""Offload and recompute in the solver: proved optima, every way of tiny problems, what must hold on every answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipesched.core.cpsat import Limits
from pipesched.core.timing import UNTIMED
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.capacity import order_edges
from pipesched.pipeline.check import checked
from pipesched.pipeline.floor import Relief, activation_floor
from pipesched.pipeline.problem import Problem, make_problem
from pipesched.pipeline.schedule import schedule_plan
from pipesched.pipeline.waits import plan_of_times
from pipesched.solver.saving import saving_bound, saving_by_names, saving_by_rules
from pipesched.solver.solve import solve
from pipesched.solver.transfers import SavingCase, SavingModel, saving_model
from tests.solver.every_way import least_makespan
from tests.strategies import SETTLED, problems, random_saving_plan, saving_plan_of, with_rooms

randoms = st.randoms(use_true_random=False)
OFFLOAD, RECOMPUTE, BOTH = Relief(offload=True), Relief(recompute=True), Relief(offload=True, recompute=True)
reliefs = st.sampled_from([OFFLOAD, RECOMPUTE, BOTH])


def linear(devices: int, microbatches: int, budget: Any, **values: Any) -> Problem:
    """One stage a device, f=1, B=2."""
    given = {"devices": devices, "microbatches": microbatches, "budget": budget, "forward": 1, "backward": 2}
    return make_problem(**{**given, "placement": "linear", **values})


@pytest.mark.parametrize(
    ("problem", "relief", "optimum"),
    [
        (linear(3, 4, 2, offload=3), OFFLOAD, 20),
        (linear(4, 8, 2, offload=1), OFFLOAD, 33),
        (linear(4, 8, 2, checkpoint=0), RECOMPUTE, 33),
        (linear(8, 16, 4, offload=1), OFFLOAD, 69),
        (linear(8, 16, 4, offload=2), BOTH, 69),
    ],
)
def test_known_optima(problem: Problem, relief: Relief, optimum: int) -> None:
    """The proven optima of independent programs, reached and proved."""
    outcome = solve(problem, offload=relief.offload, recompute=relief.recompute, time_limit=60)
    assert (outcome.schedule.makespan, outcome.status, outcome.schedule.fits) == (optimum, "optimal", True)


def test_a_checkpoint_that_stays_costs_two_ticks() -> None:
    """P4 budget 2: 33 at checkpoint 0, 35 at 0.1, which the portfolio reaches."""
    case = SavingCase(linear(4, 8, 2, checkpoint=0.1), "makespan", RECOMPUTE)
    assert min(case.value(find.schedule) for find in saving_by_rules(case)) == 35
    assert saving_bound(case).ticks == 33


def test_microbatches_in_order_would_cost_a_tick() -> None:
    """With every row in the order of microbatches, the first of the known optima is 21, not 20."""
    case = SavingCase(linear(3, 4, 2, offload=3), "makespan", OFFLOAD)
    model = saving_model(case, 0, 40)
    for edge in order_edges(case.problem, case.index):
        for before, after in zip(edge.before, edge.after, strict=True):
            model.after(before, after)
    assert model.solve(Limits(60)).objective == 21


def exact(problem: Problem, relief: Relief) -> int | None:
    """The optimum of the model alone, replayed."""
    case = SavingCase(problem, "makespan", relief)
    costs = (problem.costs.recompute, problem.costs.offload or (), problem.costs.reload or ())
    longest = sum(case.graph.durations) + problem.microbatches * sum(map(sum, costs))
    answer = saving_model(case, 0, longest).solve(Limits(60, workers=1))
    if answer.status == "infeasible":
        return None
    assert answer.status == "optimal"
    schedule = checked(case.replay([start * case.quantum for start in answer.starts]))
    assert schedule.fits
    assert answer.objective is not None
    assert schedule.makespan == answer.objective * case.quantum
    return schedule.makespan


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
        lanes=draw(st.sampled_from(["device", "pair"])),
    )


@settings(max_examples=25)
@given(tiny(), reliefs)
def test_the_model_finds_the_optimum(problem: Problem, relief: Relief) -> None:
    """Walking through every state of a tiny problem finds nothing shorter than the model, and nothing less."""
    letters = "R" * relief.recompute + "O" * relief.offload
    assert exact(problem, relief) == least_makespan(problem, letters)


@settings(max_examples=25)
@given(tiny(), reliefs)
def test_the_bound_is_below_the_optimum(problem: Problem, relief: Relief) -> None:
    """The bound on a case with relief counts how short residences may be made, not how long they are without it."""
    optimum = least_makespan(problem, "R" * relief.recompute + "O" * relief.offload)
    assert optimum is not None
    assert saving_bound(SavingCase(problem, "makespan", relief)).ticks <= optimum


@pytest.mark.parametrize("budget", [1, 1.25, 1.5])
@pytest.mark.parametrize("retain", [0, 0.5, 1])
def test_the_model_of_a_split_backward(budget: float, retain: float) -> None:
    """With I and W, every answer keeps its memory in the replay, and more freedom is never worse."""
    problem = linear(
        2, 3, budget, backward=None, backward_input=1, backward_weight=1, retain=retain, offload=1, checkpoint=0.25
    )
    kept = solve(problem, time_limit=30).schedule.makespan
    offloaded, recomputed, both = (exact(problem, relief) for relief in (OFFLOAD, RECOMPUTE, BOTH))
    assert offloaded is not None
    assert recomputed is not None
    assert both is not None
    assert both <= min(offloaded, recomputed)
    assert max(offloaded, recomputed) <= kept


def test_span() -> None:
    """The objective may be the span; its own device's first start counts."""
    outcome = solve(linear(2, 3, 1, offload=1), offload=True, objective="span", time_limit=30)
    assert outcome.status == "optimal"
    assert outcome.report is not None
    assert outcome.report.value == outcome.schedule.span


@settings(max_examples=20)
@given(problems(SETTLED, saving=True, most_devices=3, most_microbatches=3, most_chunks=2, least=1), reliefs)
def test_at_the_floor_something_is_found(problem: Problem, relief: Relief) -> None:
    """At the smallest budget that any order can keep, the portfolio has a schedule; all it has is legal and fits."""
    rooms = [activation_floor(problem, device, relief) for device in range(problem.devices)]
    case = SavingCase(with_rooms(problem, rooms), "makespan", relief)
    finds = list(saving_by_rules(case))
    assert any(find.schedule.fits for find in finds)
    for find in (one for one in (*saving_by_names(case), *finds) if one.schedule.fits):
        schedule = checked(find.schedule)
        assert case.value(schedule) >= saving_bound(case).ticks
        assert schedule.plan.index == case.full


@pytest.mark.parametrize("relief", [OFFLOAD, RECOMPUTE, BOTH])
@pytest.mark.parametrize("device", [0, 1])
def test_below_the_floor_the_model_has_no_schedule(relief: Relief, device: int) -> None:
    """At the floor of each device the exact model has a schedule; a grain below it on one, none."""
    problem = make_problem(
        devices=2, stages=4, microbatches=2, placement="loop", activation=[2, 3, 2, 1], checkpoint=0.5, offload=1
    )
    rooms = [activation_floor(problem, there, relief) for there in range(2)]
    assert exact(with_rooms(problem, rooms), relief) is not None
    rooms[device] -= 1
    assert exact(with_rooms(problem, rooms), relief) is None


@settings(max_examples=40)
@given(problems(SETTLED, saving=True, least=1), randoms, st.sampled_from([0, 1]))
def test_a_plan_of_times_keeps_times_and_memory(problem: Problem, random: Random, split: int) -> None:
    """From the times of any schedule comes a plan that starts nothing later and holds no more."""
    texts = random_saving_plan(problem, random, split=split, pair=0, recompute=0.3, offload=0.6, wait=0.5)
    schedule = schedule_plan(problem, saving_plan_of(problem, texts))
    again = checked(schedule_plan(problem, plan_of_times(problem, schedule.plan.index, schedule.starts)))
    assert all(new <= old for new, old in zip(again.starts, schedule.starts, strict=True))
    assert all(new <= old for new, old in zip(again.peak_memory, schedule.peak_memory, strict=True))
    assert (again.recomputed, again.offloaded) == (schedule.recomputed, schedule.offloaded)


def test_offload_needs_a_cost() -> None:
    """Without costs.offload there is nothing to solve."""
    with pytest.raises(ConfigError, match="must say what one transfer takes"):
        solve(linear(2, 2, 1), offload=True)


def test_below_the_floor_of_relief() -> None:
    """A budget that no order can keep, not even with recompute, is refused; one that recompute reaches says so."""
    chunks = make_problem(
        devices=2, stages=4, microbatches=2, activation=1, budget=1.5, placement="loop", checkpoint=0.5
    )
    with pytest.raises(NoSchedule) as plain:
        solve(chunks)
    assert "recompute (solve --recompute)" in plain.value.would_fit
    assert solve(chunks, recompute=True, time_limit=30).schedule.fits
    with pytest.raises(NoSchedule, match=r"needs at least 1\.5"):
        solve(make_problem(devices=2, stages=4, microbatches=2, activation=1, budget=1.25, placement="loop",
                           checkpoint=0.5), recompute=True)  # fmt: skip


def test_same_seed_same_answer() -> None:
    """With one worker the answer repeats, times and all."""
    problem = linear(3, 4, 2, offload=3)
    starts = [solve(problem, offload=True, workers=1, seed=7, time_limit=60).schedule.starts for _ in range(2)]
    assert starts[0] == starts[1]


def test_a_hint_with_transfers() -> None:
    """A schedule that offloads may be where a solve begins."""
    problem = linear(4, 8, 2, offload=1)
    best = solve(problem, offload=True).schedule
    again = solve(problem, offload=True, hint=best, method="portfolio")
    assert again.schedule.makespan == 33
    with pytest.raises(ConfigError, match="hint is no schedule"):
        solve(problem, hint=best)


def test_hints_are_whole() -> None:
    """What does not run is hinted not to run."""
    case = SavingCase(linear(2, 2, 1, offload=1), "makespan", OFFLOAD)
    model = SavingModel(case, 0, 50)
    model.hint(case.sorted_rows([0] * case.index.size))
    hinted = dict(zip(model.model.proto.solution_hint.vars, model.model.proto.solution_hint.values, strict=True))
    assert all(hinted[model.starts[task].index] == UNTIMED for task in model.presences)
    assert all(hinted[present.index] == 0 for present in model.presences.values())

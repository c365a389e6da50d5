"""Schedules that follow from costs: list scheduling and zb-auto, within every budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from pipesched import NoSchedule, Plan, Problem, make_problem, run, schedule_plan
from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.examples import examples
from tests.oracle.alike import Op, Replayed, device_of, inputs, name, parts, replay
from tests.strategies import SETTLED, limited, problems, texts_of, with_capacities

rules = st.fixed_dictionaries({"priority": st.sampled_from(sorted(PRIORITIES)), "tie": st.sampled_from(sorted(TIES))})


def alike(plan: Plan) -> list[list[tuple[str, int]]]:
    """The orders of a linear plan, with the microbatches numbered as they enter: those have no identity."""
    rows = [[plan.index.op(number) for number in order] for order in plan.orders]
    entered = [op.microbatch for op in rows[0] if op.kind == "F"]
    return [[(op.kind, entered.index(op.microbatch)) for op in row] for row in rows]


def floor(problem: Problem, device: int) -> int:
    """What one microbatch holds on a device at its highest: the activations up to a stage, and what its I takes."""
    caught = problem.grains.largest["caught"] if problem.costs.split else (0,) * problem.stages
    highest = 0
    for mb in range(problem.microbatches):
        held = 0
        for stage in (s for s in range(problem.stages) if device_of(problem, s, mb) == device):
            held += problem.grains.largest["activation"][stage]
            highest = max(highest, held + caught[stage])
    return highest


@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 4), st.integers(1, 6), st.integers(0, 3), rules)
def test_caps_of_1f1b_for_any_equal_stages(
    devices: int, microbatches: int, forward: int, backward: int, p2p: int, rule: dict[str, str]
) -> None:
    """The same for other costs and with p2p, as long as the stages are equal."""
    problem = make_problem(
        devices=devices,
        microbatches=microbatches,
        forward=forward,
        backward=backward,
        p2p=p2p,
        budget=[devices - device for device in range(devices)],
    )
    assert alike(run(problem, "list", **rule).schedule.plan) == alike(run(problem, "1f1b").schedule.plan)


def test_seeds_matter_to_random_ties() -> None:
    """Another seed gives another plan by random ties, and the same one by all others."""
    problem = make_problem(devices=4, stages=8, microbatches=6, placement="loop")
    plans = {
        tie: {str(texts_of(run(problem, "list", tie=tie, seed=s).schedule.plan)) for s in range(4)} for tie in TIES
    }
    assert {tie for tie, different in plans.items() if len(different) > 1} == {"random"}


@examples(300)
@given(problems(SETTLED, most_microbatches=8), rules, st.data())
def test_obeys_any_budget_from_the_floor_on(problem: Problem, rule: dict[str, Any], data: st.DataObject) -> None:
    """Every budget that holds one microbatch gives a schedule within it; below that the device is named."""
    assume(problem.microbatches > 1 or not problem.settled_placement.mirrored)
    floors = [floor(problem, device) for device in range(problem.devices)]
    slack = st.one_of(st.just(0), st.integers(-1, max(floors) + 1))
    capacities = [max(least + data.draw(slack), 0) for least in floors]  # no budget is less than nothing
    tight = with_capacities(problem, capacities)
    below = [device for device, capacity in enumerate(capacities) if capacity < floors[device]]
    if below:
        with pytest.raises(NoSchedule) as caught:
            run(tight, "list", **rule)
        assert caught.value.device == below[0]
        return
    schedule = run(tight, "list", **rule).schedule
    naive = replay(tight, texts_of(schedule.plan))
    rooms = [capacity or 0 for capacity in tight.capacity_grains]  # in its own grains, which may be finer
    assert all(peak <= room for peak, room in zip(naive.peak, rooms, strict=True))
    assert schedule.fits
    assert list(violations(schedule)) == []


@given(problems(SETTLED, most_microbatches=4), rules)
def test_never_idle_without_reason(problem: Problem, rule: dict[str, str]) -> None:
    """Without a cap a device never waits while something that it runs later had all its inputs."""
    schedule = run(problem, "list", **rule).schedule
    naive = replay(problem, texts_of(schedule.plan))
    for row in texts_of(schedule.plan):
        idle_from = 0
        for place, text in enumerate(row):
            if idle_from < naive.start[text]:
                later = [ready_at(problem, parts(other)[0], naive) for other in row[place:]]
                assert min(later) >= naive.start[text]
            idle_from = naive.end[text]


def ready_at(problem: Problem, op: Op, naive: Replayed) -> int:
    """When the inputs of an operation are there."""
    planned = [one for text in naive.end for one in parts(text)]
    return max((naive.end[name(one)] + lag for one, lag in inputs(problem, op, planned)), default=0)


@st.composite
def cut_problems(draw: st.DrawFn) -> Problem:
    """Slices of unequal tokens on several stages a device, whose budget just holds one microbatch, or little more."""
    devices, chunks, microbatches = draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)))
    parts = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    given: dict[str, Any] = {
        "devices": devices, "stages": devices * chunks, "microbatches": microbatches,
        "slices": {"count": len(parts), "tokens": [Fraction(part, sum(parts)) for part in parts]},
        "mode": draw(st.sampled_from(["train", "train", "forward"])),
        "kv": draw(st.sampled_from([0, 0.25, 1])), "placement": draw(st.sampled_from(["linear", "loop"])),
        "sizes": {"activation": draw(st.lists(st.integers(1, 4), min_size=microbatches, max_size=microbatches))},
    }  # fmt: skip
    if given["mode"] == "train" and draw(st.booleans()):
        given |= {"backward_input": 1, "backward_weight": draw(st.integers(0, 2))}
        given["retain"] = draw(st.sampled_from([0.5, 1, 1.5, 2.5]))
    problem = make_problem(**given)
    shares = st.sampled_from([Fraction(1), Fraction(5, 4), Fraction(2)])
    more = draw(st.lists(shares, min_size=devices, max_size=devices))
    floors = [Fraction(least_capacity(problem, device), problem.grains.per_unit) for device in range(devices)]
    return make_problem(**given, budget=[least * by for least, by in zip(floors, more, strict=True)])


@examples(100)
@given(cut_problems(), rules)
def test_slices_never_block_each_other(problem: Problem, rule: dict[str, str]) -> None:
    """Partial microbatches do not fill the memory for ever: any budget that holds one microbatch is enough for all."""
    schedule = run(problem, "list", **rule).schedule
    assert list(violations(schedule)) == []
    assert schedule.fits


UNIT: dict[str, Any] = {"devices": 4, "microbatches": 8, "forward": 1, "backward_input": 1, "backward_weight": 1}


@pytest.mark.parametrize(("budget", "span"), [(2, 41), (3, 31), (4, 27), (5, 26), (6, 25), (7, 24), (8, 24)])
def test_spans_that_are_proved_optimal(budget: int, span: int) -> None:
    """P4 M8 at unit costs: every budget's proven optimum; no idle time in the span from 7 activations on."""
    schedule = run(make_problem(budget=budget, **UNIT), "zb-auto", objective="span").schedule
    assert (schedule.span_ticks, schedule.fits) == (span, True)
    assert (schedule.bubble_span == 0) == (budget >= 7)


def test_ends_above_64_bits() -> None:
    """Where starts are below, orders are compared as any others."""
    times: dict[str, Any] = dict.fromkeys(("forward", "backward_input", "backward_weight"), 999_999_999)
    schedule = run(make_problem(devices=2, microbatches=3, p2p="0.000001234", **times), "zb-auto").schedule
    assert max(schedule.start_ticks) < 2**63 < max(schedule.end_ticks)


def test_the_default_limit_is_two_p() -> None:
    """Without a budget a device holds at most 2P activations of the largest stage, and uses more than P of them."""
    outcome = run(make_problem(**{**UNIT, "microbatches": 40}), "zb-auto")
    assert outcome.schedule.bubble_span == 0
    assert 4 < max(outcome.schedule.peak_grains) <= 8
    free = run(make_problem(**{**UNIT, "microbatches": 40, "budget": 8}), "zb-auto")
    assert texts_of(free.schedule.plan) == texts_of(outcome.schedule.plan)


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
    for family in ("zb-h1", "zb-h2", "1f1b"):
        other = run(problem, family).schedule
        if other.fits and not (family == "1f1b" and any(problem.grains.largest["caught"])):
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

"""Bounds by one device and by what is kept, offloaded and recomputed: never above an optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

import pipesched
from pipesched import Outcome, Problem, make_problem, solve
from pipesched.core.bounds import may_hold
from pipesched.core.cpsat import Limits
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.solver.bounds import DeviceModel, most_promising, suits
from pipesched.solver.model import RecomputeOffloadModel
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from plain_model import plain_model
from tests.examples import part
from tests.solver.every_way import least_makespan
from tests.solver.periodic.problems import tight

OFFLOAD, RECOMPUTE, BOTH = (
    MemorySavings(offload=True),
    MemorySavings(recompute=True),
    MemorySavings(offload=True, recompute=True),
)
actions = st.sampled_from([OFFLOAD, RECOMPUTE, BOTH])


def room_for_one(**values: Any) -> Problem:
    """P4 M8, f=1, B=2, room for one activation a device, a tenth stays of what is recomputed."""
    given: dict[str, Any] = {"devices": 4, "microbatches": 8, "placement": "linear", "forward": 1, "backward": 2}
    return make_problem(**{**given, "budget": 1, "checkpoint": Fraction(1, 10), **values})


@pytest.mark.parametrize(("offload", "optimum", "device"), [(1.5, 54, 2), (3, 75, 1)])
def test_room_for_one(offload: float, optimum: int, device: int) -> None:
    """Beside a checkpoint there is no room for an activation, so all stays follow each other: proved."""
    problem = room_for_one(offload=offload)
    assert RecomputeOffloadVariant(problem, "makespan", BOTH).bound().ticks == optimum * problem.ticks.per_unit
    outcome = solve(problem, offload=True, recompute=True, time_limit=60)
    assert (outcome.schedule.makespan, outcome.status) == (optimum, "optimal")
    assert outcome.report is not None
    assert outcome.report.bound.reason == f"residences and lanes of device {device} under the budget"


def test_the_bound_of_a_report() -> None:
    """A schedule that was found so is held against the same bound, without the report that says what was proved."""
    outcome = solve(room_for_one(offload=1.5), offload=True, recompute=True, time_limit=60)
    assert outcome.schedule.plan.index.letters == "FBROL"
    assert lower_bound(outcome.schedule).value == Outcome("solve", outcome.schedule).bound.value == 54


@st.composite
def tight_to_save(draw: st.DrawFn) -> tuple[Problem, MemorySavings]:
    """A small problem with little room, and what may be done about it."""
    devices, chunks, allowed = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 1, 2])), draw(actions)
    stages = devices * chunks
    places = ["linear", "loop", *(["v"] if chunks == 2 else []), *(["bidirectional"] if devices == stages > 1 else [])]

    def each(least: int, most: int, count: int = stages) -> Any:
        value = st.integers(least, most)
        return draw(value) if draw(st.booleans()) else draw(st.lists(value, min_size=count, max_size=count))

    given: dict[str, Any] = {"forward": each(draw(st.integers(0, 1)), 3)}
    if draw(st.booleans()):
        given |= {"backward_input": each(1, 3), "backward_weight": each(0, 3)}
        given["retain"] = draw(st.sampled_from([0, 0.5, 1, 1.5]))
    else:
        given["backward"] = each(1, 4)
    if draw(st.booleans()):
        given["reload"] = each(0, 5)
    problem = make_problem(
        devices=devices,
        stages=stages,
        microbatches=draw(st.integers(2, 4 if chunks == 1 else 2)),
        placement=draw(st.sampled_from(places)),
        offload=each(0, 5),
        recompute=each(0, 3),
        checkpoint=draw(st.sampled_from([0, 0.1, 0.25, 0.5, 1])),
        p2p=each(0, 2, stages - 1),
        activation=each(1, 3),
        **given,
    )
    floors = [least_capacity(problem, device, allowed) for device in range(devices)]
    least = Fraction(max(floors), problem.grains.per_unit)
    budget = least * draw(st.sampled_from([Fraction(part, 4) for part in (4, 4, 5, 6, 7, 8, 10)]))
    return replace(problem, memory=replace(problem.memory, budget=(budget,) * devices)), allowed


def plain_optimum(case: RecomputeOffloadVariant) -> int | None:
    """The optimum of the model of the rules alone, without any bound; None if it is not proved in time."""
    costs = [case.problem.ticks.of(letter) for letter in "ROL"]
    longest = sum(case.graph.durations) + case.problem.microbatches * sum(map(sum, costs))
    longest += 2 * case.problem.microbatches * sum(case.problem.ticks.mean["p2p"])
    model = RecomputeOffloadModel(case, case.full, 0, longest)
    for rule in (model.dependencies, model.choices, model.devices, model.memory, model.objective):
        rule()
    answer = model.solve(Limits(10, workers=1))
    return answer.objective * case.quantum if answer.status == "optimal" and answer.objective is not None else None


@pytest.mark.slow
@part(8)
@given(tight_to_save(), st.sampled_from(["makespan", "span"]))
def test_never_above_an_optimum(drawn: tuple[Problem, MemorySavings], objective: str) -> None:
    """Small cases with latency, uneven costs, split backwards, every action and placement: the bound is at most the
    optimum of the exact model, which knows no bound."""
    problem, allowed = drawn
    case = RecomputeOffloadVariant(problem, objective, allowed)
    optimum = plain_optimum(case)
    assume(optimum is not None)
    assert optimum is not None
    assert case.bound().ticks <= optimum


@pytest.mark.slow
@part(3)
@given(
    st.integers(1, 2),
    st.lists(st.integers(1, 3), min_size=5, max_size=5),
    st.sampled_from([0, Fraction(1, 4), Fraction(1, 2)]),
    st.sampled_from([1, 1.25, 1.5, 2, 2.25]),
    actions,
)
def test_never_above_the_best_of_every_way(
    devices: int, costs: list[int], checkpoint: Fraction, budget: float, allowed: MemorySavings
) -> None:
    """On the smallest cases, of all states that can follow each other."""
    forward, backward, recompute, offload, reload = costs
    problem = make_problem(
        devices=devices, microbatches=4 if devices == 1 else 2, placement="linear", forward=forward,
        backward=backward, recompute=recompute, offload=offload, reload=reload, checkpoint=checkpoint, budget=budget,
    )  # fmt: skip
    optimum = least_makespan(problem, "R" * allowed.recompute + "O" * allowed.offload)
    assert optimum is not None
    assert RecomputeOffloadVariant(problem, "makespan", allowed).bound().ticks <= optimum


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 5))
def test_whole_numbers_are_found_or_refuted(data: st.DataObject, width: int, height: int) -> None:
    """In a box of whole numbers a system may hold just where trying all of them finds one that keeps it."""
    entry = st.integers(-4, 4)
    rows = [data.draw(st.lists(entry, min_size=width, max_size=width)) for _ in range(height)]
    limits = data.draw(st.lists(st.integers(-6, 6), min_size=height, max_size=height))
    box = [[int(here == column) for here in range(width)] for column in range(width)]

    def holds(point: tuple[int, ...]) -> bool:
        sums = (sum(a * x for a, x in zip(row, point, strict=True)) for row in rows)
        return all(total <= limit for total, limit in zip(sums, limits, strict=True))

    found = any(map(holds, product(range(6), repeat=width)))
    assert may_hold([*rows, *box], [*limits, *([5] * width)]) == found


# Bounds by one device: never above an optimum, and above all others where a device alone is the limit.

SMALL: dict[str, Any] = {
    "devices": 2, "stages": 6, "microbatches": 8, "forward": 4, "backward": 9, "placement": "loop", "budget": 5,
    "activation": 1,
}  # fmt: skip


def least_of(case: PlainVariant, device: int | None) -> int:
    """Return the least makespan of the model of a device, or of the plain model of all."""
    most = sum(case.graph.durations) + sum(case.problem.ticks.mean["p2p"]) * len(case.graph)
    model = plain_model(case, 0, most) if device is None else DeviceModel(case, device, 0, most)
    answer = model.solve(Limits(60, workers=1))
    assert answer.status == "optimal"
    assert answer.objective is not None
    return answer.objective * case.quantum


@pytest.mark.slow
@given(tight(most_devices=2, most_microbatches=4, most_chunks=2))
@part(4)
def test_never_above_an_optimum_device(problem: Problem) -> None:
    """No device alone needs longer than the exact model of all devices, which knows none of the extra precedences."""
    case = PlainVariant(problem)
    optimum = least_of(case, None)
    for device in range(problem.devices):
        assert least_of(case, device) <= optimum


@pytest.mark.slow
@pytest.mark.nightly
def test_above_the_other_bounds() -> None:
    """Several chunks in little room: work and memory together take longer than each of them, and than their bounds."""
    case = PlainVariant(pipesched.make_problem(**SMALL))
    assert suits(case)
    device = most_promising(case)
    assert case.bound().ticks < least_of(case, device) <= least_of(case, None)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_solve_proves_by_it() -> None:
    """Within its limits a solve ends with the same optimum as without the bound."""
    report = pipesched.solve(pipesched.make_problem(**SMALL), time_limit=60, workers=1).report
    assert report is not None
    assert report.value_ticks == least_of(PlainVariant(pipesched.make_problem(**SMALL)), None)


@pytest.mark.slow
def test_where_it_does_not_apply() -> None:
    """For the span, without a budget, on one device and on many operations there is no such bound."""
    values = {**SMALL, "devices": 1, "budget": 6, "placement": "linear"}
    assert not suits(PlainVariant(pipesched.make_problem(**values)))
    assert not suits(PlainVariant(pipesched.make_problem(**SMALL), "span"))
    assert not suits(PlainVariant(pipesched.make_problem(**{**SMALL, "budget": None})))
    assert not suits(PlainVariant(pipesched.make_problem(**{**SMALL, "microbatches": 60})))

"""The first schedule of a large case: legal, within every budget, and there whatever the time limit."""

from __future__ import annotations

from threading import Event as StopEvent
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.errors import NoSchedule
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.kinds import KEEP_ONLY, Allowed
from pipesched.results.status import StoppedBy
from pipesched.solver.case import Case
from pipesched.solver.feasible import feasible, placed
from pipesched.solver.saving_portfolio import KeepingCase, SavingCase
from pipesched.solver.search import Search, first_candidates, take_first
from tests.examples import examples

CHUNKS = {"linear": 1, "loop": 2, "v": 2, "wave": 4, "bidirectional": 1}


@st.composite
def problems(draw: st.DrawFn) -> pipesched.Problem:
    """Uneven stages on every named placement, under budgets from the floor on, with whole and split backwards."""
    devices, placement = draw(st.integers(2, 4)), draw(st.sampled_from(sorted(CHUNKS)))
    stages = devices * CHUNKS[placement]

    def each(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=stages, max_size=stages))

    values: dict[str, Any] = {"forward": each(1, 5), "activation": each(1, 3), "p2p": draw(st.integers(0, 2))}
    if draw(st.booleans()):
        values |= {"backward_input": each(1, 5), "backward_weight": each(1, 4), "retain": draw(st.integers(0, 2))}
    else:
        values["backward"] = each(1, 6)
    even = 2 if placement == "bidirectional" else 1
    microbatches = even * draw(st.integers(1, 6))
    budget = draw(st.none() | st.integers(3, 30))
    return pipesched.make_problem(
        devices=devices, stages=stages, microbatches=microbatches, placement=placement, budget=budget, **values
    )


def case_of(problem: pipesched.Problem, allowed: Allowed) -> Case | None:
    """Return the case of a problem, None where its budget is below the floor."""
    try:
        (fitting,) = feasible(placed(problem, None), allowed)
    except NoSchedule:
        return None
    return SavingCase(fitting, allowed=allowed) if any(allowed) else KeepingCase(fitting)


@given(problems(), st.sampled_from([KEEP_ONLY, Allowed(recompute=True)]))
@examples(150)
def test_one_of_them_fits(problem: pipesched.Problem, allowed: Allowed) -> None:
    """Each keeps every rule, and at least one the budget: the first, where devices hold a microbatch on all stages."""
    case = case_of(problem, allowed)
    if case is None:
        return
    found = list(first_candidates(case))
    assert not [broken for candidate in found for broken in violations(candidate.schedule)]
    if max(problem.memory.retain) <= 1:  # gradients held beside activations may need another order of W, by search
        assert any(candidate.schedule.fits for candidate in found)
    if len(found) > 1:
        assert found[0].schedule.fits


def test_linear_is_1f1b() -> None:
    """Without a budget it is 1F1B itself; with one it holds what the budget allows."""
    problem = pipesched.make_problem(devices=4, microbatches=12, placement="linear", forward=1, backward=2)
    case = case_of(problem, KEEP_ONLY)
    assert case is not None
    first = next(first_candidates(case)).schedule
    assert first.makespan == pipesched.run(problem, "1f1b").schedule.makespan
    assert max(first.peak_memory) == 4


class Over(Clock):
    """A clock whose time was up before it began."""

    @property
    def seconds(self) -> float:
        return 5.0


def search_of(clock: Clock) -> Search:
    case = case_of(pipesched.make_problem(devices=4, microbatches=6, budget=2, placement="linear"), KEEP_ONLY)
    assert case is not None
    return Search([case], Limits(seconds=clock.limit), clock)


def test_there_is_one_when_the_time_is_up() -> None:
    """It is made and checked all the same, and its plan says that there was no time for another."""
    search = search_of(Over(1.0))
    take_first(search)
    assert search.best is not None
    assert search.best is search.candidates[0]
    assert "takes longer than the `time_limit`" in search.best.schedule.plan.note
    assert not list(violations(search.best.schedule))
    assert search.best.schedule.fits


def test_one_in_time_says_nothing() -> None:
    search = search_of(Clock(60.0))
    take_first(search)
    assert search.best is not None
    assert search.best.schedule.plan.note == ""


def test_there_is_none_when_it_was_stopped() -> None:
    """An event means: no more work."""
    stop = StopEvent()
    stop.set()
    search = search_of(Clock(60.0, stop))
    take_first(search)
    assert search.best is None


@pytest.mark.parametrize("placement", ["linear", "v", "bidirectional"])
def test_a_solve_without_any_time(placement: str) -> None:
    """An answer comes back, however short the limit, for a case that is large and one that is not."""
    for microbatches in (4, 200):
        problem = pipesched.make_problem(
            devices=4, stages=4 * CHUNKS[placement], microbatches=microbatches, placement=placement, budget=6
        )
        outcome = pipesched.solve(problem, time_limit=1e-6)
        assert outcome.report is not None
        assert outcome.report.stopped_by in {StoppedBy.TIME_LIMIT, StoppedBy.PROOF}
        assert outcome.schedule.fits
        assert outcome.report.bound.ticks <= outcome.report.value_ticks
        assert pipesched.check(outcome) == []

"""Trials: orders timed, compared and improved under a limit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from pipesched import ConfigError, Problem, make_problem
from pipesched.pipeline.check import violations
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers.trials import LEAST_ROUNDS, Effort, Trials, trials
from pipesched.schedulers.zero_bubble import handcrafted
from tests.oracle.alike import replay
from tests.strategies import limited, texts_of

PROBLEM = make_problem(devices=4, microbatches=8, backward_input=1, backward_weight=1, activation=1, placement="linear")
H1, H2, HALVES = (1, 1), (2, 2), (1, 0)  # warm-up and delay of the handcrafted orders


def case(objective: str = "span", capacity: int = 8, problem: Problem = PROBLEM) -> Trials:
    """Trials with as much room on every device."""
    return trials(problem, "FIW", [capacity] * problem.devices, objective)


@given(limited())
def test_times_are_those_of_the_replay(problem: Problem) -> None:
    """What trials time, the naive replay times alike; what they say fits, fits by its peaks."""
    tried = trials(problem, "FIW", [capacity or 0 for capacity in problem.capacity_grains], "span")
    schedule = tried.timed(handcrafted(tried.index, *H2))
    naive = replay(problem, texts_of(schedule.plan))
    assert (schedule.makespan_ticks, schedule.span_ticks) == (naive.makespan, naive.span)
    assert tried.fits(schedule) == all(
        peak <= capacity for peak, capacity in zip(naive.peak, tried.capacities, strict=True)
    )


def test_the_limit_counts() -> None:
    """ZB-H2 holds 2P-1 activations: it fits into as many, and into no fewer."""
    schedule = case().timed(handcrafted(case().index, *H2))
    assert case(capacity=7).fits(schedule)
    assert not case(capacity=6).fits(schedule)


def test_the_best_by_each_objective() -> None:
    """ZB-H1 and ZB-H2 have the same makespan, ZB-H2 the shorter span: it wins by either, and 1F1B in halves never."""
    for objective in ("span", "makespan"):
        tried = case(objective)
        halves, h1, h2 = (tried.timed(handcrafted(tried.index, *depth)) for depth in (HALVES, H1, H2))
        assert (halves.makespan_ticks, h1.makespan_ticks, h2.makespan_ticks) == (30, 27, 27)
        assert (h1.span_ticks, h2.span_ticks) == (27, 24)
        assert tried.best([halves, h1, h2]) is h2


def test_an_unknown_objective() -> None:
    """Bad input names what is valid."""
    with pytest.raises(ConfigError, match=r"unknown objective 'idle'.*span, makespan"):
        case("idle")


def test_improved_only_where_it_is_worth_it() -> None:
    """Given back as it is: what has no idle time left, and what is too large for the effort."""
    tried = case()
    perfect, poor = (tried.timed(handcrafted(tried.index, *depth)) for depth in (H2, HALVES))
    assert tried.improved(perfect, Effort(operations=100_000, rounds=400, slack=0)) is perfect.plan
    too_little = Effort(operations=(LEAST_ROUNDS - 1) * tried.index.size, rounds=400, slack=0)
    assert tried.improved(poor, too_little) is poor.plan


@settings(deadline=None, max_examples=30)
@given(limited())
def test_improved_is_no_worse_and_fits(problem: Problem) -> None:
    """From 1F1B in halves where that fits: every rule is kept, and the objective is no longer."""
    tried = trials(problem, "FIW", [capacity or 0 for capacity in problem.capacity_grains], "makespan")
    start = tried.timed(handcrafted(OpIndex("FIW", problem.stages, problem.microbatches), *HALVES))
    if tried.fits(start):
        plan = tried.improved(start, Effort(operations=20_000, rounds=60, slack=50))
        after = schedule_plan(problem, plan)
        assert list(violations(after)) == []
        assert after.fits
        assert after.makespan_ticks <= start.makespan_ticks

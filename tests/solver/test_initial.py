"""The first schedule of a large case, and of equal schedules the one that holds least."""

from __future__ import annotations

from random import Random
from threading import Event as StopEvent
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import NoSchedule, Problem, StoppedBy, explain, make_problem, solve
from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.kinds import KEEP_ONLY, MemorySavings
from pipesched.schedulers.registry import FAMILIES
from pipesched.solver.feasible import feasible, placed
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from pipesched.solver.search import Search, initial_candidates, offer_initial
from pipesched.solver.variant import Variant
from tests.examples import at_night_but, examples, part
from tests.strategies import problems

# The last of eight devices has a heavy head.
HEAVY: dict[str, Any] = {
    "forward": [17] * 7 + [25],
    "backward_input": [17] * 7 + [25],
    "backward_weight": [15] * 7 + [23],
}
REAL = pipesched.make_problem(
    devices=8, microbatches=48, **HEAVY, p2p=0.8, activation=0.9, static=22, budget=80, time_unit="ms"
)
CHUNKS = {"linear": 1, "loop": 2, "v": 2, "wave": 4, "bidirectional": 1}


@st.composite
def large_problems(draw: st.DrawFn) -> pipesched.Problem:
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


def case_of(problem: pipesched.Problem, allowed: MemorySavings) -> Variant | None:
    """Return the case of a problem, None where its budget is below the floor."""
    try:
        (fitting,) = feasible(placed(problem, None), allowed)
    except NoSchedule:
        return None
    return RecomputeOffloadVariant(fitting, allowed=allowed) if any(allowed) else PlainVariant(fitting)


@given(large_problems(), st.sampled_from([KEEP_ONLY, MemorySavings(recompute=True)]))
@examples(150)
def test_one_of_them_fits(problem: pipesched.Problem, allowed: MemorySavings) -> None:
    """Each keeps every rule, and at least one the budget: the first, where devices hold a microbatch on all stages."""
    case = case_of(problem, allowed)
    if case is None:
        return
    found = list(initial_candidates(case))
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
    first = next(initial_candidates(case)).schedule
    assert first.makespan == pipesched.run(problem, "1f1b").schedule.makespan
    assert max(first.peak_memory) == 4


class Over(Clock):
    """A clock whose time was up before it began."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.began -= 5.0


def search_of(clock: Clock) -> Search:
    case = case_of(pipesched.make_problem(devices=4, microbatches=6, budget=2, placement="linear"), KEEP_ONLY)
    assert case is not None
    return Search([case], Limits(seconds=clock.limit), clock)


def test_there_is_one_when_the_time_is_up() -> None:
    """It is made and checked all the same, and its plan says that there was no time for another."""
    search = search_of(Over(1.0))
    offer_initial(search)
    assert search.best is not None
    assert search.best is search.candidates[0]
    assert "takes longer than the `time_limit`" in search.best.schedule.plan.note
    assert not list(violations(search.best.schedule))
    assert search.best.schedule.fits


def test_one_in_time_says_nothing() -> None:
    search = search_of(Clock(60.0))
    offer_initial(search)
    assert search.best is not None
    assert search.best.schedule.plan.note == ""


def test_there_is_none_when_it_was_stopped() -> None:
    """An event means: no more work."""
    stop = StopEvent()
    stop.set()
    search = search_of(Clock(60.0, stop))
    offer_initial(search)
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


# Of schedules of one value the one that holds least is the answer; and no single move shortens an answer.


def test_memory_breaks_ties() -> None:
    """Naive takes as long as 1F1B and holds 65.2 GB: the answer is 1F1B's makespan at 29.2 GB, and others are named."""
    whole = pipesched.make_problem(
        devices=8, microbatches=48, forward=[17] * 7 + [25], backward=[32] * 7 + [48], p2p=0.8, activation=0.9,
        static=22, budget=80,
    )  # fmt: skip
    solved = pipesched.solve(whole)
    assert max(solved.schedule.memory) == 29.2
    assert solved.report is not None
    assert solved.report.source == "1f1b"
    assert solved.report.equal["naive"] == 65.2


def test_the_equal_ones_are_in_the_document() -> None:
    """`solver.equal` lists their names, least memory first."""
    report = pipesched.solve(REAL).report
    assert report is not None
    assert report.source == "zb-h1"
    assert list(report.equal) == ["interleaved-zb", "zb-auto", "zb-h2"]
    assert len({report, pipesched.solve(REAL).report}) == 2  # reports can stand in sets


@given(problems(("linear", "loop", "v", "auto"), most_devices=3, most_microbatches=5, least=1))
@part(8)
@pytest.mark.slow
def test_no_family_of_the_same_makespan_holds_less(problem: Problem) -> None:
    """What a family reaches in the same time with less memory would have been the answer."""
    try:
        solved = pipesched.solve(problem, time_limit=20, split_backward=problem.costs.split)
    except NoSchedule:
        return
    for name in FAMILIES:
        try:
            other = pipesched.run(problem, name).schedule
        except (pipesched.NotApplicable, NoSchedule):
            continue
        if (
            other.fits
            and other.problem.stages == solved.problem.stages  # fused, gradients of one stage never wait beside another
            and other.makespan == solved.schedule.makespan
            and other.plan.index.letters == solved.schedule.plan.index.letters
            and not other.problem.settled_placement.mirrored
            and not other.plan.pairs
        ):
            assert max(solved.schedule.memory) <= max(other.memory)


def test_polishing_lowers_the_memory_of_what_has_no_name() -> None:
    """A list schedule is as long, and holds half of what it holds without the second phase."""
    problem = pipesched.make_problem(
        devices=2, stages=4, microbatches=6, placement="v", p2p=1, activation=[3, 2, 1, 3],
        forward=[5, 3, 2, 2], backward_input=[2, 5, 6, 4], backward_weight=[2, 3, 6, 6],
    )  # fmt: skip
    plain = pipesched.solve(problem, time_limit=20, workers=1, polish=False)
    polished = pipesched.solve(problem, time_limit=20, workers=1)
    assert polished.schedule.makespan == plain.schedule.makespan == 157
    assert max(plain.schedule.memory) == 24
    assert max(polished.schedule.memory) <= 12
    assert pipesched.check(polished) == []


def uneven(seed: int) -> dict[str, Any]:
    """Arguments of a problem with uneven stages, of which heuristics alone leave some that a move shortens."""
    random = Random(seed)
    devices, chunks = random.randint(2, 4), random.choice([1, 2])
    stages = devices * chunks

    def times(most: int) -> list[int]:
        return [random.randint(1, most) for _ in range(stages)]

    halves = random.random() < 0.5
    backward = {"backward_input": times(9), "backward_weight": times(9)} if halves else {"backward": times(12)}
    return {
        "devices": devices, "stages": stages, "microbatches": random.randint(4, 9), "forward": times(9), **backward,
        "p2p": random.choice([0, 1]), "budget": random.choice([None, 4, 6]), "activation": 1 / chunks,
    }  # fmt: skip


@pytest.mark.parametrize("seed", at_night_but(range(8), range(30)))
@pytest.mark.slow
def test_no_move_that_fits_shortens_the_answer(seed: int) -> None:
    found = explain(solve(make_problem(**uneven(seed)), method="portfolio", time_limit=20, advice=False))
    assert found.moves_complete
    assert not [move for move in found.moves if move.fits]

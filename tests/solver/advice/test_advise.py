"""Advice: what it claims, a solve with the change reaches; when there is some, and in which order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

import pipesched
from pipesched import Advice, SolveReport
from pipesched.solver.advice import kept_seconds
from pipesched.solver.policy import AdvicePolicy, SolvePolicy
from pipesched.solver.request import SolveRequest
from pipesched.solver.solve import solve_request
from tests.examples import examples, part
from tests.strategies import amounts, one_or_list

SMALL: dict[str, Any] = {"devices": 4, "stages": 4, "microbatches": 8, "forward": 5, "backward": 10, "budget": 2}
SEARCHED: dict[str, Any] = {  # no bound meets what heuristics find
    "devices": 4, "stages": 4, "microbatches": 4, "forward": [3, 5, 4, 6], "backward_input": [4, 6, 5, 4],
    "backward_weight": [3, 5, 6, 5], "p2p": 1, "budget": 2,
}  # fmt: skip
N4: dict[str, Any] = {
    "devices": 8, "stages": 16, "microbatches": 128, "forward": 5, "backward": 10, "p2p": 1, "budget": 6,
}  # fmt: skip


def report_of(problem: dict[str, Any], **options: Any) -> SolveReport:
    report = solve_request(SolveRequest(pipesched.make_problem(**problem), **options)).report
    assert report is not None
    return report


def policy(**values: Any) -> SolvePolicy:
    return SolvePolicy(advice=AdvicePolicy(**values))


def advice_of(problem: dict[str, Any], **options: Any) -> tuple[Advice, ...]:
    advice = report_of(problem, **options).advice
    assert advice is not None
    return advice


@st.composite
def given_problems(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of make_problem, by stages or by layers, with a budget that is tight; and settings of a solve."""
    devices, chunks = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 4]))
    stages = devices * chunks
    size = draw(st.sampled_from([None, 1, Decimal("0.3")]))
    problem: dict[str, Any] = {
        "devices": devices,
        "stages": stages,
        "microbatches": draw(st.integers(1, 6)),
        "p2p": draw(amounts(0, 3)),
        "retain": draw(st.sampled_from([1, Decimal("0.5"), Decimal("1.5")])),
        "checkpoint": draw(st.sampled_from([0, Decimal("0.1"), 1])),
        "placement": draw(st.sampled_from(["auto", "auto", "linear", "loop"])),
    }
    times = amounts(1, 9)
    if draw(st.booleans()):
        keys = ("backward_input", "backward_weight") if draw(st.booleans()) else ("backward",)
        of_stages = {key: one_or_list(draw, times, stages) for key in ("forward", *keys)}
        problem |= {**of_stages, "static": draw(st.sampled_from([0, Decimal("0.5")]))}
        problem |= {} if size is None else {"activation": size}
        problem["offload"] = draw(st.none() | times)
        most = (size or Fraction(devices, stages)) * stages
    else:
        problem["layers"] = draw(st.integers(stages, 2 * stages + 3))
        problem["layer"] = {"forward": draw(times), "backward": draw(times), "activation": size or 1}
        problem["last"] = {"forward": draw(times)}
        most = (size or 1) * problem["layers"]
    problem["budget"] = draw(st.integers(1, 8)) * Fraction(most) / 4
    settings = {name: draw(st.booleans()) for name in ("recompute", "split_backward")}
    settings["offload"] = problem.get("offload") is not None and draw(st.booleans())
    return problem, settings


def require_reached(problem: dict[str, Any], options: dict[str, Any]) -> None:
    """A run of each advised change is no longer than was claimed, and the claims are what they say."""
    try:
        report = report_of(problem, **options, advice=True)
    except pipesched.NoSchedule:
        assume(False)
    values = [one.makespan_at_most for one in report.advice or ()]
    assert values == sorted(values)
    for one in report.advice or ():
        assert one.difference < 0
        assert one.makespan_at_most == pytest.approx(report.value + one.difference)
        changed = pipesched.make_problem(**{**problem, **one.problem})
        again = pipesched.solve(changed, **{**options, **one.solve}, advice=False)
        assert again.schedule.makespan <= one.makespan_at_most, one


@part(5)
@given(given_problems())
@pytest.mark.slow
@pytest.mark.nightly
def test_a_run_of_the_advised_change_reaches_what_was_claimed(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """The values that advice names, laid over those of the problem, make the schedule as short as claimed."""
    problem, options = case
    require_reached(problem, {**options, "method": "portfolio", "time_limit": 10})


@pytest.mark.nightly
@examples(10)
@given(given_problems())
def test_a_search_with_the_advised_change_reaches_what_was_claimed(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """The same with every method that a solve has by default, in 5 seconds, of which a busy machine may give 2."""
    problem, options = case
    require_reached(problem, {**options, "time_limit": 5})


def test_tight_memory() -> None:
    """With room for two of four activations everything helps that saves memory, takes less, or waits less."""
    advice = {one.change: one for one in advice_of(SMALL, time_limit=60, advice=True)}
    assert {*advice} == {"split backward", "recompute", "one activation more", "16 microbatches"}
    assert advice["recompute"].solve == {"recompute": True}
    assert advice["one activation more"] == ("one activation more", 195, -60, {}, {"budget": 3})
    assert advice["16 microbatches"].problem == {
        "microbatches": 16, "forward": 2.5, "backward": 5, "activation": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ({"devices": 2, "microbatches": 3}, {}),  # a bound is met by heuristics
        (SMALL, {}),
        (SEARCHED, {"advice": False}),
        (SMALL, {"time_limit": 0.9, "advice": True}),
        (SMALL, {"objective": "span"}),
    ],
)
def test_when_there_is_none(problem: dict[str, Any], options: dict[str, Any]) -> None:
    """Not where a bound settles it, nor when it is not wanted, nor in less than a second, nor of a span."""
    assert report_of(problem, **options).advice is None


def test_where_it_is_asked_for() -> None:
    """Also where a bound settles the answer without a search."""
    report = report_of({"devices": 2, "microbatches": 3}, advice=True)
    assert report.stopped_by == "proof"
    assert [one.change for one in report.advice or ()] == ["split backward", "6 microbatches"]


@pytest.mark.parametrize("options", [{"split_backward": True}, {"recompute": True}, {"method": "improve"}])
def test_what_is_so_already_or_cannot_be_is_no_advice(options: dict[str, Any]) -> None:
    """A change that is made, and one that the method does not go with."""
    advice = advice_of(SMALL, time_limit=2, advice=True, **options)
    assert ("split backward" if "split_backward" in options else "recompute") not in [one.change for one in advice]


def test_halves_that_were_given_are_no_advice() -> None:
    """Who asks for whole backwards, and gives times of halves, is not told what halves of other times would take."""
    both = {**SMALL, "backward_input": 9, "backward_weight": 9}
    advice = advice_of(both, split_backward=False, method="portfolio", advice=True)
    assert "split backward" not in [one.change for one in advice]
    request = SolveRequest(pipesched.make_problem(**both), split_backward=False)
    assert replace(request, method="portfolio").chooses  # where a solve goes on without its search


def test_after_a_hint_only_changes_that_it_goes_with() -> None:
    """A hint is of so many microbatches and stages."""
    hint = pipesched.solve(pipesched.make_problem(**SMALL), method="portfolio", advice=False)
    advice = advice_of(SMALL, hint=hint, method="portfolio", advice=True)
    assert [one.change for one in advice] == ["recompute", "one activation more", "split backward"]


def test_no_advice_after_a_stop() -> None:
    """Who stops a search wants the answer now."""

    def stop(event: pipesched.Event) -> None:
        if event.value is not None:
            raise KeyboardInterrupt

    report = report_of({**SMALL, "p2p": 1}, listener=stop)
    assert (report.stopped_by, report.advice) == ("interrupt", None)


def test_ctrl_c_while_advice_is_made_keeps_what_is_known() -> None:
    """The answer and the changes that were tried by then."""

    def stop(event: pipesched.Event) -> None:
        if event.step == "advice, one activation more":
            raise KeyboardInterrupt

    assert [one.change for one in advice_of(SMALL, listener=stop, advice=True)] == ["split backward"]


def test_the_gap_that_is_good_enough_counts() -> None:
    """A run with the same gap may stop that much above the schedule that is known, so that much more is claimed."""
    exact = {one.change: one.makespan_at_most for one in advice_of(SMALL, method="portfolio", advice=True)}
    loose = {one.change: one.makespan_at_most for one in advice_of(SMALL, method="portfolio", advice=True, gap=0.05)}
    assert {*loose} <= {*exact}
    assert all(value >= 1.05 * exact[change] for change, value in loose.items())


def test_the_same_on_every_machine() -> None:
    """After a quick solve, advice is of a number of schedules, not of seconds: with fewer, there is less of it."""
    every = advice_of(SEARCHED)
    assert every == advice_of(SEARCHED)
    assert 0 < len(advice_of(SEARCHED, policy=policy(brief=300))) < len(every)


def test_what_is_too_large_for_the_time_is_not_begun() -> None:
    """Where not one schedule can be made in time, there is no advice, and not the claim that nothing helps."""
    assert report_of(SMALL, advice=True, policy=policy(a_second=10)).advice is None


def test_no_time_is_kept_where_it_is_too_short() -> None:
    """All of the limit is for the search where advice cannot make one schedule, unless it is asked for."""
    request = SolveRequest(pipesched.make_problem(**SMALL), time_limit=20)  # 64 operations
    assert kept_seconds(request) == 2
    assert kept_seconds(replace(request, policy=policy(a_second=64))) == 2
    request = replace(request, policy=policy(a_second=63))
    assert kept_seconds(request) == 0
    assert kept_seconds(replace(request, advice=True)) == 2


@pytest.mark.nightly
def test_the_split_backward_of_a_large_case() -> None:
    """Eight devices, 128 microbatches, a tight budget: v-half with a split backward takes 3,967 or a little more."""
    advice = {one.change: one for one in advice_of(N4, time_limit=60, method="portfolio", advice=True)}
    assert advice["split backward"].makespan_at_most <= 1.02 * 3967

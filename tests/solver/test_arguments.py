"""What solve and frontier take and refuse, their requests and policy, and heuristics that break the rules."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

import pipesched
from pipesched import ConfigError, Event, Family, PipeschedWarning, Plan, Problem
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.schedulers.registry import Catalogue, family
from pipesched.solver.policy import DEFAULT, PortfolioPolicy, SolvePolicy
from pipesched.solver.portfolio import family_schedule, named_candidates
from pipesched.solver.recompute_offload import PlainVariant
from pipesched.solver.request import SolveRequest
from pipesched.solver.solve import solve_request
from tests.examples import examples
from tests.strategies import problems

UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
LINEAR = pipesched.make_problem(devices=4, microbatches=8, placement="linear", budget=3, **UNIT)


def test_a_hint_of_another_model() -> None:
    """Another number of devices or microbatches is refused; another placement is tried only where that is open."""
    others = [replace(LINEAR, microbatches=9), pipesched.make_problem(devices=2, microbatches=8),
              replace(LINEAR, placement=pipesched.Placement((3, 2, 1, 0)))]  # fmt: skip
    for other in others:
        with pytest.raises(ConfigError, match="hint: is of another model"):
            pipesched.solve(LINEAR, hint=pipesched.run(other, "list"))
    report = pipesched.solve(replace(LINEAR, placement=None), hint=pipesched.run(other, "list"), time_limit=5).report
    assert "[3, 2, 1, 0]" in getattr(report, "placements", ())


def test_a_hint_from_a_file(tmp_path: Any) -> None:
    """What was written and read is a hint as good as what was written."""
    best = pipesched.solve(LINEAR, time_limit=30)
    again = pipesched.read(pipesched.write(best, tmp_path / "best.json"))
    assert isinstance(again, pipesched.Outcome)
    report = pipesched.solve(LINEAR, hint=again, method="portfolio").report
    assert getattr(report, "value", None) == 31


def test_a_hint_of_fused_stages() -> None:
    """A schedule of fewer, larger stages of the same model begins a solve of the finer ones."""
    fine = pipesched.make_problem(devices=2, stages=4, microbatches=3, placement="linear", **UNIT)
    coarse = pipesched.run(fine, "zb-h1")
    assert coarse.problem.stages == 2
    report = pipesched.solve(fine, hint=coarse, method="portfolio", time_limit=10).report
    assert report is not None
    assert report.value <= coarse.schedule.makespan


@given(problems(("linear", "loop", "v"), most_devices=3, most_microbatches=4, least=1))
@examples(15)
@pytest.mark.slow
def test_a_hint_is_never_made_worse(problem: Problem) -> None:
    """A solve from the list schedule is no longer than that."""
    start = pipesched.run(problem, "list")
    outcome = pipesched.solve(problem, hint=start, method="portfolio", time_limit=10)
    assert outcome.schedule.makespan_ticks <= start.schedule.makespan_ticks


def illegal(problem: Problem) -> Plan:
    """A plan whose first device waits for itself."""
    plan = family("1f1b").plan(problem)
    return replace(plan, orders=[list(reversed(plan.orders[0])), *plan.orders[1:]])


def unfinished(problem: Problem) -> Plan:
    """A plan that leaves the last backward out: it runs, and would win if nobody looked."""
    plan = family("1f1b").plan(problem)
    return replace(plan, orders=[list(plan.orders[0][:-1]), *plan.orders[1:]])


BROKEN = [replace(family("1f1b"), name="broken", plan=plan) for plan in (illegal, unfinished)]


@pytest.mark.parametrize("broken", BROKEN, ids=["deadlock", "unfinished"])
def test_an_illegal_schedule_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch, broken: Family) -> None:
    """A bug of one family costs nothing but its candidate: the others go on, and the warning names it."""
    families = Catalogue((broken, family("1f1b")))
    monkeypatch.setattr("pipesched.solver.portfolio.compared", lambda _: families)
    problem = pipesched.make_problem(devices=2, microbatches=4, placement="linear")
    with pytest.warns(PipeschedWarning, match="broken made an illegal schedule, please report it: ") as caught:
        outcome = pipesched.solve(problem)
    assert len(caught) == 1
    assert outcome.report is not None
    assert (outcome.report.source, outcome.report.value, outcome.status) == ("1f1b", 15, "optimal")
    assert pipesched.check(outcome) == []


def test_a_family_that_deadlocks_has_no_candidate() -> None:
    """It warns, and there is no schedule of it."""
    case = PlainVariant(pipesched.make_problem(devices=2, microbatches=4, placement="linear"))
    with pytest.warns(PipeschedWarning, match="broken made an illegal schedule"):
        assert family_schedule(case, BROKEN[0]) is None


@given(
    problems(
        ("linear", "loop", "v", "wave", "bidirectional", "two-v"), most_devices=3, most_microbatches=5, overlap=True
    )
)
@examples(25)
def test_no_family_of_ours_warns(problem: Problem) -> None:
    """All candidates of our own algorithms can be scheduled, and keep every rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for candidate in named_candidates(PlainVariant(problem)):
            assert pipesched.check(candidate.schedule) == []


def test_numbers_of_a_report_are_in_the_users_unit() -> None:
    """At a tenth of the unit costs value, bound, heuristic and events are a tenth, and ticks are the same."""
    tenth = {key: 0.1 * value for key, value in UNIT.items()}
    problem = pipesched.make_problem(devices=4, microbatches=8, placement="linear", budget=3, **tenth)
    events: list[Event] = []
    report = pipesched.solve(problem, listener=events.append, time_limit=30).report
    assert report is not None
    assert (report.value, report.value_ticks, report.bound.value, report.bound.ticks) == (3.1, 31, 3.1, 31)
    assert (report.makespan_bound.value, report.gap, report.status) == (3.1, 0, "optimal")
    assert report.heuristic is not None
    assert 3.1 <= report.heuristic.value <= 4
    assert (events[-1].value, events[-1].bound, events[-1].gap) == (3.1, 3.1, 0)
    assert all(event.value is None or 3.1 <= event.value <= 12 for event in events)


def test_a_frontier_in_the_users_units() -> None:
    """Points, their bounds and their budgets scale with the units of time and memory."""
    given: dict[str, Any] = {"devices": 2, "microbatches": 3, "placement": "linear"}
    plain = pipesched.frontier(pipesched.make_problem(**given), time_limit=10)
    scaled = pipesched.frontier(
        pipesched.make_problem(**given, forward=0.25, activation=0.1, static=0.5, time_unit="ms", unit="GB"),
        time_limit=10,
    )
    assert (scaled.time_unit, scaled.memory_unit, scaled.objective) == ("ms", "GB", "makespan")
    assert [(point.budget, point.value, point.bound, point.status) for point in plain] == [
        (1, 18, 18, "optimal"), (2, 12, 12, "optimal")]  # fmt: skip
    assert [(point.budget, point.value, point.bound, point.status) for point in scaled] == [
        (0.6, 4.5, 4.5, "optimal"), (0.7, 3, 3, "optimal")]  # fmt: skip


def test_a_frontier_of_the_span() -> None:
    """The objective of the points is the one that was asked for."""
    problem = pipesched.make_problem(devices=4, microbatches=8, placement="linear", **UNIT)
    points = pipesched.frontier(problem, objective="span", time_limit=60)
    assert points.objective == "span"
    assert [(point.budget, point.value) for point in points][-4:] == [(4, 27), (5, 26), (6, 25), (7, 24)]
    for point in points:
        assert point.outcome is not None
        assert point.value == point.outcome.schedule.span


def test_names_that_do_not_suit_the_stages_are_left_out() -> None:
    """Of several names those that suit are tried."""
    report = pipesched.solve(
        pipesched.make_problem(devices=2, stages=3, microbatches=2), placement=["v", "linear"]
    ).report
    assert report is not None
    assert report.placements == ("linear",)


def test_events_of_a_frontier_name_the_budget() -> None:
    """A listener hears which budget a solve is for."""
    events: list[Event] = []
    problem = pipesched.make_problem(devices=2, microbatches=3, placement="linear", activation=0.5)
    pipesched.frontier(problem, listener=events.append, time_limit=10)
    labels = list(dict.fromkeys(event.step.partition(", ")[0] for event in events))
    assert labels == ["no budget", "budget 0.5"]


# What a solve is asked, as one record, and its policy: defaults, comments, and that it reaches every part.

PROBLEM = pipesched.make_problem(devices=2, microbatches=4)


NOT_PUBLIC = {"whole_limit": None, "keeps_cuts": False, "policy": DEFAULT, "chooses": False}


def test_its_fields_are_the_parameters_of_solve() -> None:
    """With their defaults, so that a command hands over what it is given; and those that only a command has."""
    asked = {field.name: field.default for field in fields(SolveRequest) if field.init}
    parameters = inspect.signature(pipesched.solve).parameters
    public = {name: parameter.default for name, parameter in parameters.items()}
    del asked["problem"], public["problem"]
    assert asked == {**public, **NOT_PUBLIC}


def test_what_follows_from_it() -> None:
    """The limits, the problem with the backward as asked, what is allowed, and where the search begins."""
    start = pipesched.run(PROBLEM, "1f1b")
    given: dict[str, Any] = {"time_limit": Decimal("2.5"), "gap": Fraction(1, 4), "seed": 3, "split_backward": True}
    request = SolveRequest(PROBLEM, hint=start, **given)
    assert (request.limits.seconds, request.limits.gap, request.limits.seed) == (2.5, 0.25, 3)
    assert request.split_problem.costs.split
    assert not request.problem.costs.split
    assert request.allowed == MemorySavings(False, False)
    assert request.start is start.schedule
    assert request.runs is None


def test_a_budget_instead_of_the_problem_s() -> None:
    """As `load` takes it: a number, a list, an amount with a unit; stages are cut for it."""
    problem = pipesched.make_problem(devices=2, microbatches=4, static=[10, 30], activation=1, unit="GB")
    for budget, limits in ((40, (40, 40)), ([20, 40], (20, 40)), ("40000 MB", (40, 40))):
        changed = pipesched.make_problem(
            devices=2, microbatches=4, static=[10, 30], activation=1, unit="GB", budget=budget
        )
        request = SolveRequest(problem, budget=budget)
        assert (request.problem, request.problem.memory.budget, request.budget) == (changed, limits, None)
    layers: Any = {"devices": 2, "layers": 6, "microbatches": 4, "layer": {"activation": 1}, "last": {"forward": 3}}
    assert SolveRequest(pipesched.make_problem(**layers), budget=7).problem == pipesched.make_problem(
        **layers, budget=7
    )
    with pytest.raises(ConfigError, match=r"^budget: a list here needs 2 numbers"):
        pipesched.solve(problem, budget=[1, 2, 3])


def test_a_solve_takes_it() -> None:
    """Without time for rules of list scheduling, their best schedule is not found."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=5, backward=10, budget=2.5)
    hasty = SolvePolicy(portfolio=PortfolioPolicy(part=0.0))
    usual, poor = (
        solve_request(SolveRequest(problem, method="portfolio", advice=False, policy=each)).report
        for each in (DEFAULT, hasty)
    )
    assert usual is not None
    assert poor is not None
    assert (usual.source, usual.value) == ("list (longest-tail)", 195)
    assert poor.value > 195

"""Limits of time, stop events and listeners: what ends a solve, and what it says of that."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Event as StopEvent, Thread, current_thread, main_thread
from time import monotonic
from typing import Any, cast

import pytest
from ortools.sat.python.cp_model import CpSolver

import pipesched
from pipesched import Event, NoSchedule, SolveReport, StoppedBy, algorithms, make_problem, solve
from pipesched.core import clock
from pipesched.core.clock import EVERY, Clock, TimeIsUp, check_deadline, deadline, watched
from pipesched.core.cpsat import Limits
from pipesched.documents.schedule import report_of, solver_document
from pipesched.pipeline.problem.kinds import KEEP_ONLY
from pipesched.results.timed_moves import shortened
from pipesched.solver.cuts.tried import chain_of, fused_for_families, least_by_work
from pipesched.solver.feasible import placed, variants_of
from pipesched.solver.model import WITH_RELAXATIONS, full_model
from pipesched.solver.policy import DEFAULT, ExactPolicy, SolvePolicy, VariantPolicy
from pipesched.solver.recompute_offload import PlainVariant, RecomputeOffloadVariant
from pipesched.solver.search import Search
from pipesched.solver.solve import prove
from tests.examples import at_night_but
from tests.fake_clock import LATER, FakeClock
from tests.results.test_best_cut import DEEPSEEK

UNEVEN: dict[str, Any] = {
    "devices": 4, "stages": 8, "microbatches": 80, "forward": [3, 2, 2, 2, 2, 2, 2, 4], "backward": 5, "p2p": 0.5,
    "budget": 5,
}  # fmt: skip


def test_watched_looks_again_and_again() -> None:
    """All items, in order, and a look at least every 4096 of them."""
    items = list(range(3 * EVERY))
    assert list(watched(items)) == items
    assert list(watched([])) == []
    with deadline(Clock(0.0)), pytest.raises(TimeIsUp):
        list(watched(items))


def test_moves_look_while_they_are_made(fake_clock: FakeClock) -> None:
    """The first move of 24,000 operations is known after looks in each part of the work, not at its end alone."""
    schedule = pipesched.run(make_problem(devices=4, microbatches=3000, forward=1, backward=2), "1f1b").schedule
    before = fake_clock.now
    with deadline(Clock()):
        next(shortened(schedule), None)
    assert fake_clock.now - before > 8 * schedule.plan.index.size / EVERY


def search_of(case: PlainVariant | RecomputeOffloadVariant, seconds: float) -> Search:
    search = Search([case], Limits(seconds=seconds, workers=1), Clock(seconds))
    search.offer(0, next(case.quick_ruled_candidates()))
    return search


def test_no_model_is_made_that_cannot_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """With less time than presolve takes, no model is begun, and it is noted that time was short."""
    case = PlainVariant(pipesched.make_problem(**UNEVEN, placement="v"))
    monkeypatch.setattr(PlainVariant, "model", lambda *_: pytest.fail("a model was made"))
    search = search_of(case, 0.9 * DEFAULT.exact.before * case.index.size)
    prove(search, 0, search.clock)
    assert search.cut_off == {0}


def test_a_hint_counts_though_time_is_up() -> None:
    """A schedule that is given is checked and taken, whatever the limit, and though the solve was stopped before."""
    problem = pipesched.make_problem(**UNEVEN, placement="linear", activation=1)
    given = pipesched.run(problem, "list")
    stop = StopEvent()
    stop.set()
    several: list[dict[str, Any]] = [{"time_limit": 1e-6}, {"stop": stop}]
    for settings in several:
        outcome = pipesched.solve(problem, hint=given, **settings)
        assert outcome.report is not None
        assert outcome.report.source == "hint"
        assert outcome.schedule.makespan == given.schedule.makespan


# The bound of a solve is that of an idle machine on a loaded one; what was cut off or left out for time is named.

LAYERS: dict[str, Any] = {
    "devices": 4, "chunks": 2, "microbatches": 12, "layer": {"forward": [2, 1, 3, 1, 2, 5, 1, 1, 4, 2, 1, 3, 1]},
    "last": {"forward": 4}, "p2p": 1,
}  # fmt: skip


def solved(**options: Any) -> SolveReport:
    """The report of a solve of LAYERS by heuristics."""
    report = solve(make_problem(**LAYERS), method="portfolio", advice=False, **options).report
    assert report is not None
    return report


def test_some_device_has_as_many_layers_as_the_pigeonhole_says() -> None:
    """58 layers of 11.6 on 16 devices: one has 4, for 48 microbatches; it needs no search."""
    for problem in placed(make_problem(**cast("dict[str, Any]", DEEPSEEK)), None):
        chain = chain_of(problem)
        assert least_by_work(chain) == 2227.2 * chain.per_unit


def test_a_loaded_machine_has_the_bound_of_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes four times faster is a machine that has so much less time."""
    monkeypatch.setattr(clock, "monotonic", lambda: 4 * monotonic())
    report = solved(time_limit=20)
    assert (report.bound.value, report.cut_off) == (307, ())
    assert report.covers.startswith("all cuts, 1 or 2 chunks, placements ")


def test_a_search_for_bounds_that_is_cut_off_says_so(fake_clock: FakeClock) -> None:
    """The bound is then at least what is known without a search, and the report names what had too little time."""
    report = solved(time_limit=40)
    assert "cuts" in report.cut_off
    problem = make_problem(**LAYERS)
    problems = placed(problem, None)
    chains = map(chain_of, [*problems, *fused_for_families(problem, problems)])
    assert report.bound.value >= min(least_by_work(chain) / chain.per_unit for chain in chains)
    assert solver_document(report)["cut_off"] == [*report.cut_off]


def test_algorithms_without_time_are_named(fake_clock: FakeClock) -> None:
    """In the report and its document, by the names that `list` has."""
    outcome = solve(make_problem(**LAYERS), method="portfolio", advice=False, time_limit=40)
    report = outcome.report
    assert report is not None
    assert report.not_tried
    assert {*report.not_tried} <= {algorithm.name for algorithm in algorithms()}
    content = solver_document(report)
    assert report_of(content, outcome.metrics, outcome.schedule).not_tried == report.not_tried


def test_what_was_tried_on_other_cuts_is_not_called_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An algorithm without time for its best cut, which ran on others, says so; one that ran on none is named alone."""
    left: Any = [], ["interleaved", "zb-v"]
    monkeypatch.setattr("pipesched.solver.solve.of_families", lambda *_: left)
    assert solved(time_limit=20).not_tried == ("interleaved on its best cut", "zb-v")


# What ends a solve: stop events, time limits and listeners, at any moment and from any thread.

UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
FIRST = 1_000  # looks until there is a first schedule, at most
NEVER = 86_400  # looks: all steps come to their ends
STEPS = [
    "bounds",
    "quick schedules",
    "portfolio",
    "periodic",
    "one device",
    "justification",
    "improvement",
    "CP-SAT",
    "CP-SAT alone",
]


def open_problem() -> pipesched.Problem:
    """Uneven stages under a budget: CP-SAT and windows go on for minutes."""
    return pipesched.make_problem(
        devices=8,
        microbatches=24,
        placement="linear",
        forward=[30, 29, 29, 29, 28, 28, 28, 41],
        backward_input=[31, 29, 29, 29, 29, 29, 29, 38],
        backward_weight=[18, 18, 19, 19, 19, 19, 20, 32],
        p2p=1,
        activation=1,
        budget=5,
    )


def large_problem() -> pipesched.Problem:
    """So many operations that bounds and a single list schedule take more than a second."""
    return pipesched.make_problem(devices=16, stages=32, microbatches=1000, **UNIT, activation=1, budget=24)


def on_a_v() -> pipesched.Problem:
    """Uneven stages of a V under a budget."""
    return pipesched.make_problem(
        devices=4, stages=8, microbatches=80, placement="v", forward=[3, 2, 2, 2, 2, 2, 2, 4], backward=5, p2p=0.5,
        activation=1, budget=8,
    )  # fmt: skip


def answered(call: Callable[[], Any]) -> Any:
    """What a call returns, or the NoSchedule that it raises."""
    try:
        return call()
    except NoSchedule as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize("problem", [open_problem(), large_problem()], ids=["open", "large"])
def test_stopped_before_it_begins(problem: pipesched.Problem, fake_clock: FakeClock) -> None:
    """An event that is set already: at most one heuristic is tried, and the answer comes at once."""
    stop = StopEvent()
    stop.set()
    events: list[Event] = []
    result = answered(lambda: pipesched.solve(problem, stop=stop, time_limit=NEVER, listener=events.append))
    assert fake_clock.now <= LATER
    assert len({event.value for event in events} - {None}) <= 1
    if isinstance(result, NoSchedule):
        assert result.reason == "stopped before any schedule was found"
    else:
        assert result.report.stopped_by is StoppedBy.INTERRUPT
        assert pipesched.check(result) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", at_night_but(("bounds", "portfolio", "improvement", "CP-SAT alone"), STEPS))
def test_stopped_from_another_thread(step: str, fake_clock: FakeClock) -> None:
    """In the midst of any step: soon the best so far comes back, checked and within its budget."""
    stop, began = StopEvent(), list[int]()
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if event.step.startswith(step) and not began:
            began.append(fake_clock.now)
            fake_clock.stop_at(2, stop)

    step, _, alone = step.partition(" alone")
    settings: dict[str, Any] = {"method": "cpsat" if alone else "auto", "time_limit": NEVER, "workers": 1}
    outcome = answered(lambda: pipesched.solve(open_problem(), stop=stop, listener=listen, **settings))
    assert stop.is_set()
    assert fake_clock.now <= began[0] + LATER
    known = [event.value for event in heard if event.value is not None]
    if not known:
        assert isinstance(outcome, NoSchedule)
        return
    assert outcome.report.stopped_by is StoppedBy.INTERRUPT
    assert outcome.report.value == min(known)
    assert outcome.schedule.fits
    assert pipesched.check(outcome) == []
    assert outcome.report.bound.ticks <= outcome.report.value_ticks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "limit", "saves"),
    [
        *((open_problem(), limit, saves) for limit, saves in ((5, False), (500, True))),
        (on_a_v(), 700, False),
        (large_problem(), 5, True),
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in (
            (open_problem(), 5_000, True), (open_problem(), 40_000, False), (on_a_v(), 30, True),
            (large_problem(), 500, False),
            (large_problem(), 1_000, False),  # models for CP-SAT take a minute to make
        )),
    ],
)  # fmt: skip
def test_time_limits_hold(problem: pipesched.Problem, limit: float, saves: bool, fake_clock: FakeClock) -> None:
    """Whatever the size: a schedule that fits soon after the limit."""
    result = pipesched.solve(problem, time_limit=limit, recompute=saves, workers=1)
    assert fake_clock.now <= max(limit, FIRST) + LATER
    assert result.schedule.fits
    assert pipesched.check(result) == []
    assert result.report is not None
    assert result.report.stopped_by in ("time limit", "search")


@pytest.mark.slow
def test_a_frontier_is_stopped_with_the_points_so_far(fake_clock: FakeClock) -> None:
    """Set while some points are known: those come back."""
    stop = StopEvent()
    budgets: list[str] = []
    stopped: list[int] = []

    def listen(event: Event) -> None:
        if event.step.partition(",")[0] not in budgets:
            budgets.append(event.step.partition(",")[0])
        if len(budgets) == 3 and not stopped:
            stopped.append(fake_clock.now)
            stop.set()

    points = pipesched.frontier(open_problem(), time_limit=2_000, listener=listen, stop=stop, workers=1)
    assert fake_clock.now <= stopped[0] + LATER
    assert 1 <= len(points) <= 3
    assert all(point.outcome is not None and pipesched.check(point.outcome) == [] for point in points)


@pytest.mark.nightly
def test_a_time_limit_of_a_frontier_is_for_all_points(fake_clock: FakeClock) -> None:
    """Each gets a schedule; the first, at the problem's own budget, takes no more than its share of the time."""
    began: dict[str, float] = {}  # by budget

    def listen(event: Event) -> None:
        began.setdefault(event.step.partition(",")[0], fake_clock.now)

    points = pipesched.frontier(open_problem(), time_limit=20_000, listener=listen, workers=1)
    assert fake_clock.now <= 20_000 + LATER
    assert len(began) == len(points) == 5
    assert [point.value for point in points] == sorted((point.value for point in points), reverse=True)
    assert max(later - earlier for earlier, later in pairwise(began.values())) < 14_000


class OfTheListener(Exception):
    """What a listener raises."""


@pytest.mark.slow
@pytest.mark.parametrize("error", [OfTheListener("enough"), KeyError("x"), pipesched.ConfigError("x", "y")])
def test_what_a_listener_raises_in_this_thread(error: Exception) -> None:
    """The first event comes from this thread: what is raised there ends the solve, as it is."""

    def listen(_event: Event) -> None:
        assert current_thread() is main_thread()
        raise error

    with pytest.raises(type(error)) as caught:
        pipesched.solve(open_problem(), listener=listen, time_limit=20)
    assert caught.value is error


@pytest.mark.slow
def test_solves_in_two_threads_do_not_share_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short solve beside a long one: each ends by its own limit. Each thread has a time of its own here."""
    clocks = {"short": FakeClock(), "long": FakeClock()}

    def of_this_thread() -> int:
        return clocks[current_thread().name]()

    monkeypatch.setattr(clock, "monotonic", of_this_thread)

    def solve(limit: float) -> None:
        pipesched.solve(open_problem(), time_limit=limit, method="portfolio", advice=False)

    threads = [Thread(target=solve, args=(limit,), name=name) for name, limit in (("short", 150), ("long", 500))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 150 <= clocks["short"].now <= 150 + LATER
    assert 500 <= clocks["long"].now <= 500 + LATER


@pytest.mark.slow
def test_a_solve_leaves_no_clock_behind(fake_clock: FakeClock) -> None:
    """After a solve whose time was up, algorithms of this thread run on as if there had been none."""
    pipesched.solve(large_problem(), time_limit=5)
    check_deadline()
    assert pipesched.run(open_problem(), "list").schedule.fits


# The same answer for the same seed, one worker and one job, by every method, where no time limit ends the search.

SMALL: dict[str, Any] = {
    "devices": 3, "stages": 6, "microbatches": 6, "forward": [3, 2, 2, 2, 2, 4], "backward": 5, "p2p": 0.5, "budget": 4,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"method": "auto"},
        pytest.param({"method": "cpsat", "polish": False}, marks=pytest.mark.nightly),
        pytest.param({"method": "improve"}, marks=pytest.mark.nightly),
        pytest.param({"method": "periodic", "placement": "v"}, marks=pytest.mark.nightly),
        pytest.param({"method": "portfolio"}, marks=pytest.mark.nightly),
        pytest.param({"objective": "span"}, marks=pytest.mark.nightly),
        {"recompute": True, "placement": "linear", "gap": 0.1},
    ],
    ids=str,
)
def test_the_same_seed(settings: dict[str, Any]) -> None:
    """Orders, times, source and bound."""
    seed: dict[str, Any] = {} if settings.get("method") == "portfolio" else {"workers": 1, "seed": 5}
    problem = pipesched.make_problem(**SMALL)
    first, again = (pipesched.solve(problem, jobs=1, time_limit=600, **seed, **settings) for _ in range(2))
    assert first.report is not None
    assert again.report is not None
    assert first.report.stopped_by is again.report.stopped_by
    assert first.report.stopped_by is not StoppedBy.TIME_LIMIT
    assert (first.report.source, first.report.bound) == (again.report.source, again.report.bound)
    assert first.schedule.plan.orders == again.schedule.plan.orders
    assert first.schedule.start_ticks == again.schedule.start_ticks


@pytest.mark.parametrize(
    ("easy", "relaxed", "level", "left_out"), [(9, 99, 0, False), (1, 99, 1, False), (1, 1, 0, True)]
)
def test_relaxations_by_size(easy: int, relaxed: int, level: int, left_out: bool) -> None:
    """Small models are searched without linear relaxations, and large ones without all that derive them."""
    policy = SolvePolicy(variants=VariantPolicy(easy=easy), exact=ExactPolicy(relaxed=relaxed))
    (case,) = variants_of(make_problem(devices=2, microbatches=2, placement="linear"), None, KEEP_ONLY, policy)
    parameters = CpSolver().parameters
    parameters.linearization_level = 1
    full_model(case, 0, 100).tune(parameters, Limits(workers=2))
    assert (parameters.linearization_level, {*WITH_RELAXATIONS} <= {*parameters.ignore_subsolvers}) == (level, left_out)

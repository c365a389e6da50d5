"""What ends a solve: stop events, time limits and listeners, at any moment and from any thread."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Event as StopEvent, Thread, Timer, current_thread, main_thread
from time import monotonic
from typing import Any

import pytest

import pipesched
from pipesched.core.clock import look
from pipesched.errors import NoSchedule
from pipesched.results.status import StoppedBy
from pipesched.solver.search import Event

pytestmark = pytest.mark.slow

UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
SOON = 3.0  # seconds within which a solve ends once it should, on a busy machine


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


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, or the NoSchedule that it raises, and its seconds."""
    begin = monotonic()
    try:
        result = call()
    except NoSchedule as error:
        result = error
    return result, monotonic() - begin


@pytest.mark.parametrize("problem", [open_problem(), large_problem()], ids=["open", "large"])
def test_stopped_before_it_begins(problem: pipesched.Problem) -> None:
    """An event that is set already: at most one heuristic is tried, and the answer comes at once."""
    stop = StopEvent()
    stop.set()
    events: list[Event] = []
    result, seconds = timed(lambda: pipesched.solve(problem, stop=stop, time_limit=60, listener=events.append))
    assert seconds < SOON
    assert len({event.value for event in events} - {None}) <= 1
    if isinstance(result, NoSchedule):
        assert result.reason == "stopped before any schedule was found"
    else:
        assert result.report.stopped_by is StoppedBy.INTERRUPT
        assert pipesched.check(result) == []


@pytest.mark.parametrize("method", ["auto", "cpsat", "improve"])
def test_stopped_from_another_thread(method: str) -> None:
    """The best so far comes back soon after the event is set, checked and within its budget."""
    stop = StopEvent()
    timer = Timer(1.0, stop.set)
    timer.start()
    outcome, seconds = timed(lambda: pipesched.solve(open_problem(), stop=stop, time_limit=60, method=method))
    timer.join()
    assert 1.0 <= seconds < 1.0 + SOON
    assert outcome.report.stopped_by is StoppedBy.INTERRUPT
    assert outcome.schedule.fits
    assert pipesched.check(outcome) == []
    assert outcome.report.bound.ticks <= outcome.report.value_ticks


def test_stopped_while_a_large_case_is_bounded() -> None:
    """Bounds of a large case take long, and hear the event all the same."""
    stop = StopEvent()
    timer = Timer(0.3, stop.set)
    timer.start()
    result, seconds = timed(lambda: pipesched.solve(large_problem(), stop=stop, time_limit=60))
    timer.join()
    assert isinstance(result, (NoSchedule, pipesched.Outcome))
    assert seconds < 0.3 + SOON


def test_stopped_by_a_listener() -> None:
    """A listener may set the event: at the first schedule that it hears of, that one is the answer."""
    stop = StopEvent()
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if event.value is not None:
            stop.set()

    outcome = pipesched.solve(open_problem(), stop=stop, listener=listen, time_limit=60)
    assert outcome.report is not None
    assert outcome.report.stopped_by is StoppedBy.INTERRUPT
    first = next(event for event in heard if event.value is not None)
    assert (outcome.report.value, outcome.report.source) == (first.value, first.source)


def test_an_event_that_nobody_sets() -> None:
    """It changes nothing."""
    problem = pipesched.make_problem(devices=4, placement="linear", budget=3, **UNIT)
    outcome = pipesched.solve(problem, stop=StopEvent(), time_limit=60)
    assert outcome.report is not None
    assert (outcome.report.value, outcome.report.stopped_by) == (31, "proof")


@pytest.mark.parametrize("limit", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("problem", [open_problem(), large_problem()], ids=["open", "large"])
@pytest.mark.parametrize("saves", [False, True], ids=["keeping", "saving"])
def test_time_limits_hold(problem: pipesched.Problem, limit: float, saves: bool) -> None:
    """Whatever the size: a schedule that fits soon after the limit."""
    result, seconds = timed(lambda: pipesched.solve(problem, time_limit=limit, recompute=saves))
    assert seconds < limit + SOON
    assert result.schedule.fits
    assert pipesched.check(result) == []
    assert result.report.stopped_by in ("time limit", "search")


def test_a_time_limit_of_a_frontier_is_for_all_points() -> None:
    """Many points share it; each gets a schedule at least."""
    points, seconds = timed(lambda: pipesched.frontier(open_problem(), time_limit=2))
    assert seconds < 2 + SOON
    assert len(points) >= 2
    assert [point.value for point in points] == sorted((point.value for point in points), reverse=True)


def test_a_frontier_is_stopped_with_the_points_so_far() -> None:
    """Set while some points are known: those come back."""
    stop = StopEvent()
    budgets: list[str] = []

    def listen(event: Event) -> None:
        if event.step.partition(",")[0] not in budgets:
            budgets.append(event.step.partition(",")[0])
        if len(budgets) == 3:
            stop.set()

    points, seconds = timed(lambda: pipesched.frontier(open_problem(), time_limit=15, listener=listen, stop=stop))
    assert stop.is_set()
    assert seconds < 15
    assert 1 <= len(points) <= 3
    assert all(pipesched.check(point.outcome) == [] for point in points)


def test_a_budget_that_is_hard_leaves_time_for_the_others() -> None:
    """The first point of a frontier, at the problem's own budget, takes no more than its share of the time."""
    began: dict[str, float] = {}  # by budget

    def listen(event: Event) -> None:
        began.setdefault(event.step.partition(",")[0], monotonic())

    points, seconds = timed(lambda: pipesched.frontier(open_problem(), time_limit=6, listener=listen))
    assert seconds < 6 + SOON
    assert len(began) == len(points) == 5
    assert max(later - earlier for earlier, later in pairwise(began.values())) < 4


class OfTheListener(Exception):
    """What a listener raises."""


@pytest.mark.parametrize("error", [OfTheListener("enough"), KeyError("x"), pipesched.ConfigError("x", "y")])
def test_what_a_listener_raises_in_this_thread(error: Exception) -> None:
    """The first event comes from this thread: what is raised there ends the solve, as it is."""

    def listen(_event: Event) -> None:
        assert current_thread() is main_thread()
        raise error

    with pytest.raises(type(error)) as caught:
        pipesched.solve(open_problem(), listener=listen, time_limit=20)
    assert caught.value is error


@pytest.mark.parametrize("error", [OfTheListener("enough"), SystemExit(3)])
def test_what_a_listener_raises_in_a_thread_of_cpsat(error: BaseException) -> None:
    """Better schedules of CP-SAT are told from its own threads: what is raised there is raised here, as it is."""
    threads = []

    def listen(event: Event) -> None:
        threads.append(current_thread())
        if event.step.startswith("CP-SAT") and current_thread() is not main_thread():
            raise error

    problem = pipesched.make_problem(devices=4, microbatches=8, placement="linear", budget=3, **UNIT)
    begin = monotonic()
    with pytest.raises(type(error)) as caught:
        pipesched.solve(problem, listener=listen, method="cpsat", time_limit=60)
    assert caught.value is error
    assert any(thread is not main_thread() for thread in threads)
    assert monotonic() - begin < 20


def test_a_listener_is_never_called_twice_at_once() -> None:
    """Calls from several threads follow each other."""
    inside: list[int] = []
    overlaps: list[int] = []

    def listen(_event: Event) -> None:
        inside.append(1)
        overlaps.append(len(inside))
        inside.pop()

    pipesched.solve(open_problem(), listener=listen, time_limit=2, method="cpsat", workers=2)
    assert set(overlaps) == {1}


def test_solves_in_two_threads_do_not_share_a_clock() -> None:
    """A short solve beside a long one: each ends by its own limit."""
    seconds: dict[str, float] = {}

    def solve(name: str, limit: float) -> None:
        settings: dict[str, Any] = {"time_limit": limit, "method": "improve", "advice": False}
        seconds[name] = timed(lambda: pipesched.solve(open_problem(), **settings))[1]

    threads = [Thread(target=solve, args=arguments) for arguments in (("short", 0.5), ("long", 3.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seconds["short"] < 0.5 + SOON
    assert 2.9 <= seconds["long"] < 3.0 + SOON


def test_a_solve_leaves_no_clock_behind() -> None:
    """After a solve whose time was up, algorithms of this thread run on as if there had been none."""
    timed(lambda: pipesched.solve(large_problem(), time_limit=0.05))
    look()
    assert pipesched.run(open_problem(), "list").schedule.fits

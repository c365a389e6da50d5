"""What ends a solve: stop events, time limits and listeners, at any moment and from any thread.

Time is that of a fake clock: seconds are looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Event as StopEvent, Thread, current_thread, main_thread
from typing import Any

import pytest

import pipesched
from pipesched.core import clock
from pipesched.core.clock import look
from pipesched.errors import NoSchedule
from pipesched.results.status import StoppedBy
from pipesched.solver.search import Event
from tests.fake_clock import LATER, FakeClock

pytestmark = pytest.mark.slow

UNIT: dict[str, Any] = {"forward": 1, "backward_input": 1, "backward_weight": 1}
FIRST = 1_000  # looks until there is a first schedule, at most
NEVER = 86_400  # looks: all steps come to their ends
STEPS = ["bounds", "quick schedules", "portfolio", "periodic", "one device", "justification", "improvement", "CP-SAT"]


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


@pytest.mark.parametrize(
    ("method", "step"), [*(("auto", step) for step in STEPS), ("cpsat", "CP-SAT"), ("improve", "improvement")]
)
def test_stopped_from_another_thread(method: str, step: str, fake_clock: FakeClock) -> None:
    """In the midst of any step: soon the best so far comes back, checked and within its budget."""
    stop, began = StopEvent(), list[int]()
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if event.step.startswith(step) and not began:
            began.append(fake_clock.now)
            fake_clock.stop_at(2, stop)

    settings: dict[str, Any] = {"method": method, "time_limit": NEVER, "workers": 1}
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


@pytest.mark.parametrize(
    ("problem", "limit"),
    [
        *((open_problem(), limit) for limit in (5, 500, 5_000, 40_000)),
        *((on_a_v(), limit) for limit in (30, 700)),
        *((large_problem(), limit) for limit in (5, 500, 1_000)),  # later, models for CP-SAT take a minute to make
    ],
)
@pytest.mark.parametrize("saves", [False, True], ids=["keeping", "saving"])
def test_time_limits_hold(problem: pipesched.Problem, limit: float, saves: bool, fake_clock: FakeClock) -> None:
    """Whatever the size: a schedule that fits soon after the limit."""
    result = pipesched.solve(problem, time_limit=limit, recompute=saves, workers=1)
    assert fake_clock.now <= max(limit, FIRST) + LATER
    assert result.schedule.fits
    assert pipesched.check(result) == []
    assert result.report is not None
    assert result.report.stopped_by in ("time limit", "search")


def test_a_time_limit_of_a_frontier_is_for_all_points(fake_clock: FakeClock) -> None:
    """Many points share it; each gets a schedule at least."""
    points = pipesched.frontier(open_problem(), time_limit=20_000, workers=1)
    assert fake_clock.now <= 20_000 + LATER
    assert len(points) >= 2
    assert [point.value for point in points] == sorted((point.value for point in points), reverse=True)


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

    points = pipesched.frontier(open_problem(), time_limit=20_000, listener=listen, stop=stop, workers=1)
    assert fake_clock.now <= stopped[0] + LATER
    assert 1 <= len(points) <= 3
    assert all(point.outcome is not None and pipesched.check(point.outcome) == [] for point in points)


def test_a_budget_that_is_hard_leaves_time_for_the_others(fake_clock: FakeClock) -> None:
    """The first point of a frontier, at the problem's own budget, takes no more than its share of the time."""
    began: dict[str, float] = {}  # by budget

    def listen(event: Event) -> None:
        began.setdefault(event.step.partition(",")[0], fake_clock.now)

    points = pipesched.frontier(open_problem(), time_limit=60_000, listener=listen, workers=1)
    assert fake_clock.now <= 60_000 + LATER
    assert len(began) == len(points) == 5
    assert max(later - earlier for earlier, later in pairwise(began.values())) < 40_000


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


def test_a_solve_leaves_no_clock_behind(fake_clock: FakeClock) -> None:
    """After a solve whose time was up, algorithms of this thread run on as if there had been none."""
    pipesched.solve(large_problem(), time_limit=5)
    look()
    assert pipesched.run(open_problem(), "list").schedule.fits

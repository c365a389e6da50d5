"""When to stop: limits, events, and scopes that end what runs inside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

import pytest

from pipesched.core import clock as clocks
from pipesched.core.clock import EVERY, Clock, TimeIsUp, check_deadline, deadline
from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import TaskGraph


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let so many seconds pass on all clocks; no others do."""
    now = [100.0]
    monkeypatch.setattr(clocks, "monotonic", lambda: now[0])

    def forward(seconds: float) -> None:
        now[0] += seconds

    return forward


def test_a_clock_counts_from_its_making(pass_time: Callable[[float], None]) -> None:
    """Seconds go up, what is left goes down to nothing, and the limit itself is over."""
    clock = Clock(10)
    assert (clock.seconds, clock.left, clock.is_over) == (0, 10, False)
    pass_time(9.5)
    assert (clock.seconds, clock.left, clock.is_over) == (9.5, 0.5, False)
    pass_time(0.5)
    assert (clock.seconds, clock.left, clock.is_over) == (10, 0, True)
    pass_time(5)
    assert (clock.seconds, clock.left, clock.is_over) == (15, 0, True)
    assert not clock.is_stopped


def test_an_event_ends_it_at_once(pass_time: Callable[[float], None]) -> None:
    """A stopped clock is over and has nothing left, although its limit is far; it still tells the time."""
    stop = Event()
    clock = Clock(10, stop)
    pass_time(1)
    assert not clock.is_over
    stop.set()
    assert (clock.is_stopped, clock.is_over, clock.left, clock.seconds) == (True, True, 0, 1)


def test_a_part_ends_with_its_limit_or_the_whole(pass_time: Callable[[float], None]) -> None:
    """A part starts now, is never longer than what is left of the whole, and stops with it."""
    stop = Event()
    whole = Clock(10, stop)
    pass_time(4)
    short, long = whole.part(2), whole.part(60)
    assert (short.seconds, short.left, long.left) == (0, 2, 6)
    pass_time(2)
    assert (short.is_over, long.is_over) == (True, False)
    pass_time(4)
    assert long.is_over
    other = Clock(10, stop).part(5)
    stop.set()
    assert other.is_over


def test_a_look_raises_once_the_clock_is_over(pass_time: Callable[[float], None]) -> None:
    """Nothing before the limit, TimeIsUp after it, and nothing outside the scope."""
    with deadline(Clock(1)):
        check_deadline()
        pass_time(1)
        with pytest.raises(TimeIsUp):
            check_deadline()
    check_deadline()


def test_scopes_nest(pass_time: Callable[[float], None]) -> None:
    """The innermost clock counts; the outer one does again when the inner scope ends, also by an exception."""
    with deadline(Clock(1)):
        with suppress(KeyError), deadline(Clock(10)):
            pass_time(2)
            check_deadline()
            raise KeyError
        with pytest.raises(TimeIsUp):
            check_deadline()


def test_a_scope_is_of_its_thread() -> None:
    """Another thread looks at no clock of this one, though this one's is over."""
    stop, failures = Event(), list[BaseException]()
    stop.set()

    def peek() -> None:
        try:
            check_deadline()
        except TimeIsUp as error:
            failures.append(error)

    with deadline(Clock(60, stop)):
        thread = Thread(target=peek)
        thread.start()
        thread.join()
        with pytest.raises(TimeIsUp):
            check_deadline()
    assert not failures


def test_a_long_loop_looks() -> None:
    """List scheduling under a stopped clock ends in its middle, and is whole without one."""
    graph = TaskGraph([1] * (2 * EVERY), [0] * (2 * EVERY), [1])
    stop = Event()
    stop.set()
    with deadline(Clock(stop=stop)), pytest.raises(TimeIsUp):
        list_schedule(graph)
    assert len(list_schedule(graph).picked) == 2 * EVERY

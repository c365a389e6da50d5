"""Cancellation scopes: a time limit, and an event that any thread may set.

Long loops call `check_deadline`, which raises TimeIsUp once the clock of the surrounding scope (`deadline`) is over. So
a limit holds within a moment, whatever a step would have taken, and no function has to hand a clock on. Without a scope
`check_deadline` does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from math import inf
from threading import Event
from time import monotonic
from typing import TypeVar

EVERY = 0xFFF  # a mask: loops check the deadline once in 4096 steps, because a check costs as much as a step

T = TypeVar("T")
_CURRENT: ContextVar[Clock | None] = ContextVar("pipesched_clock", default=None)


class TimeIsUp(Exception):
    """Raised once the clock of the surrounding scope is over. Whatever opened the scope catches it."""


class Clock:
    """A clock that starts when it is made, and is over after `seconds`, or once the event `stop` is set."""

    def __init__(self, seconds: float = inf, stop: Event | None = None) -> None:
        self.limit, self.stop = seconds, stop
        self.began = monotonic()

    @property
    def seconds(self) -> float:
        return monotonic() - self.began

    @property
    def left(self) -> float:
        """The seconds until the limit; 0 once the clock was stopped."""
        is_stopped = self.stop is not None and self.stop.is_set()
        return 0.0 if is_stopped else max(self.limit - (monotonic() - self.began), 0.0)

    @property
    def is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    @property
    def is_over(self) -> bool:
        return not self.left

    def part(self, seconds: float) -> Clock:
        """Return a clock that starts now, and is over after `seconds`, or when this clock is."""
        return Clock(min(seconds, self.left), self.stop)


@contextmanager
def deadline(clock: Clock) -> Iterator[None]:
    """Let every `check_deadline` inside the block, in this thread, raise TimeIsUp once `clock` is over."""
    token = _CURRENT.set(clock)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def check_deadline() -> None:
    """Raise TimeIsUp if the clock of the surrounding scope is over."""
    clock = _CURRENT.get()
    if clock is not None and not clock.left:
        raise TimeIsUp


def watched(items: Sequence[T]) -> Iterator[T]:
    """Yield `items`, and check the deadline before every 4096 of them: for loops whose steps are too short for it."""
    return chain.from_iterable(_parts(items))


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), EVERY + 1):
        check_deadline()
        yield items[first : first + EVERY + 1]

"""A clock that goes on by a second whenever it is read, so that nothing depends on how fast the machine is.

Limits are then so many looks at the clock, and tests assert how many looks a search takes after its limit, or after it
was stopped. CP-SAT, which reads a clock of its own, gets a little effort for each of its searches, and takes all of the
time that it is given unless it proves something. Real seconds are measured by `scripts/bench_limits.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from threading import Event, RLock, Thread
from typing import Any

import pytest

from pipesched.core import clock
from pipesched.core.cpsat import Limits, SearchAnswer, TaskModel

EFFORT = 0.05  # of CP-SAT, in its deterministic seconds
LATER = 60  # looks after a limit or a stop, at most: where steps end, and cases


class FakeClock:
    """Stands for time.monotonic; `now` is the number of looks so far, and the time that CP-SAT took."""

    def __init__(self) -> None:
        self.now, self._at = 0, inf
        self._stop, self._lock = Event(), RLock()

    def __call__(self) -> int:
        self.goes_on(1)
        return self.now

    def goes_on(self, seconds: float) -> None:
        """Let time go by."""
        with self._lock:
            self.now += round(seconds)
            if self.now >= self._at:
                self._set()

    def stop_at(self, looks: int, stop: Event) -> None:
        """Let another thread set an event so many looks from now."""
        with self._lock:
            self._at, self._stop = self.now + looks, stop

    def _set(self) -> None:
        self._at = inf
        setting = Thread(target=self._stop.set)
        setting.start()
        setting.join()

    def search(self, solve: Callable[..., SearchAnswer], model: TaskModel, limits: Limits, *told: Any) -> SearchAnswer:
        """Let CP-SAT search, with a little effort; an event that is set by then ends it."""
        with self._lock:
            if self._at < self.now + limits.seconds:
                self.goes_on(self._at - self.now)
        answer = solve(model, limits._replace(seconds=inf, effort=min(limits.effort, EFFORT)), *told)
        is_done = answer.interrupted or answer.status in {"optimal", "infeasible"}
        self.goes_on(1 if is_done else limits.seconds)
        return answer


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Let all limits of this process read a fake clock."""
    fake, solve = FakeClock(), TaskModel.solve
    monkeypatch.setattr(clock, "monotonic", fake)
    monkeypatch.setattr(TaskModel, "solve", lambda model, limits, *told: fake.search(solve, model, limits, *told))
    return fake

"""How a search of CP-SAT ends at Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from threading import Event, Timer
from typing import Any

from pipesched.core.cpsat import _in_thread


class SlowToStop:
    """In place of a solver: it searches until it is told to stop, and then takes a moment."""

    def __init__(self) -> None:
        self.told = Event()

    def solve(self, _model: Any, _reporter: Any) -> int:
        """The status, in the end."""
        assert self.told.wait(10)
        time.sleep(0.1)
        return 0

    def stop_search(self) -> None:
        """Stop soon."""
        self.told.set()

    def status_name(self, _status: int) -> str:
        """What the status is called."""
        return "FEASIBLE"


def test_an_interrupt_waits_for_what_the_search_has_found() -> None:
    """Ctrl-C while the search runs ends it, and its answer is taken."""
    timer = Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    assert _in_thread(SlowToStop(), None, None) == ("FEASIBLE", True)
    timer.join()

"""CP-SAT's thread: Ctrl-C stops the search, and the answer waits for its end."""

from __future__ import annotations

import os
import signal
from threading import Event, Timer
from time import sleep

from pipesched.core.cpsat import _in_thread


class _Searching:
    """A solver that searches until it is told to stop, does not hear it the first time, and ends a little later."""

    def __init__(self) -> None:
        self.told, self.stopped = 0, Event()

    def solve(self, model: object, reporter: object) -> int:
        self.stopped.wait(10)
        sleep(0.2)
        return 2

    def stop_search(self) -> None:
        self.told += 1
        if self.told > 1:
            self.stopped.set()

    def status_name(self, status: int) -> str:
        return {2: "FEASIBLE"}[status]


def test_ctrl_c_waits_for_the_end_of_the_search() -> None:
    """The status is there although the search ends some time after Ctrl-C, and is told to stop until it hears."""
    Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert _in_thread(_Searching(), None, None) == ("FEASIBLE", True)

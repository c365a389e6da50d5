"""Ctrl-C during a search: the first ends the search with its best schedule so far, the second ends the program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import active_children
from threading import Event
from typing import Any


@contextmanager
def stop_on_interrupt() -> Iterator[Event]:
    """Yield an event that Ctrl-C sets inside the block; a second Ctrl-C raises KeyboardInterrupt."""
    stop = Event()

    def ask(_signal: int, _frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def leave_at_signals(losses: Sequence[float]) -> list[int]:
    """Let SIGTERM end the program, and Ctrl-C the ranks, but without `losses` the program; return what they add to."""
    asked = list[int]()

    def end(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        asked.append(number)
        for process in (processes := active_children()):
            process.kill()
        if number == signal.SIGINT and losses:
            return
        if number == signal.SIGINT:
            print("pipesched: interrupted before the end of the first step", file=sys.stderr, flush=True)
        if not processes:  # PyTorch's import might lose an exception
            os._exit(128 + number)
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):  # under torchrun this process is a rank
        signal.signal(number, signal.SIG_DFL if "RANK" in os.environ else end)
    return asked

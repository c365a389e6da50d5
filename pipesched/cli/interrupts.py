"""Ctrl-C during a search: the first ends the search with its best schedule so far, the second ends the program."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
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

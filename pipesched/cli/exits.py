"""Exit codes (`ExitStatus`), what ends a command with one (`stop`), and what Ctrl-C does to a search or to training."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from threading import Event
from typing import Any

import typer


class ExitStatus(IntEnum):
    """The exit codes of every command."""

    DONE = 0
    ANSWER_IS_NO = 1  # a budget below the floor, no schedule found, a check that failed, workers that died
    BAD_INPUT = 2
    INTERRUPTED = 130


def require_one(entries: Iterable[Any]) -> None:
    """Exit with the answer no where nothing that was named applies, or one failed, whose reasons were printed."""
    rows = [*entries]
    if not any(row.applicable for row in rows) or any(row.failed for row in rows):
        raise typer.Exit(ExitStatus.ANSWER_IS_NO)


def stop(message: str, status: ExitStatus) -> typer.Exit:
    """Return what ends a command, after a message on stderr."""
    print(f"pipesched: {message}", file=sys.stderr)
    return typer.Exit(status)


def quiet_pipe() -> None:
    """Discard all further output, what Python flushes at exit too: the reader of stdout has gone (`| head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    """Let SIGTERM end the program, and Ctrl-C the ranks alone (the program too while `losses` is empty).

    Return the list to which each signal adds its number.
    """
    from multiprocessing import active_children

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

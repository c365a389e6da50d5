"""What a command does, said on stderr once it lasts: in place on a terminal, else a line every ten seconds at most.

`with_options` begins and ends it for every command. What is printed meanwhile takes the place of the line, which comes
again below it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, RLock, Thread
from time import monotonic
from typing import Any, TextIO

from pipesched.cli.time_left import elapsed

AFTER, EVERY, REFRESH = 2.0, 10.0, 0.2  # seconds: before the first line, between two lines, and in place
CLEAR = "\r\x1b[K"
Text = str | Callable[[float], str]  # what is done, or what says it after so many seconds
DOES = {  # where a command says no more
    "check": "checking",
    "compare": "comparing",
    "estimate": "estimating",
    "explain": "explaining",
    "export": "exporting",
    "hls": "scheduling",
    "profile": "measuring",
    "robust": "timing with noise",
    "run": "scheduling",
    "show": "reading",
    "solve": "solving",
    "train": "training",
    "tune": "searching",
}


class ProgressLine:
    """The thread that says what is done; `texts` are what is under way, the innermost last."""

    def __init__(self, what: Text, err: TextIO) -> None:
        self.began, self.texts, self.err = monotonic() - elapsed(), [what], err
        self.in_place = err.isatty()
        self.lock, self.ended = RLock(), Event()
        self.is_shown = self.is_paused = False
        self.at_start = True  # of a line of the terminal
        self.thread = Thread(target=self._run, daemon=True, name="pipesched-progress")

    def line(self) -> str:
        """Return what is said now."""
        seconds, what = monotonic() - self.began, self.texts[-1]
        return what(seconds) if callable(what) else f"{seconds:5.1f} s  {what}"

    def _run(self) -> None:
        pause = max(AFTER - (monotonic() - self.began), 0)
        while not self.ended.wait(pause):
            with self.lock:
                self._show()
            pause = REFRESH if self.in_place else EVERY

    def _show(self) -> None:
        if self.is_paused or not self.at_start or self.ended.is_set():
            return
        if not self.texts[-1]:
            self.clear()
        elif self.in_place:
            self.err.write(CLEAR + self.line()[: get_terminal_size().columns - 1])
            self.is_shown = True
        else:
            self.err.write(self.line() + "\n")
        self.err.flush()

    def clear(self) -> None:
        """Take the line away from the terminal."""
        if self.is_shown:
            self.err.write(CLEAR)
            self.err.flush()
        self.is_shown = False

    def end(self) -> None:
        """Say no more."""
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        self.clear()


class _Cleared:
    """A stream on the terminal, for which the line of progress makes room."""

    def __init__(self, stream: TextIO, progress: ProgressLine) -> None:
        self.stream, self.progress = stream, progress

    def write(self, text: str) -> int:
        """Write a text where the line of progress was."""
        with self.progress.lock:
            self.progress.clear()
            self.progress.at_start = text.endswith("\n") or (self.progress.at_start and not text)
            return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_running: list[ProgressLine] = []  # that of the command, if it is not quiet


@contextmanager
def progress_of(command: str, *, quiet: bool) -> Iterator[None]:
    """Say on stderr what a command does inside the block; with `quiet` nothing."""
    if quiet or sys.stderr is None:
        yield
        return
    progress, streams = ProgressLine(DOES.get(command, "working"), sys.stderr), (sys.stdout, sys.stderr)
    _running.append(progress)
    if progress.in_place:
        sys.stdout, sys.stderr = (
            _Cleared(one, progress) if one is not None and one.isatty() else one for one in streams
        )
    progress.thread.start()
    try:
        yield
    finally:
        _running.remove(progress)
        progress.end()
        sys.stdout, sys.stderr = streams


def is_quiet() -> bool:
    """Return whether the command says neither progress nor timing."""
    return not _running


@contextmanager
def doing(what: Text) -> Iterator[Callable[[str], None]]:
    """Say this, while the block lasts, where progress is said; yield what says another text instead, or "": none."""
    texts = _running[-1].texts if _running else []
    texts.append(what)
    place = len(texts) - 1

    def say(text: str) -> None:
        texts[place] = text

    try:
        yield say
    finally:
        texts.pop()


@contextmanager
def no_progress() -> Iterator[None]:
    """Leave the terminal alone, while the block lasts."""
    progress = _running[-1] if _running else None
    if progress is None:
        yield
        return
    with progress.lock:
        progress.clear()
        progress.is_paused = True
    try:
        yield
    finally:
        progress.is_paused = False

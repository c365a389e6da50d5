"""What a command does, said on stderr once it lasts; and what time of its limit a search has left.

`with_options` begins and ends it for every command (`progress_of`), which then says what it is `doing`. What is printed
meanwhile takes the place of the line, which comes again below it.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Event, RLock, Thread
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipesched.solver.search import Event as SearchEvent, Listener
    from pipesched.tuning.search import Progress

_began: list[float] = []


def begin() -> None:
    """Take note that the process of the command line has just begun."""
    _began.append(monotonic() - process_time())


def elapsed() -> float:
    """Return the seconds since the process began; 0 in a process that is not the command line's."""
    return monotonic() - _began[0] if _began else 0.0


DOCUMENT, CHART, CLASSES = 8e-6, 4e-6, 2e-5  # seconds an operation on a slow core: to write, to draw, to classify
LEAST = 1e-3  # seconds of a search


def most_classified(limit: float) -> int:
    """Return of how many operations idle time is classified under a time limit in seconds: 0.1 s and a twentieth."""
    return int((0.1 + 0.05 * limit) / CLASSES)


def left_for_search(
    limit: float, operations: int, *, documents: int = 0, chart: bool = False, classes: bool = False
) -> float:
    """Return the seconds of a limit that a search has, before documents, a chart and idle classes are made.

    What draws and prints is loaded in 0.2 s. A search without time has a millisecond: its first schedule is the answer.
    """
    each = documents * DOCUMENT + chart * CHART + classes * CLASSES
    return max(limit - elapsed() - 0.2 - operations * each, min(LEAST, limit))


AFTER, EVERY, REFRESH = 2.0, 10.0, 0.2  # seconds: before the first line, between two lines, and in place
CLEAR = "\r\x1b[K"
Text = str | Callable[[float], str]  # what is done, or what says it after so many seconds
DOES = {  # where a command says no more
    "check": "checking", "compare": "comparing", "estimate": "estimating", "explain": "explaining",
    "export": "exporting", "hls": "scheduling", "profile": "measuring", "robust": "timing with noise",
    "run": "scheduling", "show": "reading", "solve": "solving", "train": "training", "tune": "searching",
}  # fmt: skip


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
        seconds, what = monotonic() - self.began, self.texts[-1]
        return what(seconds) if callable(what) else f"{seconds:5.1f} s  {what}"

    def _run(self) -> None:
        pause = max(AFTER - (monotonic() - self.began), 0)
        while not self.ended.wait(pause):
            pause = REFRESH if self.in_place else EVERY
            with self.lock:
                if self.is_paused or not self.at_start or self.ended.is_set():
                    continue
                if not self.texts[-1]:
                    self.clear()
                elif self.in_place:
                    self.err.write(CLEAR + self.line()[: get_terminal_size().columns - 1])
                    self.is_shown = True
                else:
                    self.err.write(self.line() + "\n")
                self.err.flush()

    def clear(self) -> None:
        if self.is_shown:
            self.err.write(CLEAR)
            self.err.flush()
        self.is_shown = False

    def end(self) -> None:
        self.ended.set()
        if self.thread.is_alive():
            self.thread.join()
        self.clear()


class _Cleared:
    """A stream on the terminal, for which the line of progress makes room."""

    def __init__(self, stream: TextIO, progress: ProgressLine) -> None:
        self.stream, self.progress = stream, progress

    def write(self, text: str) -> int:
        with self.progress.lock:
            self.progress.clear()
            self.progress.at_start = text.endswith("\n") or (self.progress.at_start and not text)
            return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_running: list[ProgressLine] = []  # that of the command, if it is not quiet


@contextmanager
def progress_of(command: str) -> Iterator[None]:
    """Say on stderr what a command does inside the block."""
    if sys.stderr is None:
        yield
        return
    progress, streams = ProgressLine(DOES.get(command, "working"), sys.stderr), (sys.stdout, sys.stderr)
    _running.append(progress)
    if progress.in_place:
        sys.stdout, sys.stderr = (_Cleared(one, progress) if one and one.isatty() else one for one in streams)
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
    if not _running:
        yield
        return
    progress = _running[-1]
    with progress.lock:
        progress.clear()
        progress.is_paused = True
    try:
        yield
    finally:
        progress.is_paused = False


@contextmanager
def progress_of_solve() -> Iterator[Listener | None]:
    """Yield a listener whose last event is the progress of the command; of a quiet one None."""
    heard: deque[SearchEvent] = deque(maxlen=1)
    with doing(lambda seconds: line(heard[0], seconds) if heard else f"{seconds:5.1f} s  solving"):
        yield None if is_quiet() else heard.append


@contextmanager
def progress_of_tuning() -> Iterator[Callable[[Progress], None] | None]:
    """Yield a listener that shows how far a tuning is; of a quiet command None."""
    heard: deque[Progress] = deque(maxlen=1)
    if is_quiet() or not sys.stderr.isatty():
        with doing(lambda seconds: tuning_line(heard[0] if heard else None, seconds)):
            yield None if is_quiet() else heard.append
        return
    from rich.console import Console
    from rich.live import Live

    bar = TuningBar()
    with no_progress(), Live(bar, console=Console(stderr=True), refresh_per_second=5, transient=True):
        yield bar.hear


def line(event: SearchEvent, seconds: float) -> str:
    """Return the line for an event: elapsed time, best value so far and its source, bound, gap, step of the solve."""
    parts = [f"{seconds:5.1f} s"]
    if event.value is not None:
        parts.append(f"best {event.value:g} ({event.source})")
    if event.bound:
        parts.append(f"bound {event.bound:g}")
    if event.gap is not None:
        parts.append(f"gap {event.gap:.2%}")
    return "  ".join([*parts, event.step])


def tuning_line(progress: Progress | None, seconds: float) -> str:
    """Return the line for what was found so far: elapsed time, step, points, and the best."""
    if progress is None:
        return f"{seconds:5.0f} s  search"
    parts = [f"{seconds:5.0f} s", progress.step or "search", counts(progress), best(progress)]
    return "  ".join(filter(None, parts))


class TuningBar:
    """A bar of the points that are done since the search began, of those to do, and the best so far below it."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        said = TextColumn("{task.fields[said]}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        self.bar = RichProgress(TextColumn("{task.description}"), BarColumn(16), TimeElapsedColumn(), said)
        self.task = self.bar.add_task("space", total=None, said="")
        self.before: int | None = None  # points that were dropped before any was simulated
        self.last: Progress | None = None

    def hear(self, progress: Progress) -> None:
        done = progress.simulated + sum(progress.pruned.values())
        if self.before is None:
            self.before = done
        self.last, at, text = progress, done - self.before, progress.step or "search"
        self.bar.update(self.task, description=text, completed=at, total=at + progress.left, said=counts(progress))

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        text = "" if self.last is None else best(self.last)
        return Group(self.bar, Text(text, no_wrap=True, overflow="ellipsis")) if text else self.bar


def counts(progress: Progress) -> str:
    """Return how many points were simulated, dropped and left."""
    dropped = sum(progress.pruned.values())
    return f"{progress.simulated:,} simulated, {dropped:,} dropped, {progress.left:,} left"


def best(progress: Progress) -> str:
    """Return the best so far; "" while there is none."""
    if progress.best is None:
        return ""
    point = progress.best.point
    return f"best {progress.best.rate:,.1f} tokens/s/GPU: {point.layout}, {point.algorithm}"

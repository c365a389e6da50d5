"""The progress of a search on stderr: on a terminal what is kept up to date, else lines, of a tuning few."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from pipesched.solver.search import Event, Listener
    from pipesched.tuning.search import Progress

SECONDS_A_LINE = 10.0  # of a tuning, without a terminal


def progress_on_stderr(quiet: bool) -> AbstractContextManager[Listener | None]:
    """Return a context with a listener that shows the events of a solve until it ends; with `quiet`, with None."""
    return _shown(quiet, lambda: _print_event, _ProgressLine)


def tuning_on_stderr(quiet: bool) -> AbstractContextManager[Callable[[Progress], None] | None]:
    """Return a context with a listener that shows how far a tuning is until it ends; with `quiet`, with None."""
    return _shown(quiet, lambda: Lines().hear, TuningBar)


@contextmanager
def _shown(quiet: bool, lines: Callable[[], Any], live: Callable[[], Any]) -> Iterator[Any]:
    """Yield what prints lines, or where stderr is a terminal, what `live` hears and shows."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield lines()
    else:
        from rich.console import Console
        from rich.live import Live

        shown = live()
        with Live(shown, console=Console(stderr=True), refresh_per_second=5, transient=True):
            yield shown.hear


def _print_event(event: Event) -> None:
    print(line(event, event.seconds), file=sys.stderr, flush=True)


class _ProgressLine:
    """The last event, with the time since the solve began."""

    def __init__(self) -> None:
        self.began = monotonic()
        self.event: Event | None = None

    def hear(self, event: Event) -> None:
        """Show `event` from now on."""
        self.event = event

    def __rich__(self) -> Text:
        from rich.text import Text

        seconds = monotonic() - self.began
        text = line(self.event, seconds) if self.event else f"{seconds:5.1f} s"
        return Text(text, no_wrap=True, overflow="ellipsis")


def line(event: Event, seconds: float) -> str:
    """Return the line for an event: elapsed time, best value so far and its source, bound, gap, step of the solve."""
    parts = [f"{seconds:5.1f} s"]
    if event.value is not None:
        parts.append(f"best {event.value:g} ({event.source})")
    if event.bound:
        parts.append(f"bound {event.bound:g}")
    if event.gap is not None:
        parts.append(f"gap {event.gap:.2%}")
    return "  ".join([*parts, event.step])


class Lines:
    """A line every ten seconds, so that a log stays short."""

    def __init__(self) -> None:
        self.began = self.last = monotonic()

    def hear(self, progress: Progress) -> None:
        """Print a line, if the last one is old enough."""
        now = monotonic()
        if now - self.last >= SECONDS_A_LINE:
            self.last = now
            parts = [f"{now - self.began:5.0f} s", progress.step or "search", counts(progress), best(progress)]
            print("  ".join(filter(None, parts)), file=sys.stderr, flush=True)


class TuningBar:
    """A bar of the points that are done since the search began, of those to do, and the best so far below it."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        columns = (
            TextColumn("{task.description}"),
            BarColumn(16),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        self.bar = RichProgress(*columns)
        self.task = self.bar.add_task("space", total=None, said="")
        self.before: int | None = None  # points that were dropped before any was simulated
        self.last: Progress | None = None

    def hear(self, progress: Progress) -> None:
        """Show this from now on."""
        done = progress.simulated + sum(progress.pruned.values())
        if self.before is None:
            self.before = done
        self.last = progress
        at = done - self.before
        text = progress.step or "search"
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

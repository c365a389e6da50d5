"""The progress of a search: of a solve a line, of a tuning a line, or on a terminal a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipesched.cli.progress import doing, is_quiet, no_progress

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipesched.solver.search import Event, Listener
    from pipesched.tuning.search import Progress


@contextmanager
def progress_of_solve() -> Iterator[Listener | None]:
    """Yield a listener whose last event is the progress of the command; of a quiet one None."""
    heard: list[Event] = []

    def hear(event: Event) -> None:
        heard[:] = [event]

    with doing(lambda seconds: line(heard[0], seconds) if heard else f"{seconds:5.1f} s  solving"):
        yield None if is_quiet() else hear


@contextmanager
def progress_of_tuning() -> Iterator[Callable[[Progress], None] | None]:
    """Yield a listener that shows how far a tuning is; of a quiet command None."""
    heard: list[Progress] = []

    def hear(progress: Progress) -> None:
        heard[:] = [progress]

    if is_quiet() or not sys.stderr.isatty():
        with doing(lambda seconds: tuning_line(heard[0] if heard else None, seconds)):
            yield None if is_quiet() else hear
        return
    from rich.console import Console
    from rich.live import Live

    bar = TuningBar()
    with no_progress(), Live(bar, console=Console(stderr=True), refresh_per_second=5, transient=True):
        yield bar.hear


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

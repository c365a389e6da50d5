"""The progress of a solve on stderr: on a terminal one line that is kept up to date, else a line for each event."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from pipesched.solver.search import Event, Listener


@contextmanager
def progress_on_stderr(quiet: bool) -> Iterator[Listener | None]:
    """Yield a listener that shows events until the block ends; with `quiet`, yield None."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield lambda event: print(line(event, event.seconds), file=sys.stderr, flush=True)
    else:
        from rich.console import Console
        from rich.live import Live

        progress = _ProgressLine()
        with Live(progress, console=Console(stderr=True), refresh_per_second=5, transient=True):
            yield progress.hear


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

"""What a solve knows while it runs, on stderr: one line that stays up to date on a terminal, else a line an event."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from pipesched.pipeline.quantities import in_units

if TYPE_CHECKING:
    from rich.text import Text

    from pipesched.solver.search import Event, Listener


@contextmanager
def progress_on_stderr(quiet: bool) -> Iterator[Listener | None]:
    """A listener that shows events, until the block ends."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield lambda event: print(line(event, event.seconds), file=sys.stderr, flush=True)
    else:
        from rich.console import Console
        from rich.live import Live

        status = _Status()
        with Live(status, console=Console(stderr=True), refresh_per_second=5, transient=True):
            yield status.hear


class _Status:
    """The last event with a clock that runs on."""

    def __init__(self) -> None:
        self.began = monotonic()
        self.event: Event | None = None

    def hear(self, event: Event) -> None:
        """Show this from now on."""
        self.event = event

    def __rich__(self) -> Text:
        from rich.text import Text

        seconds = monotonic() - self.began
        text = line(self.event, seconds) if self.event else f"{seconds:5.1f} s"
        return Text(text, no_wrap=True, overflow="ellipsis")


def line(event: Event, seconds: float) -> str:
    """Elapsed, incumbent and where it came from, bound, gap, stage."""
    parts = [f"{seconds:5.1f} s"]
    if event.value is not None:
        parts.append(f"best {in_units(event.value, event.scale):g} ({event.source})")
    if event.bound:
        parts.append(f"bound {in_units(event.bound, event.scale):g}")
        if event.value is not None:
            parts.append(f"gap {(event.value - event.bound) / event.bound:.2%}")
    return "  ".join([*parts, event.stage])

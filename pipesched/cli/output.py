"""Where output goes: the console for people, one JSON document for programs, files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.cli.options import ChartView, Screen, Target
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from pipesched.outcome import Outcome
    from pipesched.pipeline.problem import Problem
    from pipesched.pipeline.schedule import Schedule
    from pipesched.render.gantt import Gantt
    from pipesched.render.timescale import Window
    from pipesched.render.view import View

LARGE = 200_000  # operations from which scheduling may take a second
WHOLE = ChartView(1, None, None, "auto", None)
NARROWEST, WIDEST = 20, 10_000  # columns, whatever the terminal says


def console_for(screen: Screen) -> Console:
    """A console on stdout, as wide and as colourful as asked."""
    from rich.console import Console

    from pipesched.cli.exits import quiet_pipe

    class PipeConsole(Console):
        """Ends without a word when its reader has gone."""

        def on_broken_pipe(self) -> None:
            quiet_pipe()
            raise SystemExit(0)

    plain = screen.no_color or screen.ascii_only
    console = PipeConsole(
        file=sys.stdout,
        width=screen.width,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=True if plain else None,
        color_system=None if plain else "auto",
    )
    console.width = min(max(console.width, NARROWEST), WIDEST)
    return console


def working(problem: Problem) -> AbstractContextManager[object]:
    """A sign of life on stderr while a large problem is scheduled, where stderr is a terminal."""
    operations = 2 * problem.stages * problem.microbatches
    if operations < LARGE or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(f"scheduling {operations:,} operations")


def print_json(content: Mapping[str, Any]) -> None:
    """The one document on stdout."""
    from pipesched.formats.schedule_json import dump

    sys.stdout.write(dump(content))


def chart(
    schedule: Schedule, view: ChartView, screen: Screen, company: Sequence[Schedule] = (), *, show_legend: bool = True
) -> Gantt:
    """The chart of a schedule as the options ask for it, on the time scale of all in `company`.

    Raises ConfigError for a window with nothing in it.
    """
    from pipesched.render.gantt import Gantt

    return Gantt(
        schedule,
        window=window(schedule, view, max((max(one.last_end) for one in company), default=None)),
        zoom=view.zoom,
        label=view.label,
        memory=view.memory,
        ascii_only=screen.ascii_only,
        company=company,
        show_legend=show_legend,
    )


def window(schedule: Schedule, view: ChartView, until: int | None = None) -> Window:
    """The part of the timeline to draw, up to the tick `until` (default: its own end). Raises ConfigError if empty."""
    from pipesched.pipeline.quantities import in_units
    from pipesched.render.timescale import Window

    scale, last = schedule.problem.costs.scale, max(schedule.last_end) if until is None else until
    start = 0 if view.start is None else max(round(view.start * scale), 0)
    end = last if view.end is None else min(round(view.end * scale), last)
    if start >= end and last:
        shown = in_units(last, scale)
        raise ConfigError(f"--from, --to: nothing to draw there; the schedule runs from 0 to {shown}")
    return Window(start, end)


def print_schedule(
    outcome: Outcome, view: ChartView, screen: Screen, given: Problem | None = None, *, timing: bool = True
) -> None:
    """Heading, chart and summary. `given` is the problem before it was fused; `timing`: say how long a solve took."""
    from pipesched.render.summary import heading, summary

    console, drawing = console_for(screen), chart(outcome.schedule, view, screen)
    console.print(heading(outcome, given))
    console.print(drawing)
    console.print()
    console.print(summary(outcome, brief=console.width < 80, timing=timing))
    if outcome.schedule.plan.note:
        console.print(f"note: {outcome.schedule.plan.note}")


def target_format(target: Target, names: Collection[str] | None = None) -> str | None:
    """The format of the target file by its suffix (one of `names`), or None without a file.

    Raises ConfigError for another suffix, a file that exists, or a figure without matplotlib: early, before anything
    takes long.
    """
    if target.path is None:
        return None
    from pipesched.formats.registry import FIGURES, FORMATS, format_of

    name = format_of(target.path, {one.name: one.suffix for one in FORMATS.values() if not names or one.name in names})
    refuse_existing(Path(target.path), target.force)
    if name in FIGURES:
        import_module("pipesched.render.figure")  # refuses to load without matplotlib
    return name


def figure_format(target: Target) -> str | None:
    """The format of the target file if that is a figure and not a document. Raises what target_format raises."""
    from pipesched.formats.registry import FIGURES

    name = target_format(target, ["json", *FIGURES])
    return name if name in FIGURES else None


def save(outcome: Outcome, target: Target, view: ChartView = WHOLE) -> None:
    """Write the schedule to the target file, if there is one, in the format of its suffix; `view` is for figures."""
    name = target_format(target)
    if target.path is not None and name is not None:
        from pipesched.formats.registry import FORMATS

        content = FORMATS[name].write(outcome, figure_view(outcome.schedule, view))
        write_file(Path(target.path), [content], target.force)


def figure_view(schedule: Schedule, view: ChartView, until: int | None = None) -> View:
    """The chart's options, for a figure of the same part of the schedule."""
    from pipesched.render.timescale import zoomed
    from pipesched.render.view import View

    return View(zoomed(window(schedule, view, until), view.zoom), view.label, view.memory)


def save_json(content: Mapping[str, Any], target: Target) -> None:
    """Write a document to the target file, if there is one."""
    if target_format(target, ["json"]) is not None and target.path is not None:
        from pipesched.formats.schedule_json import dump

        write_file(Path(target.path), [dump(content)], target.force)


def save_image(image: bytes, target: Target) -> None:
    """Write a figure to the target file."""
    write_file(Path(str(target.path)), [image], target.force)


def refuse_existing(path: Path, force: bool) -> None:
    """Raises ConfigError for a file that is there already, and may not be replaced."""
    if os.path.lexists(path) and not force:
        raise ConfigError(f"{path} exists; --force overwrites it")


def write_file(path: Path, parts: Iterable[str | bytes], force: bool) -> None:
    """Write a file whole or not at all; an existing one only by force. Raises ConfigError."""
    temporary: str | None = None
    try:
        refuse_existing(path, force)
        target = path.resolve()  # a link stays one: what it points to is written
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.writelines(part.encode() if isinstance(part, str) else part for part in parts)
        _open_to_all(Path(temporary))
        Path(temporary).replace(target)
        temporary = None
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _open_to_all(path: Path) -> None:
    """Temporary files are private; a result has the permissions of any new file."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)

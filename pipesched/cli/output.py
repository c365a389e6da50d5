"""Where output goes: the console for people, one JSON document for programs, files whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.cli.options import ChartView, Screen, Target
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from pipesched.outcome import Outcome
    from pipesched.pipeline.problem import Problem
    from pipesched.pipeline.schedule import Schedule
    from pipesched.render.gantt import Gantt
    from pipesched.render.timescale import Window

LARGE = 200_000  # operations from which scheduling may take a second
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


def print_schedule(outcome: Outcome, view: ChartView, screen: Screen, given: Problem | None = None) -> None:
    """Heading, chart and summary. `given` is the problem before it was fused."""
    from pipesched.render.summary import heading, summary

    console, drawing = console_for(screen), chart(outcome.schedule, view, screen)
    console.print(heading(outcome, given))
    console.print(drawing)
    console.print()
    console.print(summary(outcome, brief=console.width < 80))
    if outcome.schedule.plan.note:
        console.print(f"note: {outcome.schedule.plan.note}")


class ReadSchedule(NamedTuple):
    """A schedule from a file, not checked yet; a document keeps its text, and a CSV the problem as it was given."""

    outcome: Outcome
    text: str | None = None
    given: Problem | None = None


def read_schedule(name: str, problem: tuple[str | None, dict[str, str]] = (None, {})) -> ReadSchedule:
    """The schedule in a file or on standard input ("-"): a JSON document, or a CSV of PyTorch timed by the costs of
    `problem`.

    Raises ConfigError, and InvalidSchedule for a CSV that cannot run.
    """
    text = _read_text(name, problem[0])
    source = "<stdin>" if name == "-" else name
    if _is_csv(text, source):
        return _read_csv(text, source, problem)
    if any(problem):
        raise ConfigError(f"{source}: a schedule document holds its own problem; configs and their options go with CSV")
    from pipesched.formats.schedule_json import parse

    return ReadSchedule(parse(text, source), text)


def _read_text(name: str, config: str | None) -> str:
    from pipesched.config.load import read_stdin
    from pipesched.config.yaml_reader import decode
    from pipesched.formats.schedule_json import MOST_BYTES

    if name == "-":
        if config == "-":
            raise ConfigError("standard input holds the schedule or the config, not both")
        return decode(read_stdin(MOST_BYTES + 1), "<stdin>", MOST_BYTES)
    try:
        with Path(name).open("rb") as file:
            return decode(file.read(MOST_BYTES + 1), name, MOST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"cannot read {name!r}: {reason}") from None


def _is_csv(text: str, source: str) -> bool:
    """A CSV begins with an operation such as 0F0, if not with empty cells; a suffix says what else it was meant for."""
    first = text.lstrip(' \t\r\n,"')[:1]
    return (first.isdigit() or first == "(") or (first != "{" and source.lower().endswith(".csv"))


def _read_csv(text: str, source: str, problem: tuple[str | None, dict[str, str]]) -> ReadSchedule:
    from pipesched.config.imported import imported_problem
    from pipesched.formats.pytorch_csv import parse
    from pipesched.outcome import Outcome
    from pipesched.pipeline.schedule import schedule_plan

    plan, placement = parse(text, source)
    fitted, given = imported_problem(plan, placement, *problem, source)
    name = Path(source).stem
    return ReadSchedule(Outcome(name if name.isprintable() else "csv", schedule_plan(fitted, plan)), given=given)


def save(outcome: Outcome, target: Target) -> None:
    """Write the schedule to the target file, if there is one, in the format of its suffix."""
    if target.path is not None:
        from pipesched.formats.schedule_json import document

        save_json(document(outcome), target)


def save_json(content: Mapping[str, Any], target: Target) -> None:
    """Write a document to the target file, if there is one."""
    if target.path is None:
        return
    if Path(target.path).suffix.lower() != ".json":
        raise ConfigError(f"--output: {target.path!r} must end in .json")
    from pipesched.formats.schedule_json import dump

    write_file(Path(target.path), [dump(content)], target.force)


def write_file(path: Path, parts: Iterable[str], force: bool) -> None:
    """Write a text file whole or not at all; an existing one only by force. Raises ConfigError."""
    temporary: str | None = None
    try:
        if os.path.lexists(path) and not force:
            raise ConfigError(f"{path} exists; --force overwrites it")
        target = path.resolve()  # a link stays one: what it points to is written
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
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

"""The answers of commands: `answer_schedule`, `print_result` on the console or as JSON, `write_target` to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipesched.cli.exits import quiet_pipe
from pipesched.cli.groups import spell
from pipesched.cli.options import NARROWEST, OF_PARTS, WIDEST, ChartOptions, Screen, Target
from pipesched.cli.progress import doing
from pipesched.errors import ConfigError, PipeschedWarning
from pipesched.results.kinds import RESULTS, SCHEDULE, kind_of

if TYPE_CHECKING:
    from rich.console import Console

    from pipesched.display import Displayable
    from pipesched.file_formats.registry import Content, Format
    from pipesched.pipeline.problem.problem import Problem
    from pipesched.render.gantt import Gantt
    from pipesched.render.view import View
    from pipesched.results.outcome import Outcome

MOST_CLASSIFIED = 50_000  # operations: of more, only `pipesched explain` classifies idle time


def console_for(screen: Screen) -> Console:
    """Return a console on stdout, as wide and as colourful as asked."""
    from rich.console import Console

    class PipeConsole(Console):
        """A console that ends the program without a message when the reader of stdout has gone."""

        def on_broken_pipe(self) -> None:
            quiet_pipe()
            raise SystemExit(0)

    plain = screen.no_color or screen.ascii_only or bool(os.environ.get("NO_COLOR"))  # bold and dim are colours too
    colours: dict[str, Any] = {"no_color": True, "color_system": None} if plain else {}
    looks = {**colours, "highlight": False, "markup": False, "emoji": False}
    console = PipeConsole(file=sys.stdout, width=screen.width, **looks)
    console.size = min(max(console.width, NARROWEST), WIDEST), console.height  # asked once
    return console


def working(
    problem: Problem, algorithms: int = 1, what: str = "scheduling"
) -> AbstractContextManager[Callable[[str], None]]:
    """Return a context in which progress says how many operations are scheduled, or `what` else is done with them."""
    operations = 2 * problem.stages * problem.microbatches * algorithms
    return doing(f"{what} {operations:,} operations")


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Let warnings of pipesched, inside the block, look like its other messages."""
    import warnings

    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *more: Any) -> None:
        if issubclass(category, PipeschedWarning):
            print(f"pipesched: warning: {message}", file=sys.stderr)
        else:
            others(message, category, *more)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]  # the rest is handed on as it came
        yield


def print_json(content: Mapping[str, Any]) -> None:
    """Print a document on stdout."""
    from pipesched.documents.json_text import dump

    sys.stdout.write(dump(content))


def show(screen: Screen, document: Callable[[], Mapping[str, Any]], parts: Iterable[Any], **how: Any) -> None:
    """Print a document, if that is asked for, or the parts of what it says; `how` are arguments of Rich's print."""
    if screen.as_json:
        print_json(document())
        return
    console = console_for(screen)
    for part in parts:
        console.print(part, **how)


def print_result(result: Displayable, screen: Screen) -> None:
    """Print a result of rows as its table, or as its JSON document."""
    from pipesched.render.table import display_parts

    ascii_only = screen.ascii_only or console_for(screen).options.ascii_only
    document = RESULTS[kind_of(result)[0]].load("document")
    show(screen, lambda: document(result), display_parts(result, ascii_only=ascii_only))


def chart_of(outcome: Outcome, chart: ChartOptions, screen: Screen, **more: Any) -> Gantt:
    """Return the chart of the part that is asked for; `more` are further arguments of Gantt."""
    from pipesched.render.gantt import Gantt

    part = {name: value for name in OF_PARTS if (value := getattr(chart, name)) is not None}
    return Gantt(outcome, ascii_only=screen.ascii_only, spell=spell, **{**part, **more})


def where_idle(outcome: Outcome, name: str = "", *, most_classified: int = MOST_CLASSIFIED) -> Iterator[str]:
    """Yield where the idle time of a schedule goes, and what says more about it; `name` says whose it is."""
    schedule = outcome.schedule
    if not any(schedule.idle_ticks):
        return
    if schedule.plan.index.size > most_classified:
        yield "`pipesched explain` says where idle time goes, and why."
        return
    from pipesched.render.palette import IDLE_MARKS
    from pipesched.results.timed_moves import idle_by_class

    whose, totals = f"{name}: idle" if name else "Idle", idle_by_class(schedule)
    parts = sorted(totals.items(), key=lambda item: -item[1])  # the largest class first
    shares = [f"{time / sum(totals.values()):.0%} {IDLE_MARKS[idle].meaning}" for idle, time in parts if time]
    yield f"{whose} time is {', '.join(shares)}; `pipesched explain` says why."


def answer_schedule(
    outcome: Outcome, chart: ChartOptions, target: Target, screen: Screen, given: Problem | None,
    *, timing: bool = True, most_classified: int = MOST_CLASSIFIED, remarks: Sequence[str] = (),
) -> None:  # fmt: skip
    """Print the JSON document of a schedule, or heading, chart and summary; then write the target file, if any.

    `given` is the problem before it was fused; `timing` says how long a solve took. Of more than `most_classified`
    operations idle time is not classified. `remarks` are lines below. Raises ConfigError, before anything is written,
    for chart options that leave nothing to draw.
    """
    if chart.given:
        chart.require_drawable(outcome.schedule)
    with saving(outcome, SCHEDULE, target, chart.view), doing("printing"):
        if screen.as_json:
            from pipesched.documents.schedule import document

            print_json(document(outcome))
            return
        from pipesched.render.summary import heading, sentence, summary

        console, drawing = console_for(screen), chart_of(outcome, chart, screen)
        console.print(heading(outcome, given))
        if chart.charts != "none":
            console.print(drawing)
        console.print()
        how: dict[str, Any] = {"timing": timing, "memory": bool(chart.memory), "spell": spell}
        console.print(summary(outcome, brief=console.width < 80, **how))
        console.print()
        console.print(sentence(outcome.metrics, outcome.problem.time_unit, outcome.schedule))
        idle, note = where_idle(outcome, most_classified=most_classified), outcome.schedule.plan.note
        for line in (*idle, *map(spell, [f"note: {note}"] if note else []), *map(spell, remarks)):
            console.print(line)


def target_format(target: Target, kind: str) -> Format | None:
    """Return the format of the target file by its suffix, None without one. Raises ConfigError, early."""
    if target.path is None:
        return None
    from pipesched.file_formats.files import refuse_existing
    from pipesched.file_formats.registry import FIGURES, format_for

    form = format_for(target.path, kind)
    refuse_existing(Path(target.path), target.force)
    if form.name in FIGURES:
        from pipesched.render.figure.draw import require_matplotlib

        require_matplotlib()
    return form


@contextmanager
def saving(result: Any, kind: str, target: Target, view: Callable[[], View] | None = None) -> Iterator[None]:
    """Print a result in the block, then write it to the target, if there is one; `view` makes that of a figure."""
    if target_format(target, kind) is None:
        yield
        return
    with printed_before(partial(save, result, kind, target, view)):
        yield


def save(result: Any, kind: str, target: Target, view: Callable[[], View] | None = None) -> None:
    """Write a result to the target file, if there is one, in the format of its suffix."""
    form = target_format(target, kind)
    if form is not None:
        from pipesched.file_formats.files import content_of

        with doing(f"writing {target.path}"):
            write_target(content_of(result, form, kind, view and view()), target)


@contextmanager
def printed_before(write: Callable[[], None]) -> Iterator[None]:
    """Print an answer in the block, and then write its file, also where the reader has gone, or after Ctrl-C."""
    try:
        yield
        sys.stdout.flush()
    except ConfigError:
        raise
    except BaseException:
        write()
        raise
    write()


def write_target(content: Content, target: Target) -> None:
    """Write the target file, if there is one, and say which of its numbers were rounded."""
    from pipesched.file_formats.files import write_file

    if target.path is None:
        return
    write_file(Path(str(target.path)), [content], target.force)
    if note := getattr(content, "note", ""):
        print(f"pipesched: note: {target.path}: {note}", file=sys.stderr)


def refuse_chart_options(chart: ChartOptions, beside: str) -> None:
    """Raise ConfigError for options of a chart `beside` an option that draws none."""
    for flag in chart.given:
        raise ConfigError(f"{flag}: has no effect with {beside}, which draws no chart")

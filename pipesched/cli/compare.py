"""`pipesched compare`: several algorithms on one problem, or over a range of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipesched.cli.options import ChartView, Screen, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipesched.comparison import Entry
    from pipesched.pipeline.problem import Problem

DEFAULT = ("naive", "1f1b", "interleaved")


def command(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(help="Algorithms of `pipesched list`; default: naive 1f1b interleaved.", metavar="NAME..."),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Every algorithm that applies, best first.", show_default=False)
    ] = False,
    sweep: Annotated[
        str | None,
        typer.Option(help="Vary a field: microbatches=4,8,16,32 prints the bubble against it.", metavar="FIELD=VALUES"),
    ] = None,
    problem: tuple[str | None, dict[str, str]],
    algorithm: dict[str, Any],
    chart: ChartView,
    target: Target,
    screen: Screen,
) -> None:
    """Compare algorithms on the same model: small charts on one time scale, and one table.

    What does not apply says why, and the rest goes on.
    """
    from pipesched.cli.output import print_json, save_json, target_format, working
    from pipesched.comparison import compare, ranked
    from pipesched.config.load import load_problem, sweep_problems
    from pipesched.errors import ConfigError
    from pipesched.formats.comparison_json import comparison_document, sweep_document
    from pipesched.formats.registry import FIGURES
    from pipesched.schedulers.registry import FAMILIES

    if everything and algorithms:
        raise ConfigError("--all: compares every algorithm; give either it or names")
    target_format(target, ["json"] if sweep is not None else ["json", *FIGURES])
    names = list(FAMILIES) if everything else algorithms or list(DEFAULT)
    if sweep is not None:
        field, points = sweep_problems(*problem, sweep)
        with working(max((point for _, point in points), key=lambda point: point.stages * point.microbatches)):
            rows = [(value, compare(point, names, algorithm)) for value, point in points]
        content = sweep_document(field, rows)
        save_json(content, target)
        if screen.as_json:
            print_json(content)
        else:
            _print_sweep(field, rows, screen)
        return
    given = load_problem(*problem)
    with working(given):
        entries = compare(given, names, algorithm)
    entries = ranked(entries) if everything else entries
    _save(entries, chart, target)
    if screen.as_json:
        print_json(comparison_document(entries))
    else:
        _print_comparison(entries, given, chart, screen)


def _save(entries: Sequence[Entry], chart: ChartView, target: Target) -> None:
    """The rows as JSON, or the schedules as a figure; bad options are said before anything is written."""
    from pipesched.cli.output import figure_view, save_json, target_format, write_file
    from pipesched.formats.comparison_json import comparison_document
    from pipesched.formats.registry import FIGURES
    from pipesched.render.view import View

    schedules = [entry.outcome.schedule for entry in entries if entry.outcome]
    longest = max(schedules, key=lambda one: max(one.last_end), default=None)
    view = View() if longest is None else figure_view(longest, chart)
    kind = target_format(target, ["json", *FIGURES])
    if kind == "json":
        save_json(comparison_document(entries), target)
    elif target.path is not None and kind is not None:
        from pipesched.render.figure.comparison import comparison_image

        write_file(Path(target.path), [comparison_image(entries, view, kind)], target.force)


def _print_comparison(entries: Sequence[Entry], given: Problem, view: ChartView, screen: Screen) -> None:
    """A chart for each, all on the longest one's time scale, then the table."""
    from pipesched.cli.output import chart, console_for
    from pipesched.render.comparison import comparison
    from pipesched.render.summary import heading

    console = console_for(screen)
    drawn = [entry.outcome for entry in entries if entry.outcome]
    company = [outcome.schedule for outcome in drawn]
    charts = [chart(one, view, screen, company, show_legend=one is company[-1]) for one in company]
    for outcome, drawing in zip(drawn, charts, strict=True):
        console.print(heading(outcome, given))
        console.print(drawing)
        console.print()
    plain = screen.ascii_only or console.options.ascii_only
    console.print(comparison(entries, ascii_only=plain, narrow=console.width < 80))


def _print_sweep(field: str, rows: Sequence[tuple[str, Sequence[Entry]]], screen: Screen) -> None:
    """The table of bubble against the field."""
    from pipesched.cli.output import console_for
    from pipesched.render.comparison import sweep_table

    console_for(screen).print(sweep_table(field, rows))

"""`pipesched compare`: several algorithms on one problem, or over a range of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipesched.cli.options import ChartView, Screen, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipesched.comparison import Entry
    from pipesched.config.algorithm import Algorithm
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
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto",
            help="Makespan against peak memory, plotted; without names of every algorithm.",
            show_default=False,
        ),
    ] = False,
    problem: tuple[str | None, dict[str, str]],
    algorithm: dict[str, Any],
    chart: ChartView,
    target: Target,
    screen: Screen,
) -> None:
    """Compare algorithms on the same model: small charts on one time scale, and one table.

    What does not apply says why, and the rest goes on.
    """
    from pipesched.cli.output import target_format, working
    from pipesched.comparison import compare, ranked
    from pipesched.config.load import load_config, sweep_problems
    from pipesched.errors import ConfigError
    from pipesched.formats.registry import FIGURES

    if everything and algorithms:
        raise ConfigError("--all: compares every algorithm; give either it or names")
    if pareto and sweep is not None:
        raise ConfigError("--pareto: plots one problem; give either it or --sweep")
    target_format(target, ["json"] if sweep is not None else ["json", *FIGURES])
    every = everything or (pareto and not algorithms)
    if sweep is not None:
        field, points, configured = sweep_problems(*problem, sweep)
        names, own = _entrants(algorithms, configured, every=every)
        largest = max((point for _, point in points), key=lambda point: point.stages * point.microbatches)
        with working(largest), _located(configured, algorithm):
            rows = [(value, compare(point, names, algorithm, own)) for value, point in points]
        _answer_sweep(field, rows, target, screen)
        return
    given, configured = load_config(*problem)
    names, own = _entrants(algorithms, configured, every=every)
    with working(given), _located(configured, algorithm):
        entries = compare(given, names, algorithm, own)
    if pareto:
        _answer_pareto(entries, target, screen)
    else:
        _answer_comparison(ranked(entries) if everything else entries, given, chart, target, screen)


def _entrants(
    names: Sequence[str] | None, configured: Algorithm | None, *, every: bool
) -> tuple[Sequence[str], dict[str, Mapping[str, Any]]]:
    """The algorithms to compare, and the options that the config gives to one of them.

    Without names they are the default ones and the config's.
    """
    from pipesched.comparison import every_name

    own = {configured.name: configured.options} if configured else {}
    return every_name(own) if every else names or list(dict.fromkeys([*DEFAULT, *own])), own


def _located(configured: Algorithm | None, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """An error in an option of the config, where none of `options` replaces it, says where it stands."""
    return configured.overridden(options).located() if configured else nullcontext()


def _answer_comparison(
    entries: Sequence[Entry], given: Problem, view: ChartView, target: Target, screen: Screen
) -> None:
    """One document, or charts and a table."""
    from pipesched.cli.output import print_json
    from pipesched.formats.comparison_json import comparison_document

    _save_comparison(entries, view, target)
    if screen.as_json:
        print_json(comparison_document(entries))
    else:
        _print_comparison(entries, given, view, screen)


def _save_comparison(entries: Sequence[Entry], chart: ChartView, target: Target) -> None:
    """The rows as JSON, or the schedules as a figure; bad options are said before anything is written."""
    from pipesched.cli.output import figure_format, figure_view, save_image, save_json
    from pipesched.formats.comparison_json import comparison_document
    from pipesched.render.view import View

    schedules = [entry.outcome.schedule for entry in entries if entry.outcome]
    longest = max(schedules, key=lambda one: max(one.last_end), default=None)
    view = View() if longest is None else figure_view(longest, chart)
    kind = figure_format(target)
    if kind is None:
        save_json(comparison_document(entries), target)
    else:
        from pipesched.render.figure.comparison import comparison_image

        save_image(comparison_image(entries, view, kind), target)


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
    console.print(comparison(entries, ascii_only=plain, width=console.width))


def _answer_sweep(field: str, rows: Sequence[tuple[str, Sequence[Entry]]], target: Target, screen: Screen) -> None:
    """The bubble against the field: one document, or a table."""
    from pipesched.cli.output import console_for, print_json, save_json
    from pipesched.formats.comparison_json import sweep_document
    from pipesched.render.comparison import sweep_table

    content = sweep_document(field, rows)
    save_json(content, target)
    if screen.as_json:
        print_json(content)
    else:
        console_for(screen).print(sweep_table(field, rows))


def _answer_pareto(entries: Sequence[Entry], target: Target, screen: Screen) -> None:
    """Makespan against peak memory: one document or figure, or a plot and a table."""
    from pipesched.cli.output import console_for, figure_format, print_json, save_image, save_json
    from pipesched.formats.comparison_json import pareto_document
    from pipesched.pareto import standings
    from pipesched.render.pareto import pareto

    places = standings(entries)
    content = pareto_document(entries, places)
    kind = figure_format(target)
    if kind is None:
        save_json(content, target)
    else:
        from pipesched.render.figure.pareto import pareto_image

        save_image(pareto_image(places, kind), target)
    if screen.as_json:
        print_json(content)
    else:
        console = console_for(screen)
        console.print(pareto(places, entries, ascii_only=screen.ascii_only, narrow=console.width < 80))

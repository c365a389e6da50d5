"""`pipesched compare`: several algorithms on one problem, or over a range of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipesched.cli.options import MOST, ChartOptions, ProblemSource, Screen, Target, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipesched.comparison import Comparison
    from pipesched.config.algorithm import Algorithm
    from pipesched.config.load import Config
    from pipesched.sweeping import Sweep


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Algorithms of `pipesched list`, and the YAML file of the problem; default: naive 1f1b interleaved.",
            metavar="NAME|FILE",
        ),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Every algorithm that applies, best first.", show_default=False, metavar="")
    ] = False,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="Vary a field: microbatches=4,8,16,32, or a range 8:96:8, prints the bubble against it.",
            metavar="FIELD=VALUES",
        ),
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(
            help="What --sweep prints: bubble, makespan, microbatch (time of one), utilization, memory.",
            metavar="MEASURE",
        ),
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto",
            help="Makespan against peak memory, plotted; without names of every algorithm.",
            show_default=False,
            metavar="",
        ),
    ] = False,
    charts: Annotated[
        str | None,
        typer.Option(
            help="How many charts: all, none, or the best N; default: all of up to 4 algorithms, of more the best 3.",
            metavar="N|all|none",
        ),
    ] = None,
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows",
            help="With --all: a row for each algorithm, also where several take the same time.",
            show_default=False,
            metavar="",
        ),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="Show only what a trainer can run as it is: pytorch.", metavar="TRAINER"),
    ] = None,
    jobs: Annotated[
        str | None,
        typer.Option(help="Processes that run algorithms side by side; default: one a core.", metavar="N"),
    ] = None,
    problem: ProblemSource,
    algorithm: dict[str, Any],
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Compare algorithms on the same model: small charts on one time scale, and one table.

    What does not apply says why, and the rest goes on.
    """
    from pipesched.cli.comparing import Charts, print_comparison, require_drawable, wanted_charts
    from pipesched.cli.output import print_json, save, target_format
    from pipesched.cli.reading import given_config
    from pipesched.cli.words import split_words
    from pipesched.file_formats.comparison_json import comparison_document
    from pipesched.file_formats.registry import COMPARISON, SWEEP

    algorithms, problem = split_words(words, problem)
    _refuse_pointless(
        algorithms, chart, charts, everything=everything, pareto=pareto, sweep=sweep, show=show, all_rows=all_rows
    )
    wanted: Charts = wanted_charts(charts)
    target_format(target, COMPARISON if sweep is None else SWEEP)
    settings = {"jobs": _jobs(jobs), **algorithm}
    every = everything or (pareto and not algorithms)
    if sweep is not None:
        _answer_sweep(_swept(sweep, problem, algorithms, settings, every=every), show, target, screen)
        return
    config = given_config(problem)
    comparison = _compared(config, algorithms, algorithm, settings, every=every)
    if only is not None:
        comparison = comparison.only(only)
    if pareto:
        _answer_pareto(comparison, target, screen)
        return
    shown = comparison.ranked() if everything else comparison
    if chart.given():
        require_drawable(shown, wanted, chart)  # bad options are said before anything is written
    save(shown, COMPARISON, target, chart.view() if target.path else None)
    if screen.as_json:
        print_json(comparison_document(shown))
    else:
        print_comparison(shown, config.problem, wanted, chart, screen, fold=everything and not all_rows)


def _refuse_pointless(
    algorithms: Sequence[str] | None,
    chart: ChartOptions,
    charts: str | None,
    *,
    everything: bool,
    pareto: bool,
    sweep: str | None,
    show: str | None,
    all_rows: bool,
) -> None:
    """Raise ConfigError for options that contradict each other, and for those that would change nothing."""
    from pipesched.cli.output import refuse_chart_options
    from pipesched.errors import ConfigError
    from pipesched.names import look_up
    from pipesched.render.sweep import MEASURES

    if all_rows and not everything:
        raise ConfigError("--all-rows: has no effect without --all, which alone folds rows")
    if show is not None and sweep is None:
        raise ConfigError("--show: says what --sweep prints; give --sweep too")
    if show is not None:
        look_up(MEASURES, show, "measure", "show")
    if everything and algorithms:
        raise ConfigError("--all: compares every algorithm; give either it or names")
    if pareto and sweep is not None:
        raise ConfigError("--pareto: plots one problem; give either it or --sweep")
    for flag in ("--sweep",) * (sweep is not None) + ("--pareto",) * pareto:
        refuse_chart_options(chart, flag)
        if charts is not None:
            raise ConfigError(f"--charts: has no effect with {flag}, which draws no chart")


def _jobs(text: str | None) -> int:
    """Read the number of processes; 0 means one a core. Raises ConfigError."""
    return 0 if text is None else whole_number("--jobs", text, 1, MOST)


def _own_options(configured: Algorithm | None, names: str | Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the options that the config gives to one algorithm, if it is compared."""
    from pipesched.comparison import ALL
    from pipesched.schedulers.registry import family

    if configured is None or not (names == ALL or configured.name in {family(name).name for name in names}):
        return {}
    return {configured.name: configured.options}


def _names(names: Sequence[str] | None, configured: Algorithm | None, *, every: bool) -> str | Sequence[str]:
    """Return the algorithms to compare; without names these are the default ones and the config's."""
    from pipesched.comparison import ALL, DEFAULT

    own = [configured.name] if configured else []
    return ALL if every else names or list(dict.fromkeys([*DEFAULT, *own]))


def _located(configured: Algorithm | None, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which an error in an option of the config, unless `options` replace it, names its line."""
    return configured.overridden(options).located() if configured else nullcontext()


def _compared(
    config: Config,
    algorithms: Sequence[str] | None,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    every: bool,
) -> Comparison:
    from pipesched.cli.output import working
    from pipesched.comparison import compare

    names = _names(algorithms, config.algorithm, every=every)
    count = 20 if isinstance(names, str) else len(names)
    with working(config.problem, count), _located(config.algorithm, options):
        return compare(config.problem, names, each=_own_options(config.algorithm, names), **settings)


def _swept(
    text: str, source: ProblemSource, algorithms: Sequence[str] | None, settings: Mapping[str, Any], *, every: bool
) -> Sweep:
    """Return the comparison at each value of a field, given as FIELD=VALUES."""
    from pipesched.cli.comparing import read_sweep
    from pipesched.cli.reading import config_source, flags_of_problem
    from pipesched.config.load import algorithm_of, load_values

    with flags_of_problem():
        values = load_values(config_source(source.config), source.overrides)
    configured = algorithm_of(values)
    names = _names(algorithms, configured, every=every)
    with _located(configured, settings):
        return read_sweep(text, values, names, each=_own_options(configured, names), **settings)


def _answer_sweep(sweep: Sweep, show: str | None, target: Target, screen: Screen) -> None:
    """Write a sweep to the target file, if there is one, and print its document, or a table of what `show` names."""
    from pipesched.cli.output import console_for, print_json, save
    from pipesched.file_formats.comparison_json import sweep_document
    from pipesched.file_formats.registry import SWEEP
    from pipesched.render.sweep import BUBBLE, sweep_table

    save(sweep, SWEEP, target)
    if screen.as_json:
        print_json(sweep_document(sweep))
    else:
        console_for(screen).print(sweep_table(sweep, BUBBLE if show is None else show))


def _answer_pareto(comparison: Comparison, target: Target, screen: Screen) -> None:
    """Write the schedules by makespan and peak memory, and print their document, or a plot and a table."""
    from pipesched.cli.output import console_for, print_json, target_format, write_target
    from pipesched.file_formats.comparison_json import pareto_document
    from pipesched.file_formats.json_text import dump
    from pipesched.file_formats.registry import COMPARISON, FIGURES
    from pipesched.pareto import standings
    from pipesched.render.pareto import pareto

    ranked = standings(comparison)
    content = pareto_document(comparison, ranked)
    form = target_format(target, COMPARISON)
    if form is not None and form.name in FIGURES:
        from pipesched.render.figure.page import image
        from pipesched.render.figure.pareto import pareto_figure

        write_target(image(pareto_figure(ranked), form.name), target)
    elif form is not None:
        write_target(dump(content), target)
    if screen.as_json:
        print_json(content)
    else:
        console = console_for(screen)
        console.print(pareto(ranked, comparison, ascii_only=screen.ascii_only, narrow=console.width < 80))

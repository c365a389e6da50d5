"""`pipesched compare`: several algorithms on one problem, or over a range of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pipesched.cli import comparing, output, reading
from pipesched.cli.chart_options import ChartOptions
from pipesched.cli.comparing import NamedContestants
from pipesched.cli.exits import require_one
from pipesched.cli.options import EVERY_CORE, ComparisonOptions, ProblemSource, Screen, Target, TrustOptions
from pipesched.cli.positionals import TO_COMPARE, split_files, split_positionals
from pipesched.cli.progress import doing
from pipesched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipesched.config.load import Config
    from pipesched.results.comparison import Comparison, Sweep


def command(
    words: list[str] | None = TO_COMPARE,
    *,
    comparison: ComparisonOptions,
    executor: str | None,
    problem: ProblemSource,
    algorithm: dict[str, Any],
    trust: TrustOptions,
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Compare algorithms on the same model: small charts on one time scale, and one table.

    What does not apply says why, and the rest goes on.
    """
    from pipesched.documents.comparison import comparison_document
    from pipesched.file_formats.registry import COMPARISON, SWEEP

    files, others = split_files(words)
    names, problem = split_positionals(others, problem)
    comparison, problem = _chunks_swept(comparison, problem)
    comparison.require_effect(names)
    for flag in ("--sweep",) * (comparison.sweep is not None) + ("--pareto",) * comparison.pareto:
        output.refuse_chart_options(chart, flag)
    trust.require_effect(comparison.sweep)
    wanted = comparing.wanted_charts(comparison.charts)
    output.target_format(target, COMPARISON if comparison.sweep is None else SWEEP)
    named, problem = comparing.read_contestants(names, files, problem)
    if comparison.sweep is not None:
        swept = _swept(comparison, named, problem, algorithm, executor or EVERY_CORE)
        _answer_sweep(swept, comparison.show, chart, target, screen)
        require_one(entry for point in swept for entry in point.comparison)
        return
    config = reading.given_config(problem)
    beside = trust.beside(config.trust.like)
    compared = _compared(comparison, named, config, algorithm, executor or EVERY_CORE, beside)
    reading.note_halves(problem, assumed=config.assumes_halves, outcomes=(entry.outcome for entry in compared))
    reading.note_fused(config.problem, (entry.outcome for entry in compared))
    if comparison.pareto:
        _answer_pareto(compared, chart, target, screen)
        require_one(compared)
        return
    shown = compared.ranked() if comparison.everything else compared
    if chart.given():
        comparing.require_drawable(shown, wanted, chart)  # bad options are said before anything is written
    with output.saving(shown, COMPARISON, target, chart.view(charts=wanted) if target.path else None):
        if screen.as_json:
            output.print_json(comparison_document(shown))
        else:
            fold = comparison.everything and not comparison.all_rows
            comparing.print_comparison(shown, config.problem, wanted, chart, screen, fold=fold)
    require_one(shown)


def _chunks_swept(comparison: ComparisonOptions, problem: ProblemSource) -> tuple[ComparisonOptions, ProblemSource]:
    """Read a list of --chunks as a sweep over them. Raises ConfigError beside another sweep."""
    chunks = problem.overrides.get("chunks")
    if not isinstance(chunks, list):
        return comparison, problem
    if comparison.sweep is not None:
        raise ConfigError(f"--chunks: a list is a sweep of its own; give one number beside --sweep {comparison.sweep}")
    for value in chunks:
        if not isinstance(value, int):
            raise ConfigError(f"--chunks: must be whole numbers, for instance 1,2,4, not {value!r}")
    others = {name: value for name, value in problem.overrides.items() if name != "chunks"}
    return comparison._replace(sweep=f"chunks={','.join(map(str, chunks))}"), problem._replace(overrides=others)


def _compared(
    comparison: ComparisonOptions,
    named: NamedContestants,
    config: Config,
    options: Mapping[str, Any],
    executor: str,
    trust: Mapping[str, Any],
) -> Comparison:
    how = {"everything": comparison.everything, "plotted": comparison.pareto}
    compared = named.compared(config, options, executor, trust, **how)
    if comparison.only is None:
        return compared
    left = compared.only(comparison.only)
    _note_left_out(comparison.only, named.algorithms(config.algorithm, **how), _names_of([compared]), _names_of([left]))
    before = [entry.outcome for entry in compared]
    for entry in left:
        if entry.outcome is not None and entry.outcome not in before:  # in other groups, because it refuses the best
            print(f"pipesched: note: {entry.label}: {entry.outcome.schedule.plan.note}", file=sys.stderr)
    return left


def _swept(
    asked: ComparisonOptions, named: NamedContestants, source: ProblemSource, options: Mapping[str, Any], executor: str
) -> Sweep:
    """Return the comparison at each value of a field, given as FIELD=VALUES."""
    from pipesched.config.load import algorithm_of, load_values
    from pipesched.config.values import assumes_halves

    with reading.flags_of_problem(source):
        values = load_values(source.document or reading.config_source(source.config), source.overrides)
    configured = algorithm_of(values)
    chosen = named.algorithms(configured, everything=asked.everything, plotted=asked.pareto)
    comparing.require_unvaried(str(asked.sweep), source.overrides, chosen)
    own = comparing.own_options(configured, chosen)
    with comparing.located(configured, options), doing(f"comparing over {asked.sweep}") as say:
        settings = {"plans": named.plans, "each": own, "executor": executor, **options}
        settings["listener"] = lambda turn: say(f"comparing over {asked.sweep}: {turn}")
        swept = comparing.read_sweep(str(asked.sweep), values, chosen, **settings)
    outcomes = (entry.outcome for point in swept for entry in point.comparison)
    reading.note_halves(source, assumed=assumes_halves(values), outcomes=outcomes)
    reading.note_other_models(swept)
    if asked.only is None:
        return swept
    left = swept.only(asked.only)
    _note_left_out(asked.only, chosen, *(_names_of(point.comparison for point in each) for each in (swept, left)))
    return left


def _names_of(comparisons: Iterable[Comparison]) -> list[str]:
    return list(dict.fromkeys(entry.algorithm for comparison in comparisons for entry in comparison))


def _note_left_out(trainer: str, chosen: str | Sequence[str], every: Sequence[str], left: Sequence[str]) -> None:
    """Say on stderr which named algorithms a trainer cannot run. Raises ConfigError where it can run none."""
    from pipesched.comparing.compare import ALL

    out = [name for name in every if name not in left]
    if out and not left:
        raise ConfigError(f"--only: {trainer} can run none of these as they are: {', '.join(out)}")
    if out and chosen != ALL:
        print(f"pipesched: note: --only {trainer} leaves out {', '.join(out)}", file=sys.stderr)


def _answer_sweep(sweep: Sweep, show: str | None, chart: ChartOptions, target: Target, screen: Screen) -> None:
    """Print the document of a sweep, or a plot and a table of a measure, and then write it to the target file."""
    from pipesched.documents.comparison import sweep_document
    from pipesched.file_formats.registry import SWEEP
    from pipesched.render.comparison import BUBBLE, sweep_view

    measure = BUBBLE if show is None else show
    with output.saving(sweep, SWEEP, target, chart.view(show=measure) if target.path else None):
        if screen.as_json:
            output.print_json(sweep_document(sweep))
        else:
            output.console_for(screen).print(sweep_view(sweep, measure, ascii_only=screen.ascii_only))


def _answer_pareto(comparison: Comparison, chart: ChartOptions, target: Target, screen: Screen) -> None:
    """Print the schedules by makespan and peak memory, a document, or a plot and a table; then write them."""
    from pipesched.documents.comparison import pareto_document
    from pipesched.render.comparison import pareto
    from pipesched.results.comparison import pareto_points

    ranked = pareto_points(comparison)
    content = pareto_document(comparison, ranked)
    with output.printed_before(lambda: _write_pareto(comparison, ranked, content, chart, target)):
        if screen.as_json:
            output.print_json(content)
        else:
            console = output.console_for(screen)
            console.print(pareto(ranked, comparison, ascii_only=screen.ascii_only, narrow=console.width < 80))


def _write_pareto(
    comparison: Comparison, ranked: Any, content: Mapping[str, Any], chart: ChartOptions, target: Target
) -> None:
    from pipesched.documents.json_text import dump
    from pipesched.file_formats.registry import COMPARISON, FIGURES

    form = output.target_format(target, COMPARISON)
    if form is not None and form.name in FIGURES:
        from pipesched.render.figure.chart import image
        from pipesched.render.figure.plots import pareto_figure

        output.write_target(image(pareto_figure(ranked, chart.view()), form.name), target)
    elif form is not None and form.name == "html":
        output.save(comparison, COMPARISON, target)
    elif form is not None:
        output.write_target(dump(content), target)

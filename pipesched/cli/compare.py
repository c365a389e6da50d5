"""`pipesched compare`: algorithms on one problem, or over a range; `read_candidates`, run, `print_comparison`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.cli import output, reading
from pipesched.cli.exits import require_one
from pipesched.cli.groups import INSIDE_FLAGS, PROBLEM_FLAGS, spell
from pipesched.cli.options import (
    EVERY_CORE,
    ChartOptions,
    ComparisonOptions,
    ProblemSource,
    Screen,
    Target,
    TrustOptions,
    parse_value,
)
from pipesched.cli.output import chart_of, console_for, where_idle, working
from pipesched.cli.progress import doing
from pipesched.documents.json_text import dump
from pipesched.errors import ConfigError, Given
from pipesched.file_formats.registry import FIGURES
from pipesched.pipeline.problem.quantities import has_unit
from pipesched.results.kinds import COMPARISON, SWEEP

if TYPE_CHECKING:
    from pipesched.comparing.compare import Candidate
    from pipesched.config.load import Config
    from pipesched.config.values import Algorithm, Values
    from pipesched.pipeline.problem.problem import Problem
    from pipesched.results.comparison import Comparison, Sweep


def command(
    words: list[str] | None = reading.TO_COMPARE,
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
    from pipesched.documents.comparison import comparison_document, sweep_document

    files, others = reading.split_files(words)
    names, problem = reading.split_positionals(others, problem)
    comparison, problem = _chunks_swept(comparison, problem)
    comparison.require_effect(names)
    for flag in ("--sweep",) * (comparison.sweep is not None) + ("--pareto",) * comparison.pareto:
        output.refuse_chart_options(chart, flag)
    trust.require_effect(comparison.sweep)
    executor = executor or EVERY_CORE
    wanted = wanted_charts(comparison.charts)
    output.target_format(target, COMPARISON if comparison.sweep is None else SWEEP)
    named, problem = read_candidates(names, files, problem)
    if comparison.sweep is not None:
        from pipesched.render.comparison import BUBBLE, sweep_view

        swept = _swept(comparison, named, problem, algorithm, executor)
        measure = BUBBLE if comparison.show is None else comparison.show
        with output.saving(swept, SWEEP, target, partial(chart.view, show=measure)):
            parts = [sweep_view(swept, measure, ascii_only=screen.ascii_only)]
            output.show(screen, lambda: sweep_document(swept), parts)
        require_one(entry for point in swept for entry in point.comparison)
        return
    config = reading.given_config(problem)
    how = {"everything": comparison.everything, "plotted": comparison.pareto}
    compared = named.compared(
        config, algorithm, executor, trust.beside(None if config.trust is None else config.trust.like), **how
    )
    if comparison.only is not None:
        every, compared = compared, compared.only(comparison.only)
        _note_left_out(comparison.only, named.algorithms(config.algorithm, **how), [every], [compared])
        before = [entry.outcome for entry in every]
        for entry in compared:
            if entry.outcome is not None and entry.outcome not in before:  # in other groups: it refuses the best
                print(f"pipesched: note: {entry.label}: {entry.outcome.schedule.plan.note}", file=sys.stderr)
    made = (entry.outcome for entry in compared)
    reading.note_made(problem, made, assumed=config.assumes_halves, fused=config.problem)
    if comparison.pareto:
        _answer_pareto(compared, chart, target, screen)
        require_one(compared)
        return
    shown = compared.ranked() if comparison.everything else compared
    if chart.given:
        require_drawable(shown, wanted, chart)  # bad options are said before anything is written
    with output.saving(shown, COMPARISON, target, partial(chart.view, charts=wanted)):
        if screen.as_json:
            output.print_json(comparison_document(shown))
        else:
            fold = comparison.everything and not comparison.all_rows
            print_comparison(shown, config.problem, wanted, chart, screen, fold=fold)
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


def _swept(
    asked: ComparisonOptions, named: NamedCandidates, source: ProblemSource, options: Mapping[str, Any], executor: str
) -> Sweep:
    """Read what varies, compare at each of its values, and say on stderr what to know of that."""
    from pipesched.comparing.sweep import is_option, replaces, varied_field
    from pipesched.config.load import algorithm_of, load_values
    from pipesched.config.values import assumes_halves
    from pipesched.pipeline.problem.suspicions import other_models

    with reading.flags_of_problem(source):
        values = load_values(source.document or reading.config_source(source.config), source.overrides)
    configured = algorithm_of(values)
    chosen = named.algorithms(configured, everything=asked.everything, plotted=asked.pareto)
    parameter = _parameter(str(asked.sweep).partition("=")[0].strip())
    if not is_option(parameter, chosen):
        field = varied_field(parameter)
        name = "" if field.key.endswith("]") else field.name  # of one device the others keep theirs
        for replaced in ALTERNATIVES.get(name, (name,)):  # whose option each value of the sweep would replace
            if replaced in source.overrides and replaces(field, source.overrides[replaced]):
                flag = VARIED_FLAGS.get(field.key) or PROBLEM_FLAGS[replaced]
                raise ConfigError(f"{flag}: has no effect with --sweep {asked.sweep}, which varies it")
    own = own_options(configured, chosen)
    with located(configured, options), doing(f"comparing over {asked.sweep}") as say:
        settings = {"plans": named.plans, "each": own, "executor": executor, **options}
        settings["listener"] = lambda turn: say(f"comparing over {asked.sweep}: {turn}")
        swept = read_sweep(str(asked.sweep), values, chosen, **settings)
    outcomes = [entry.outcome for point in swept for entry in point.comparison]
    reading.note_made(source, outcomes, assumed=assumes_halves(values))
    if note := other_models(swept.field, [outcome.problem for outcome in outcomes if outcome is not None]):
        print(f"pipesched: warning: {note}", file=sys.stderr)
    if asked.only is None:
        return swept
    left = swept.only(asked.only)
    _note_left_out(asked.only, chosen, *([point.comparison for point in each] for each in (swept, left)))
    return left


def _note_left_out(trainer: str, chosen: str | Sequence[str], *both: Sequence[Comparison]) -> None:
    """Say on stderr which algorithms of comparisons a trainer cannot run. Raises ConfigError where it can run none."""
    from pipesched.comparing.compare import ALL

    every, left = (dict.fromkeys(entry.algorithm for rows in each for entry in rows) for each in both)
    out = [name for name in every if name not in left]
    if out and not left:
        raise ConfigError(f"--only: {trainer} can run none of these as they are: {', '.join(out)}")
    if out and chosen != ALL:
        print(f"pipesched: note: --only {trainer} leaves out {', '.join(out)}", file=sys.stderr)


def _answer_pareto(comparison: Comparison, chart: ChartOptions, target: Target, screen: Screen) -> None:
    """Print the schedules by makespan and peak memory, a document, or a plot and a table; then write them."""
    from pipesched.documents.comparison import pareto_document
    from pipesched.render.comparison import pareto
    from pipesched.results.comparison import pareto_points

    ranked = pareto_points(comparison)
    content = pareto_document(comparison, ranked)

    def write() -> None:
        form = output.target_format(target, COMPARISON)
        if form is not None and form.name in FIGURES:
            from pipesched.render.figure.chart import image
            from pipesched.render.figure.plots import pareto_figure

            output.write_target(image(pareto_figure(ranked, chart.view()), form.name), target)
        elif form is not None and form.name == "html":
            output.save(comparison, COMPARISON, target)
        elif form is not None:
            output.write_target(dump(content), target)

    with output.printed_before(write):
        narrow = output.console_for(screen).width < 80
        parts = [pareto(ranked, comparison, ascii_only=screen.ascii_only, narrow=narrow)]
        output.show(screen, lambda: content, parts)


MOST_VALUES, MOST_DIGITS = 1_000, 12  # of a range
WHOLES = {"shard.level": "shard", "messages.queue": "messages"}  # a word stands for the whole
VARIED_FLAGS = {
    WHOLES.get(key, key): flag for key, flag in INSIDE_FLAGS.items() if key.startswith(("shard.", "messages."))
}
ALTERNATIVES = {"chunks": ("chunks", "stages"), "stages": ("stages", "chunks")}  # that replace each other

Charts = int | str | None  # so many, "all", or None for the default


def wanted_charts(text: str | None) -> Charts:
    """Read the number of charts to draw. Raises ConfigError."""
    if text is None or text == "all":
        return text
    number = 0 if text == "none" else parse_value(text)
    if not isinstance(number, int) or number < 0:
        raise ConfigError(f"--charts: must be a number, all or none, not {text!r}")
    return number


def print_comparison(
    comparison: Comparison, given: Problem, wanted: Charts, chart: ChartOptions, screen: Screen, *, fold: bool
) -> None:
    """Print a chart for each algorithm and the table; of many algorithms the table first, and the best charts.

    Charts are on one scale; what is far longer than the best is cut, or folded.
    """
    from pipesched.render.comparison import ComparisonTable, are_few, drawn, edge, not_drawn, some_devices
    from pipesched.render.gantt import fold_of
    from pipesched.render.summary import heading

    console, chosen, view = console_for(screen), drawn(comparison, wanted), chart.view()
    table = ComparisonTable(comparison, ascii_only=screen.ascii_only, fold=fold)
    if not are_few(comparison):
        console.print(table, *[""] * bool(chosen), sep="\n")
    together = [outcome.schedule for outcome in chosen]
    until = edge(together, comparison, view.end) if chosen else None
    rows = view.rows if chart.rows else some_devices(given.devices)
    for outcome in chosen:
        is_folded = bool(view.fold) and fold_of(outcome.schedule) is not None
        remarks = not_drawn(outcome.schedule, None if is_folded else view.window(together[0], until).end, rows)
        console.print(heading(outcome, given).append(remarks, style="dim"))
        how: dict[str, Any] = {"rows": rows, "together": together, "until": until}
        console.print(chart_of(outcome, chart, screen, **how, show_legend=outcome is chosen[-1]), "", sep="\n")
    if are_few(comparison):
        console.print(table)
    best = comparison.best
    for idle in where_idle(best.outcome, best.label) if best is not None and best.outcome is not None else ():
        console.print(idle)
    for entry in comparison:
        if entry.outcome is not None and entry.outcome.schedule.plan.note:
            console.print(f"note: {entry.label}: {spell(entry.outcome.schedule.plan.note)}")


def require_drawable(comparison: Comparison, wanted: Charts, chart: ChartOptions) -> None:
    """Raise ConfigError for a window or devices that one of the charts to print has not."""
    from pipesched.render.comparison import drawn, edge

    chosen, end = drawn(comparison, wanted), chart.view().end
    for outcome in chosen:
        chart.require_drawable(outcome.schedule, edge([each.schedule for each in chosen], comparison, end))


def read_sweep(text: str, values: Values, algorithms: str | Sequence[str], **settings: Any) -> Sweep:
    """Return the sweep of FIELD=VALUES over the values of a config. Raises ConfigError."""
    from pipesched.comparing.sweep import compared_points, is_option, varied_field, varied_points
    from pipesched.results.comparison import VARIED_WORDS, Sweep

    name, _, listed = text.partition("=")
    field, parts = _parameter(name.strip()), [part.strip() for part in listed.split(",") if part.strip()]
    option = is_option(field, algorithms)
    words = VARIED_WORDS.get(field if option else varied_field(field).key, ())
    varied = [parse_value(one) for part in parts for one in values_in(part)]
    for one in varied if not words else ():
        if isinstance(one, str) and not has_unit(one):
            raise ConfigError(f"--sweep: {one!r} is no number; write for instance microbatches=4,8,16,32")
    if not varied:
        raise ConfigError("--sweep: no values; write for instance microbatches=4,8,16,32")
    with reading.flags_of_problem():
        key, points = varied_points(values, field, varied, algorithms)
    reading.note_values(values if option else {**values, varied_field(field).name: Given(varied, "--sweep")})
    return Sweep(key, compared_points(points, algorithms, **settings))


def values_in(text: str, flag: str = "--sweep", example: str = "microbatches=8:96:8") -> Iterator[str]:
    """Yield the values of a range, such as 8:96, 8:96:8 or 0.5:1:0.1, both ends included; else the text itself."""
    ends = text.split(":")
    if len(ends) == 1:
        yield text
        return
    numbers = [Decimal(end) for end in ends if re.fullmatch(r"\s*[0-9]*\.?[0-9]+\s*", end) and len(end) < MOST_DIGITS]
    if len(numbers) != len(ends) or len(ends) > 3 or (len(ends) == 3 and not numbers[2]):
        raise ConfigError(f"{flag}: {text!r} is no range; write for instance {example}")
    first, last, step = (*numbers, Decimal(1))[:3]
    if not 0 <= last - first < MOST_VALUES * step:
        raise ConfigError(f"{flag}: {text!r} must rise, to at most {MOST_VALUES:,} values")
    yield from (f"{first + number * step:f}" for number in range(int((last - first) / step) + 1))


def _parameter(name: str) -> str:
    by_flag = {flag.strip("-"): parameter for parameter, flag in {**PROBLEM_FLAGS, **VARIED_FLAGS}.items()}
    spelling = name.strip("-").replace("_", "-")
    return by_flag.get(spelling, name.strip("-").replace("-", "_"))


class NamedCandidates(NamedTuple):
    """What is compared: algorithms by their names, and plans of files, None where there are no files."""

    names: Sequence[str]
    plans: Mapping[str, Candidate] | None

    def algorithms(
        self, configured: Algorithm | None, *, everything: bool = False, plotted: bool = False
    ) -> str | Sequence[str]:
        """Return the algorithms to compare: with `everything` all, else those that were named.

        Without names and files these are the default ones and the config's; where they are `plotted`, all.
        """
        from pipesched.comparing.compare import ALL, DEFAULT

        alone = not self.names and self.plans is None
        if everything or (plotted and alone):
            return ALL
        own = [configured.name] if configured else []
        return list(dict.fromkeys([*DEFAULT, *own])) if alone else self.names

    def compared(
        self, config: Config, options: Mapping[str, Any], executor: str, trust: Mapping[str, Any], **asked: bool
    ) -> Comparison:
        """Return their schedules by `options` on top of the config's; `asked` is for `algorithms`, `trust` for both."""
        from pipesched.comparing.compare import compare

        chosen = self.algorithms(config.algorithm, **asked)
        own = own_options(config.algorithm, chosen)
        count = (20 if isinstance(chosen, str) else len(chosen)) + len(self.plans or ())
        with working(config.problem, count) as say, located(config.algorithm, options):
            known: dict[str, Any] = {"plans": self.plans, "each": own, "executor": executor, **trust}
            return compare(config.problem, chosen, listener=lambda name: say(f"scheduling {name}"), **known, **options)


def read_candidates(
    names: Sequence[str], files: Sequence[tuple[str | None, str]], source: ProblemSource
) -> tuple[NamedCandidates, ProblemSource]:
    """Return what is compared, and the problem: without a config that of the first document. Raises ConfigError."""
    from pipesched.comparing.compare import GivenAlgorithm, GivenPlan, candidates, name_files, problem_of_plans
    from pipesched.config.load import load_config
    from pipesched.config.values import rounding_note
    from pipesched.pipeline.problem.suspicions import other_stages

    plans = candidates(name_files(files)) if files else None
    for block in [plan for plan in (plans or {}).values() if isinstance(plan, GivenAlgorithm)]:
        reading.note_on_stderr(rounding_note({"algorithm": Given(block.algorithm)}))
    if plans is not None and source.config is None:
        orders = [plan.file for plan in plans.values() if isinstance(plan, GivenPlan)]
        source = source._replace(document=problem_of_plans(plans))
        if source.document is not None:
            reading.note_on_stderr(f"the problem is that of {source.document.name}")
            counts = {name: value for name, value in source.overrides.items() if name in ("stages", "chunks")}
            with suppress(ConfigError):  # which is said where the problem is read
                before, now = (load_config(source.document, given).problem for given in ({}, counts))
                reading.note_on_stderr(other_stages("with other stages", now, before))
        elif orders:
            whose = f"the built-in default's{', or in options' * bool(source.overrides)}: name a config for others"
            reading.note_on_stderr(f"of {', '.join(orders)} only the order counts; costs and memory are {whose}")
    return NamedCandidates(names, plans), source


def own_options(configured: Algorithm | None, names: str | Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return the options that the config gives to one algorithm, if it is compared."""
    from pipesched.comparing.compare import ALL
    from pipesched.schedulers.registry import family

    if configured is None or not (names == ALL or configured.name in {family(name).name for name in names}):
        return {}
    return {configured.name: configured.options}


def located(configured: Algorithm | None, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which an error in an option of the config, unless `options` replace it, names its line."""
    return configured.overridden(options).located() if configured else nullcontext()

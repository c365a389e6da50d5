"""`pipesched explain`: why a schedule is as long as it is, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipesched.cli import output, reading
from pipesched.cli.options import ChartOptions, ProblemSource, Screen, Target, option
from pipesched.cli.traces import PLAN, RANGES, TIMELINE, all_traces, chart_parts, read_timeline, refuse_plan
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.problem import Problem
from pipesched.results.outcome import Outcome
from pipesched.schedulers.options import ORDER

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipesched.analysis.explain import Explanation, Planner
    from pipesched.analysis.measured.timeline import Timeline

    Subject = tuple[Outcome, Problem | None, Planner | None]

EXPLANATION = "explanation"  # the kind of result that is written


def command(
    words: list[str] | None = reading.TO_EXPLAIN,
    *,
    algo: str | None = reading.ALGO,
    measured: bool = option("--measured", "Explain what the traces of a run show, one a rank."),
    plan: str | None = PLAN,
    ranges: str | None = RANGES,
    why: str | None = option(
        "--why OP", "One operation alone, by its text: what it waited for, its slack, the chain to time 0."
    ),
    problem: ProblemSource,
    algorithm: dict[str, Any],
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Explain why a schedule is as long as it is: critical path, idle time by class, what a cost or a move changes.

    With --measured, of the traces of a run, also how long operations took; -o config.yaml writes that as costs.
    """
    words = words or []
    if why is not None:
        output.refuse_chart_options(chart, "--why")
        if target.path is not None:
            raise ConfigError("--output: has no effect with --why, which answers on the screen")
    is_run, timeline = measured or all_traces(words), None
    if is_run and not words:
        raise ConfigError("--measured: give the traces of the run, one a rank")
    if is_run and (algo is not None or algorithm):
        raise ConfigError(f"{words[0]}: a run is explained alone; give no algorithm and no option of one")
    if is_run:
        output.target_format(target, TIMELINE)
        timeline = read_timeline(words, plan, problem, ranges)
        subject: Subject = timeline.outcome, None, None
    else:
        refuse_plan(plan, ranges)
        output.target_format(target, EXPLANATION)  # raises for a bad target before anything takes long
        subject = _subject(words, algo, problem, algorithm)
    outcome = subject[0]
    if chart.given:
        chart.require_drawable(outcome.schedule)
    if why is not None:
        from pipesched.analysis.explain import why as why_of
        from pipesched.documents.explanation import why_document
        from pipesched.render.explanation import why_lines

        found = why_of(outcome, why)
        output.show(screen, lambda: why_document(found), why_lines(found, outcome.problem.time_unit))
    elif timeline is not None:
        _explain_timeline(timeline, chart, target, screen)
    else:
        from pipesched.analysis.explain import explain
        from pipesched.documents.explanation import explanation_document

        with output.working(outcome.problem, what="explaining"):
            explanation = explain(outcome)
        with output.saving(explanation, EXPLANATION, target):
            parts = _explanation_parts(subject, explanation, chart, screen)
            output.show(screen, lambda: explanation_document(explanation), parts)


def _explain_timeline(timeline: Timeline, chart: ChartOptions, target: Target, screen: Screen) -> None:
    """Print the charts of a run, what its operations cost, and why it took as long as it did."""
    from pipesched.documents.explanation import timeline_document
    from pipesched.render.explanation import costs_table, explanation_parts, messages_tables, remarks
    from pipesched.render.gantt import MarkLines

    with output.saving(timeline, TIMELINE, target):
        charts = chart_parts(timeline, chart, screen, MarkLines(timeline.explanation))
        tables = (costs_table(timeline), *remarks(timeline), *messages_tables(timeline), "")
        parts = chain(charts, tables, explanation_parts(timeline.explanation))
        output.show(screen, lambda: timeline_document(timeline), parts)


def _explanation_parts(
    subject: Subject, explanation: Explanation, chart: ChartOptions, screen: Screen
) -> Iterator[RenderableType]:
    """Yield the chart with its marks, and what is known below it; `given` is the problem before it was fused."""
    from pipesched.render.explanation import MOST_DEVICES, WORST, explanation_parts
    from pipesched.render.gantt import MarkLines
    from pipesched.render.summary import heading

    outcome, given, plan_again = subject
    yield heading(outcome, given)
    rows: Any = chart.rows or None
    devices = outcome.problem.devices
    if not rows and devices > MOST_DEVICES:  # those that idle longest, and those with the critical path's end
        idle = explanation.schedule.idle_ticks
        worst = sorted(range(devices), key=lambda device: -idle[device])[:WORST]
        rows = sorted({*worst, 0, devices - 1})
    if chart.charts != "none":
        yield output.chart_of(outcome, chart, screen, rows=rows, marks=MarkLines(explanation))
    yield from ("", *explanation_parts(explanation, plan_again))


def _subject(words: Sequence[str], algo: str | None, source: ProblemSource, options: dict[str, Any]) -> Subject:
    """Return the schedule, the problem before it was fused, and what plans one again, None for a schedule of a file."""
    names, source = reading.split_positionals(words, source)
    files = [name for name in names if reading.is_file(name) or name == "-"]
    if files:
        if len(names) > 1 or algo is not None or options:
            raise ConfigError(
                f"{files[0]}: a schedule of a file is explained alone; give no algorithm and no option of one"
            )
        read = reading.read_schedule(files[0], source)  # checked by what explains it
        return read.outcome, read.given, None
    name = reading.only_name(names, algo)
    config = reading.given_config(source)

    with output.working(config.problem):
        outcome = reading.made_schedule(config, name, options)
    fed = {} if outcome.ordering is None else {ORDER: outcome.order}  # no other one is looked for

    def plan_again(problem: Any) -> Outcome:
        return reading.made_schedule(config._replace(problem=problem), name, {**options, **fed})

    by_layers = outcome.problem.layers is not None and outcome.schedule.recomputed  # of stages there are no layers
    return outcome, config.problem, None if by_layers else plan_again

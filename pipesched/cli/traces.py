"""Traces of a run on the command line: `read_timeline` reads them as one timeline, `timeline_parts` draws that."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipesched.cli.options import ChartOptions, ProblemSource, Screen, option
from pipesched.cli.output import chart_of, console_for, where_idle
from pipesched.cli.progress import doing
from pipesched.cli.reading import flags_of_problem, given_config, read_schedule
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import is_several

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipesched.analysis.measured.timeline import Timeline
    from pipesched.render.gantt import MarkLines

TIMELINE = "timeline"  # the kind of result that is written
PLAN = option(
    "--plan FILE",
    "With traces: the schedule that was planned (JSON, or PyTorch's CSV), to draw above what was measured.",
)

RANGES = option(
    "--ranges NAME=F,NAME=B",
    "With traces whose ranges have names of their own: which are F, B, I and W. Stages are ranks; `*` is any letters.",
)


def are_traces(files: Sequence[str]) -> bool:
    """Return whether files are meant as the traces of a run: several, or one that looks like a trace."""
    from pipesched.analysis.measured.files import is_trace

    return len(files) > 1 or (len(files) == 1 and files[0] != "-" and is_trace(files[0]))


def all_traces(words: Sequence[str]) -> bool:
    """Return whether words, which may be algorithms and configs too, are all files that look like traces."""
    from pipesched.analysis.measured.files import is_trace

    return bool(words) and all(map(is_trace, words))


def refuse_plan(plan: str | None, ranges: str | None = None) -> None:
    """Raise ConfigError for a plan, or names of ranges, without traces."""
    if plan is not None:
        raise ConfigError("--plan: goes with the traces of a run, which are drawn below it")
    if ranges is not None:
        raise ConfigError("--ranges: goes with the traces of a run")


def read_timeline(files: Sequence[str], plan: str | None, source: ProblemSource, ranges: str | None = None) -> Timeline:
    """Return the timeline of traces, one a rank. Raises ConfigError, and InvalidSchedule where no clocks fit."""
    from pipesched.analysis.measured.files import is_primus_file
    from pipesched.analysis.measured.timeline import read_traces
    from pipesched.file_formats.files import is_csv, read_file

    planned, has_costs = None, True
    if plan is not None:
        has_costs = plan == "-" or not is_csv(read_file(plan))
        planned = read_schedule(plan, ProblemSource(None, {}) if has_costs else source).outcome
    placement = None
    if source.config is not None or source.overrides:
        if is_primus_file(files[0]):
            placement = _placement(source)
        elif has_costs:
            raise ConfigError(
                f"{files[0]}: such a trace says its stages; configs and their options go with Primus's files, and with"
                " a plan in CSV"
            )
    with doing(f"reading {len(files)} traces"):
        timeline = read_traces(files, plan=planned, placement=placement, ranges=ranges)
    for note in timeline.notes:
        print(f"pipesched: note: {note}", file=sys.stderr)
    return timeline


def _placement(source: ProblemSource) -> Any:
    """Return the placement of a config, or of the option alone; None where it is left open."""
    if source.config is not None:
        return given_config(source, notes=False).problem.placement
    others = [name for name in source.overrides if name != "placement"]
    if others:
        raise ConfigError("has no effect on traces, beside a config of their placement", others[0])
    given = source.overrides["placement"]
    with flags_of_problem():
        return list(given) if is_several(given) else None if given == "auto" else given


def chart_parts(
    timeline: Timeline, chart: ChartOptions, screen: Screen, marks: MarkLines | None = None
) -> Iterator[RenderableType]:
    """Yield what was planned and, below it, what was measured, on one scale; `marks` are of what was measured."""
    from pipesched.render.summary import heading

    outcomes = [outcome for _, outcome in timeline.outcomes]
    for outcome in outcomes:
        is_last = outcome is outcomes[-1]
        together, own = [one.schedule for one in outcomes], marks if is_last else None
        yield heading(outcome)
        if chart.charts != "none":
            yield chart_of(outcome, chart, screen, together=together, show_legend=is_last, marks=own)
        yield ""


def timeline_parts(timeline: Timeline, chart: ChartOptions, screen: Screen) -> Iterator[RenderableType]:
    """Yield charts, summary and measured costs of a run."""
    from pipesched.render.explanation import costs_table, remarks
    from pipesched.render.summary import summary

    yield from chart_parts(timeline, chart, screen)
    yield summary(timeline.outcome, brief=console_for(screen).width < 80)
    yield from where_idle(timeline.outcome)
    yield ""
    yield costs_table(timeline)
    yield from remarks(timeline)

"""`pipesched show`: the chart and the metrics of a schedule in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipesched.cli.chart_options import ChartOptions
from pipesched.cli.options import ProblemSource, Screen, Target
from pipesched.cli.traces import TIMELINE, Plan, are_traces, print_timeline, read_timeline, refuse_plan

if TYPE_CHECKING:
    from pipesched.analysis.measured.timeline import Timeline


def command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="A schedule (our JSON, or PyTorch's CSV), or a document of rows; - reads standard input. Or the traces"
            " of a run, one a rank.",
            metavar="FILE..",
        ),
    ],
    *,
    plan: Plan = None,
    problem: ProblemSource,
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Draw the schedule in a file: a document with the times that stand in it, PyTorch's CSV with those of a config.

    The document of a comparison is shown as its table, that of a sweep or a frontier as a plot and a table; of what
    `robust` found as its table. Traces of a run (torch.profiler's, or Primus's pp_rank_0.json ..) become one measured
    schedule.
    """
    from pipesched.cli.output import answer_schedule, print_result, refuse_chart_options, saving, target_format
    from pipesched.cli.reading import read_file
    from pipesched.file_formats.files import ReadSchedule, kind_of
    from pipesched.pipeline.check import checked

    if are_traces(files):
        _show_timeline(read_timeline(files, plan, problem), chart, target, screen)
        return
    refuse_plan(plan)
    result = read_file(files[0], problem)
    if not isinstance(result, ReadSchedule):
        refuse_chart_options(chart, f"a {type(result).__name__.lower()}")
        with saving(result, kind_of(result)[0], target, chart.view()):
            print_result(result, screen)
        return
    target_format(target, kind_of(result.outcome)[0])
    checked(result.outcome.schedule)
    answer_schedule(result.outcome, chart, target, screen, result.given)


def _show_timeline(timeline: Timeline, chart: ChartOptions, target: Target, screen: Screen) -> None:
    """Print a measured schedule, and write it: to a page with what was planned, to other formats alone."""
    from pipesched.cli.output import saving, target_format
    from pipesched.file_formats.registry import SCHEDULE
    from pipesched.pipeline.check import checked

    is_page = str(target.path).lower().endswith(".html")
    kind, result = (TIMELINE, timeline) if is_page else (SCHEDULE, timeline.outcome)
    target_format(target, kind)
    checked(timeline.schedule)
    if chart.given():
        chart.require_drawable(timeline.schedule)
    with saving(result, kind, target, chart.view() if target.path else None):
        print_timeline(timeline, chart, screen)

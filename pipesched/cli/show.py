"""`pipesched show`: the chart and the metrics of a schedule in a file."""

from __future__ import annotations

from pipesched.cli.options import ChartOptions, ProblemSource, Screen, Target, argument
from pipesched.cli.output import answer_schedule, print_result, refuse_chart_options, saving, show, target_format
from pipesched.cli.reading import read_file
from pipesched.cli.traces import PLAN, RANGES, TIMELINE, are_traces, read_timeline, refuse_plan, timeline_parts
from pipesched.results.kinds import SCHEDULE, kind_of


def command(
    files: list[str] = argument(
        "FILE..",
        "A schedule (our JSON, or PyTorch's CSV), or a document of rows; - reads standard input. Or the traces of a"
        " run, one a rank.",
        ...,
    ),
    *,
    plan: str | None = PLAN,
    ranges: str | None = RANGES,
    problem: ProblemSource,
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Draw the schedule in a file: a document with the times that stand in it, PyTorch's CSV with those of a config.

    The document of a comparison is shown as its table, that of a sweep or a frontier as a plot and a table; of what
    `robust` found as its table. Traces of a run (of torch.profiler, OpenTelemetry, nsys, Primus) become one measured
    schedule.
    """
    from pipesched.documents.schedule import document
    from pipesched.file_formats.files import ReadSchedule
    from pipesched.pipeline.check.check import checked

    if are_traces(files):
        timeline = read_timeline(files, plan, problem, ranges)
        is_page = str(target.path).lower().endswith(".html")  # which also has what was planned
        kind, shown = (TIMELINE, timeline) if is_page else (SCHEDULE, timeline.outcome)
        target_format(target, kind)
        checked(timeline.schedule)
        if chart.given:
            chart.require_drawable(timeline.schedule)
        with saving(shown, kind, target, chart.view):
            show(screen, lambda: document(timeline.outcome), timeline_parts(timeline, chart, screen))
        return
    refuse_plan(plan, ranges)
    result = read_file(files[0], problem)
    if not isinstance(result, ReadSchedule):
        refuse_chart_options(chart, f"a {type(result).__name__.lower()}")
        with saving(result, kind_of(result)[0], target, chart.view):
            print_result(result, screen)
        return
    target_format(target, kind_of(result.outcome)[0])
    checked(result.outcome.schedule)
    answer_schedule(result.outcome, chart, target, screen, result.given)

"""`pipesched show`: the chart and the metrics of a schedule in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipesched.cli.chart_options import ChartOptions
from pipesched.cli.options import ProblemSource, Screen, Target

if TYPE_CHECKING:
    from pipesched.display import Displayable


def command(
    file: Annotated[
        str,
        typer.Argument(
            help="A schedule (our JSON, or PyTorch's CSV), or a document of rows; - reads standard input.",
            metavar="FILE",
        ),
    ],
    *,
    problem: ProblemSource,
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Draw the schedule in a file: a document with the times that stand in it, PyTorch's CSV with those of a config.

    The document of a comparison is shown as its table, that of a sweep or a frontier as a plot and a table; of what
    `robust` found as its table.
    """
    from pipesched.cli.output import answer_schedule, refuse_chart_options, save, target_format
    from pipesched.cli.reading import read_file
    from pipesched.file_formats.files import ReadSchedule, kind_of
    from pipesched.pipeline.check import checked

    result = read_file(file, problem)
    if not isinstance(result, ReadSchedule):
        refuse_chart_options(chart, f"a {type(result).__name__.lower()}")
        save(result, kind_of(result)[0], target, chart.view())
        _show_rows(result, screen)
        return
    target_format(target, kind_of(result.outcome)[0])
    checked(result.outcome.schedule)
    answer_schedule(result.outcome, chart, target, screen, result.given)


def _show_rows(result: Displayable, screen: Screen) -> None:
    """Print a result of rows as its table, or as its JSON document."""
    from pipesched.capabilities import capability_of
    from pipesched.cli.output import console_for, print_json
    from pipesched.comparison import Comparison
    from pipesched.file_formats.comparison_json import comparison_document, sweep_document
    from pipesched.file_formats.frontier_json import frontier_document
    from pipesched.render.table import display_parts
    from pipesched.solver.frontier import Frontier
    from pipesched.sweeping import Sweep

    if not screen.as_json:
        console = console_for(screen)
        for part in display_parts(result, ascii_only=screen.ascii_only or console.options.ascii_only):
            console.print(part)
    elif isinstance(result, Frontier):
        print_json(frontier_document(result))
    elif isinstance(result, Sweep):
        print_json(sweep_document(result))
    elif isinstance(result, Comparison):
        print_json(comparison_document(result))
    elif (capability := capability_of(result)) is not None:
        print_json(capability.load("document")(result))

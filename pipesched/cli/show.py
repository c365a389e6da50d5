"""`pipesched show`: the chart and the metrics of a schedule in a file."""

from __future__ import annotations

from typing import Annotated

import typer

from pipesched.cli.options import ChartView, Screen


def command(
    file: Annotated[
        str, typer.Argument(help="A schedule (our JSON, or PyTorch's CSV); - reads standard input.", metavar="FILE")
    ],
    *,
    problem: tuple[str | None, dict[str, str]],
    chart: ChartView,
    screen: Screen,
) -> None:
    """Draw the schedule in a file: a document with the times that stand in it, PyTorch's CSV with those of a config."""
    from pipesched.cli.output import print_json, print_schedule
    from pipesched.cli.reading import read_schedule
    from pipesched.pipeline.check import checked

    outcome, _, given = read_schedule(file, problem)
    checked(outcome.schedule)
    if screen.as_json:
        from pipesched.formats.schedule_json import document

        print_json(document(outcome))
    else:
        print_schedule(outcome, chart, screen, given)

"""`pipesched run`: one schedule."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipesched.cli.options import ChartView, Screen, Target


def command(
    *,
    algo: Annotated[
        str | None,
        typer.Option(
            "--algo",
            "-a",
            help="The algorithm, one of `pipesched list`; default: the config's, else 1f1b.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    problem: tuple[str | None, dict[str, str]],
    algorithm: dict[str, Any],
    chart: ChartView,
    target: Target,
    screen: Screen,
) -> None:
    """Schedule a training step by one algorithm: the chart, and every metric.

    Without a config it is Autopipe's case: 4 devices, 8 stages, 8 microbatches, forward 5, backward 10.
    """
    from pipesched.cli.output import print_json, print_schedule, save, target_format, window, working
    from pipesched.cli.reading import made_schedule
    from pipesched.config.load import load_config

    target_format(target)  # what is wrong with it is said before anything takes long
    given, configured = load_config(*problem)
    with working(given):
        outcome = made_schedule(given, configured, algo, algorithm)
    window(outcome.schedule, chart)  # bad options are said before anything is written
    save(outcome, target, chart)
    if screen.as_json:
        from pipesched.formats.schedule_json import document

        print_json(document(outcome))
    else:
        print_schedule(outcome, chart, screen, given)

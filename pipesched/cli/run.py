"""`pipesched run`: one schedule."""

from __future__ import annotations

from typing import Any

from pipesched.cli.options import ChartOptions, ProblemSource, Screen, Target, argument
from pipesched.cli.output import answer_schedule, target_format, working
from pipesched.cli.reading import ALGO, given_config, made_schedule, note_made, only_name, split_positionals
from pipesched.results.kinds import SCHEDULE


def command(
    words: list[str] | None = argument(
        "NAME|FILE", "An algorithm of `pipesched list`, and the YAML file of the problem."
    ),
    *,
    algo: str | None = ALGO,
    problem: ProblemSource,
    algorithm: dict[str, Any],
    chart: ChartOptions,
    target: Target,
    screen: Screen,
) -> None:
    """Schedule a training step by one algorithm: the chart, and every metric.

    Without a config it is the built-in default: 4 devices, 8 stages, 8 microbatches, forward 5, backward 10.
    """
    from pipesched.pipeline.problem.suspicions import ALIKE_MEMORY

    target_format(target, SCHEDULE)  # raises for a bad target before anything takes long
    names, source = split_positionals(words, problem)
    name = only_name(names, algo)
    config = given_config(source)
    with working(config.problem):
        outcome = made_schedule(config, name, algorithm)
    note_made(source, [outcome], assumed=config.assumes_halves, fused=config.problem)
    remarks = [ALIKE_MEMORY] if config.assumes_alike_memory else []
    answer_schedule(outcome, chart, target, screen, config.problem, remarks=remarks)

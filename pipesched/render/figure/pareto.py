"""A comparison as a figure: its schedules as points of makespan and peak memory."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain
from pipesched.render.figure.frontier import Trade, frontier_figure
from pipesched.render.figure.page import Drawing
from pipesched.render.view import PAGE
from pipesched.results.pareto import ParetoPoint


def pareto_figure(standings: Sequence[ParetoPoint], inches: float = PAGE) -> Drawing:
    """Draw the schedules of a comparison, with the budget of the devices where all have the same.

    Raises ConfigError if there is none.
    """
    if not standings:
        raise ConfigError("there is nothing to draw: none of the algorithms applies")
    points = [
        Trade(
            standing.outcome.algorithm,
            float(standing.makespan),
            float(standing.memory),
            dominated=standing.dominated_by is not None,
        )
        for standing in standings
    ]
    problem = standings[0].outcome.problem
    limits = set(problem.memory.budget or ())
    return frontier_figure(
        points,
        time_unit=problem.time_unit,
        memory_unit=problem.memory.unit,
        limit=float(plain(limits.pop())) if len(limits) == 1 else None,
        inches=inches,
    )

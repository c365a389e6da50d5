"""A comparison as a figure: its schedules as points of makespan and peak memory."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain
from pipesched.render.figure.frontier import Trade, frontier_figure
from pipesched.render.figure.page import Drawing
from pipesched.render.view import PAGE
from pipesched.results.pareto import ParetoPoint


def pareto_figure(pareto_points: Sequence[ParetoPoint], inches: float = PAGE) -> Drawing:
    """Draw the schedules of a comparison, with the budget of the devices where all have the same.

    Raises ConfigError if there is none.
    """
    if not pareto_points:
        raise ConfigError("there is nothing to draw: none of the algorithms applies")
    points = [
        Trade(
            point.outcome.algorithm,
            float(point.makespan),
            float(point.memory),
            dominated=point.dominated_by is not None,
        )
        for point in pareto_points
    ]
    problem = pareto_points[0].outcome.problem
    limits = set(problem.memory.budget or ())
    return frontier_figure(
        points,
        time_unit=problem.time_unit,
        memory_unit=problem.memory.unit,
        limit=float(plain(limits.pop())) if len(limits) == 1 else None,
        inches=inches,
    )

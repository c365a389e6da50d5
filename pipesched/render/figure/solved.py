"""A solver's frontier as a figure: the best schedule at every budget, and what is proved of it."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.quantities import in_units
from pipesched.render.figure.frontier import Point, frontier_image
from pipesched.render.frontier import objective
from pipesched.solver.frontier import FrontierPoint


def solved_image(points: Sequence[FrontierPoint], kind: str) -> bytes:
    """The points as svg, png or pdf. Their names are placements, or what found them where all have the same one."""
    problem = points[0].outcome.schedule.problem
    time, memory = problem.costs.scale, problem.memory.scale
    placements = len({point.placement for point in points}) > 1
    drawn = [
        Point(
            point.placement if placements else point.source,
            in_units(point.value, time),
            in_units(point.budget, memory),
            dominated=False,
            bound=in_units(point.bound, time),
        )
        for point in points
    ]
    return frontier_image(
        drawn,
        kind,
        time_unit=problem.time_unit,
        memory_unit=problem.memory.unit,
        titles=("budget of a device", objective(points)),
    )

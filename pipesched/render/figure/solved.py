"""A solver's frontier as a figure: the best schedule at every budget, and what is proved of it."""

from __future__ import annotations

from pipesched.errors import ConfigError
from pipesched.render.figure.frontier import Trade, frontier_figure
from pipesched.render.figure.page import Drawing
from pipesched.render.view import PAGE
from pipesched.results.frontier import Frontier


def solved_figure(frontier: Frontier, inches: float = PAGE) -> Drawing:
    """Draw the points of a frontier.

    Their names are placements, or what found them where all have the same one. Raises ConfigError if there is none.
    """
    if not frontier.points:
        raise ConfigError("there is nothing to draw: the frontier has no points")
    placements = len({point.placement for point in frontier}) > 1
    drawn = [
        Trade(
            point.placement if placements else point.source,
            point.value,
            point.budget,
            dominated=False,
            bound=point.bound,
        )
        for point in frontier
    ]
    return frontier_figure(
        drawn,
        time_unit=frontier.time_unit,
        memory_unit=frontier.memory_unit,
        titles=("budget of a device", frontier.objective),
        inches=inches,
    )

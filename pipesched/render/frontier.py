"""The makespan-memory frontier: a plot of its steps, and a table of its points with their bounds."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipesched.pipeline.quantities import to_fraction
from pipesched.render.grid import folded, grid, right
from pipesched.render.scatter import PlotPoint, Scatter
from pipesched.render.summary import GOOD
from pipesched.render.timescale import number
from pipesched.results.frontier import Frontier
from pipesched.results.status import Status

PROVED, OPEN = "*", "o"


def frontier_view(frontier: Frontier, *, ascii_only: bool = False) -> Group:
    """Return the plot, then the table. Budgets and times are in the user's units."""
    legend = Text(f"{PROVED} proved optimal  {OPEN} best found")
    return Group(_plot(frontier, ascii_only), "", frontier_table(frontier), legend)


def _plot(frontier: Frontier, ascii_only: bool) -> Scatter:
    time, memory = (f" ({unit})" if unit else "" for unit in (frontier.time_unit, frontier.memory_unit))
    corners = [(to_fraction(point.budget), to_fraction(point.value)) for point in frontier]
    drawn = [
        PlotPoint(x, y, PROVED if point.status == Status.OPTIMAL else OPEN)
        for point, (x, y) in zip(frontier, corners, strict=True)
    ]
    return Scatter(
        drawn,
        x_title=f"budget of a device{memory}",
        y_title=f"{frontier.objective}{time}",
        steps=corners,
        ascii_only=ascii_only,
    )


def frontier_table(frontier: Frontier) -> Table:
    """Return a row for each point: budget, objective, bound, gap, placement."""
    table = grid(*map(right, ("budget", frontier.objective, "bound", "gap")), folded("placement"))
    for point in frontier:
        gap = Text("optimal", style=GOOD) if point.status == Status.OPTIMAL else Text(f"{point.gap:.2%}")
        table.add_row(*map(number, (point.budget, point.value, point.bound)), gap, point.placement)
    return table

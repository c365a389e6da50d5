"""The makespan-memory frontier: a plot of its steps, and a row a point with what is proved."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipesched.pipeline.quantities import in_units
from pipesched.render.scatter import Point, Scatter
from pipesched.render.summary import GOOD
from pipesched.render.timescale import number
from pipesched.solver.frontier import FrontierPoint

PROVED, OPEN = "*", "o"


def frontier_view(points: Sequence[FrontierPoint], *, ascii_only: bool = False) -> Group:
    """The plot, then the table. Budgets and times are in the user's units."""
    return Group(_plot(points, ascii_only), "", _table(points), Text(f"{PROVED} proved optimal  {OPEN} best found"))


def _plot(points: Sequence[FrontierPoint], ascii_only: bool) -> Scatter:
    problem = points[0].outcome.schedule.problem
    time, memory = (f" ({unit})" if unit else "" for unit in (problem.time_unit, problem.memory.unit))
    places = [
        (Fraction(point.budget, problem.memory.scale), Fraction(point.value, problem.costs.scale)) for point in points
    ]
    drawn = [
        Point(x, y, PROVED if point.status == "optimal" else OPEN) for point, (x, y) in zip(points, places, strict=True)
    ]
    return Scatter(
        drawn,
        x_title=f"budget of a device{memory}",
        y_title=f"{objective(points)}{time}",
        steps=places,
        ascii_only=ascii_only,
    )


def objective(points: Sequence[FrontierPoint]) -> str:
    """What the points make as short as they can."""
    report = points[0].outcome.report
    return "makespan" if report is None else report.objective


def _table(points: Sequence[FrontierPoint]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("budget", objective(points), "bound", "gap"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("placement", overflow="fold")
    scale = points[0].outcome.schedule.problem.costs.scale
    for point in points:
        gap = Text("optimal", style=GOOD) if point.status == "optimal" else Text(f"{point.gap:.2%}")
        amounts = (point.value, scale), (point.bound, scale)
        cells = [number(in_units(*amount)) for amount in ((point.budget, _memory_scale(points)), *amounts)]
        table.add_row(*cells, gap, point.placement)
    return table


def _memory_scale(points: Sequence[FrontierPoint]) -> int:
    return points[0].outcome.schedule.problem.memory.scale

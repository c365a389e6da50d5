"""Speed against memory: a plot of the points of which none is both slower and larger, and their table."""

from __future__ import annotations

from fractions import Fraction
from string import ascii_uppercase

from rich.console import Group
from rich.style import Style
from rich.text import Text

from pipesched.render.palette import DIM
from pipesched.render.scatter import Path, PlotPoint, Scatter, Wall
from pipesched.render.space_points import PointsTable
from pipesched.render.tuning import head, tuning_view
from pipesched.tuning.result import Tuning

BOLD = Style(bold=True)
OTHER = "o"  # a point that another one is no worse than
MEANING = "of the points that were simulated none is faster than one of these and holds less"


def pareto_view(tuning: Tuning, *, ascii_only: bool = False) -> Group:
    """Return the plot, and a row for each of its marks; where nothing fits, what is nearest to that."""
    if not tuning.pareto:
        return tuning_view(tuning, ascii_only=ascii_only)
    plot = speed_against_memory(tuning, ascii_only=ascii_only)
    table = PointsTable(tuning.pareto, marks(len(tuning.pareto)))
    return Group(*head(tuning), "", plot, "", table, Text(MEANING, style="dim"))


def marks(count: int) -> list[str]:
    """Return a mark for each of so many points: a capital, after Z #."""
    return [*ascii_uppercase, *["#"] * (count - len(ascii_uppercase))][:count]


def speed_against_memory(tuning: Tuning, *, ascii_only: bool = False) -> Scatter:
    """Return a plot of the Pareto points, joined, and of the other rows."""
    points = tuning.pareto
    chosen = {trial.point for trial in points}
    others = [trial for trial in tuning.rows if trial.point not in chosen]
    walls = [Wall(Fraction(tuning.capacity), f"{tuning.capacity:g} GB of a GPU")] if tuning.capacity else []
    return Scatter(
        [
            *(PlotPoint(t.memory, t.rate, mark, BOLD) for t, mark in zip(points, marks(len(points)), strict=True)),
            *(PlotPoint(t.memory, t.rate, OTHER, DIM) for t in others),
        ],
        x_title="GB of the fullest device",
        y_title="tokens/s/GPU",
        walls=walls,
        paths=[Path([(t.memory, t.rate) for t in sorted(points, key=lambda t: t.memory)], DIM)],
        names=[(OTHER, "other points of the table", DIM)] if others else [],
        ascii_only=ascii_only,
    )

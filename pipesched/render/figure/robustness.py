"""A robustness as a figure: for each schedule the share of steps that take no longer than a makespan."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pipesched.analysis.robust.result import Robustness, RobustnessRow
from pipesched.errors import ConfigError
from pipesched.render.figure.chart import unit_rgb
from pipesched.render.figure.page import Drawing, Key, legend, plot_axes, settle, sheet
from pipesched.render.labels import with_unit
from pipesched.render.palette import HUES
from pipesched.render.view import PAGE

SHAPE = 0.55  # height over width
DASHES: Any = ("-", "--", "-.", ":")  # one after the other, so that lines differ without colours
MOST_POINTS = 1000  # of a line; of more samples evenly many


def robustness_figure(robustness: Robustness, inches: float = PAGE) -> Drawing:
    """Draw the distribution function of each schedule's makespan, with its makespan without noise as a dot below.

    Raises ConfigError where no row has samples.
    """
    rows = [row for row in robustness if row.makespans]
    if not rows:
        why = "none of the schedules applies" if not any(row.applicable for row in robustness) else "no samples"
        raise ConfigError(f"there is nothing to draw: {why}", "result")
    with sheet(inches, inches * SHAPE + 0.3) as figure:
        axes = plot_axes(figure)
        keys = [_draw(axes, place, row) for place, row in enumerate(rows)]
        keys.append((Line2D([], [], linestyle="none", marker="o", color="0.35", markersize=3.5), "without noise"))
        axes.set_xlabel(with_unit("makespan", robustness.time_unit))
        axes.set_ylabel("steps that take no longer (%)")
        axes.set_ylim(-3, 103)
        legend(figure, keys)
        settle(figure)
        return figure


def _draw(axes: Axes, place: int, row: RobustnessRow) -> Key:
    """Draw the steps of one schedule; return its entry of the legend."""
    colour, dash = unit_rgb(HUES[place % len(HUES)]), DASHES[place % len(DASHES)]
    ordered, count = sorted(row.makespans), len(row.makespans)
    points = (
        range(count) if count <= MOST_POINTS else [i * (count - 1) // (MOST_POINTS - 1) for i in range(MOST_POINTS)]
    )
    across = [ordered[0], *(ordered[point] for point in points)]
    up = [0.0, *(100 * (point + 1) / count for point in points)]
    axes.plot(across, up, drawstyle="steps-post", color=colour, linestyle=dash, linewidth=1.2, zorder=2 + place)
    axes.plot([row.makespan], [0], linestyle="none", marker="o", color=colour, markersize=3.5, zorder=3, clip_on=False)
    return Line2D([], [], color=colour, linestyle=dash, linewidth=1.2), row.algorithm

"""A sweep as a figure: a line for each algorithm, the measure over the value of the field that is varied."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from pipesched.analysis.robustness import Robustness, RobustnessRow
from pipesched.errors import ConfigError
from pipesched.render.figure.chart import unit_rgb
from pipesched.render.figure.page import Drawing, Key, legend, plain_numbers, plot_axes, settle, sheet
from pipesched.render.marks import with_unit
from pipesched.render.palette import HUES
from pipesched.render.sweep import PlotMark, best_lines, measure_named, title_of, title_of_field
from pipesched.render.view import View
from pipesched.results.comparison import Sweep
from pipesched.schedulers.registry import called

SHAPE = 0.55  # height over width
THICK = 1.2  # points, of every line
MARKERS = "osD^vP*X<>"  # one after the other, so that lines differ without colours
MOST_TICKS = 13  # values of the field that all stand below the axis


def sweep_figure(sweep: Sweep, view: View) -> Drawing:
    """Draw the measure `view.show`. Raises ConfigError for an unknown one, or if there is nothing to draw."""
    lines, note = best_lines(sweep, view.show)
    if not lines:
        raise ConfigError("there is nothing to draw: none of the algorithms applies", "result")
    with sheet(view, view.inches * SHAPE + 0.3) as figure:
        axes = plot_axes(figure)
        keys = [_draw(axes, place, len(lines), name, line) for place, (name, line) in enumerate(lines.items())]
        if not all(mark.fits for line in lines.values() for mark in line):
            keys.append((Line2D([], [], linestyle="none", **_hollow("0.35", "o")), "over budget"))
        if note:
            keys.append((Line2D([], [], linestyle="none"), note))
        axes.set_xlabel(title_of_field(sweep))
        axes.set_ylabel(title_of(sweep, measure_named(view.show)))
        if sweep.of_words:
            axes.set_xticks(range(len(sweep)), [str(point.value) for point in sweep])
            plain_numbers(axes.yaxis)
        else:
            values = sorted({mark.x for line in lines.values() for mark in line})
            apart = min((later - here for here, later in pairwise(values)), default=1)
            if len(values) <= MOST_TICKS and apart * MOST_TICKS * 1.5 >= values[-1] - values[0]:
                axes.set_xticks(values)
            plain_numbers(axes.xaxis, axes.yaxis)
        legend(figure, keys)
        settle(figure)
        return figure


def _draw(axes: Axes, place: int, lines: int, name: str, line: Sequence[PlotMark]) -> Key:
    """Draw a line with its marks, hollow where a schedule is over its budget; return its entry of the legend.

    Marks are smaller than those of the lines before, so that equal lines are seen below each other.
    """
    colour, marker = unit_rgb(HUES[place % len(HUES)]), MARKERS[place % len(MARKERS)]
    size = 3.5 + 3 * (1 - place / max(lines - 1, 1))
    axes.plot([mark.x for mark in line], [mark.y for mark in line], color=colour, linewidth=THICK, zorder=2 + place)
    full: dict[str, Any] = {"marker": marker, "color": colour, "markersize": size}
    for fits, look in ((True, full), (False, {**_hollow(colour, marker), "markersize": size})):
        chosen = [mark for mark in line if mark.fits == fits]
        axes.plot([mark.x for mark in chosen], [mark.y for mark in chosen], linestyle="none", zorder=2 + place, **look)
    return Line2D([], [], color=colour, linewidth=THICK, marker=marker, markersize=size), name


def _hollow(colour: object, marker: str) -> dict[str, Any]:
    return {"marker": marker, "markersize": 4, "markerfacecolor": "white", "markeredgecolor": colour}


DASHES: Any = ("-", "--", "-.", ":")  # one after the other, so that lines differ without colours
MOST_POINTS = 1000  # of a line; of more samples evenly many


def robustness_figure(robustness: Robustness, view: View) -> Drawing:
    """Draw the distribution function of each schedule's makespan, with its makespan without noise as a dot below.

    Raises ConfigError where no row has samples.
    """
    rows = [row for row in robustness if row.makespans]
    if not rows:
        why = "none of the schedules applies" if not any(row.applicable for row in robustness) else "no samples"
        raise ConfigError(f"there is nothing to draw: {why}", "result")
    with sheet(view, view.inches * SHAPE + 0.3) as figure:
        axes = plot_axes(figure)
        keys = [_draw_row(axes, place, row) for place, row in enumerate(rows)]
        keys.append((Line2D([], [], linestyle="none", marker="o", color="0.35", markersize=3.5), "without noise"))
        axes.set_xlabel(with_unit("makespan", robustness.time_unit))
        axes.set_ylabel("steps that take no longer (%)")
        axes.set_ylim(-3, 103)
        legend(figure, keys)
        settle(figure)
        return figure


def _draw_row(axes: Axes, place: int, row: RobustnessRow) -> Key:
    colour, dash = unit_rgb(HUES[place % len(HUES)]), DASHES[place % len(DASHES)]
    ordered, count = sorted(row.makespans), len(row.makespans)
    points = (
        range(count) if count <= MOST_POINTS else [i * (count - 1) // (MOST_POINTS - 1) for i in range(MOST_POINTS)]
    )
    across = [ordered[0], *(ordered[point] for point in points)]
    up = [0.0, *(100 * (point + 1) / count for point in points)]
    axes.plot(across, up, drawstyle="steps-post", color=colour, linestyle=dash, linewidth=1.2, zorder=2 + place)
    axes.plot([row.makespan], [0], linestyle="none", marker="o", color=colour, markersize=3.5, zorder=3, clip_on=False)
    return Line2D([], [], color=colour, linestyle=dash, linewidth=1.2), called(row.algorithm)

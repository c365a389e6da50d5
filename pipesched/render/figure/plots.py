"""Plots: time against memory, a measure over what a sweep varies, and how often steps take how long.

`frontier_figure` draws schedules by time and memory as points, of which a line goes through those that no other beats;
`solved_figure` and `pareto_figure` call it, `place_names` puts names. Then `sweep_figure` and `robustness_figure`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import hypot
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from pipesched.analysis.robustness import Robustness
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.quantities import plain
from pipesched.render.comparison import PlotMark, best_lines, title_of, title_of_field
from pipesched.render.figure.chart import (
    DASHES,
    GREY,
    Drawing,
    Key,
    font,
    legend,
    plain_numbers,
    plot_axes,
    settle,
    sheet,
    unit_rgb,
)
from pipesched.render.palette import HUES
from pipesched.render.scene import with_unit
from pipesched.render.view import View
from pipesched.results.comparison import Frontier, ParetoPoint, Sweep
from pipesched.schedulers.registry import called

SHAPE = 0.62  # height over width
THICK = 0.9  # points, of every line
MARK, PASSED = unit_rgb(HUES[0]), "0.6"
DOTTED = (0, (1, 1.5))
WIDE_RANGE = 2.5  # of makespans, from which their axis is logarithmic


class Trade(NamedTuple):
    """A schedule by its makespan and peak memory, in the user's units.

    It is `dominated` if another one is no worse in both and better in one. `bound` is the lower bound on the makespan
    with that memory, where it is known.
    """

    label: str
    makespan: float
    peak: float
    dominated: bool
    bound: float | None = None

    @property
    def open(self) -> bool:
        """Whether a shorter schedule is not ruled out."""
        return self.bound is not None and self.bound < self.makespan


def frontier_figure(
    points: Sequence[Trade],
    time_unit: str = "",
    memory_unit: str = "",
    *,
    limit: float | None = None,
    titles: tuple[str, str] = ("peak memory of a device", "makespan"),
    view: View | None = None,
    proved: str = "optimal",
) -> Drawing:
    """Draw peak memory to the right and makespan upwards; points at one spot share a name.

    `limit`, a dashed line, is what the budget leaves for activations. A point is hollow where its bound is lower;
    `proved` says what others are.
    """
    view = view or View()
    with sheet(view, view.inches * SHAPE + 0.3) as figure:
        axes = plot_axes(figure)
        best = sorted({(point.peak, point.makespan) for point in points if not point.dominated})
        if best:  # stairs: with that much memory, none of these schedules is shorter
            axes.step(*zip(*best, strict=True), where="post", color=MARK, linewidth=THICK)
        for dominated, colour, size in ((True, PASSED, 10), (False, MARK, 18)):
            chosen = [point for point in points if point.dominated == dominated]
            faces = ["white" if point.open else colour for point in chosen]
            look: Any = {"s": size, "facecolors": faces, "edgecolors": [colour] * len(chosen), "linewidths": 0.9}
            axes.scatter([point.peak for point in chosen], [point.makespan for point in chosen], zorder=3, **look)
        bounded = [(point.peak, point.bound, point.makespan) for point in points if point.bound is not None]
        gaps = [[(peak, bound), (peak, makespan)] for peak, bound, makespan in bounded]
        axes.add_collection(LineCollection(gaps, colors=MARK, linewidths=THICK, linestyles=DOTTED))
        if limit is not None:
            above: Any = {"transform": axes.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": font(1)}
            axes.axvline(limit, color="black", linewidth=THICK, linestyle=DASHES)
            axes.text(limit, 1.01, "budget", **above)
        axes.set_xlabel(with_unit(titles[0], memory_unit))
        axes.set_ylabel(with_unit(titles[1], time_unit))
        axes.margins(0.12)
        makespans = [point.makespan for point in points if point.makespan > 0]
        if makespans and max(makespans) > WIDE_RANGE * min(makespans):  # a logarithmic axis shows near ones too
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)))
            axes.yaxis.set_minor_formatter(NullFormatter())
        plain_numbers(axes.xaxis, axes.yaxis)
        legend(figure, list(_key(points, proved)))
        settle(figure)
        _names(axes, points)
        return figure


def _key(points: Sequence[Trade], proved: str) -> Iterator[Key]:
    look: Any = {"marker": "o", "markersize": 4, "linestyle": "none"}
    if all(point.bound is None for point in points):
        yield Line2D([], [], color=MARK, **look), "frontier"
        if any(point.dominated for point in points):
            yield Line2D([], [], color=PASSED, **look), "dominated"
        return
    if not all(point.open for point in points):
        yield Line2D([], [], color=MARK, **look), f"proved {proved}"
    if any(point.open for point in points):
        yield Line2D([], [], markerfacecolor="white", markeredgecolor=MARK, **look), "best found"
        yield Line2D([], [], color=MARK, linewidth=THICK, linestyle=DOTTED), "down to the bound"


def _names(axes: Axes, points: Sequence[Trade]) -> None:
    """Write a name at each spot with points; those of the frontier choose first."""
    at: dict[tuple[float, float], list[Trade]] = defaultdict(list)
    for point in points:
        at[point.peak, point.makespan].append(point)
    spots = sorted(at.values(), key=lambda together: together[0].dominated)
    if not spots:
        return
    look: Any = {"xytext": (0, 0), "textcoords": "offset points", "va": "center", "ha": "center", "fontsize": font(1)}
    look["arrowprops"] = {"arrowstyle": "-", "linewidth": 0.3, "color": GREY, "shrinkA": 0, "shrinkB": 2}
    notes = []
    for together in spots:
        point, names = together[0], ", ".join(point.label for point in together)
        colour = GREY if point.dominated else "black"
        notes.append(axes.annotate(names, (point.peak, point.makespan), color=colour, **look))
    extents = [note.get_window_extent() for note in notes]
    marks = axes.transData.transform([(together[0].peak, together[0].makespan) for together in spots]).tolist()
    paths = [line.get_transform().transform(line.get_xydata()).tolist() for line in axes.lines]
    segments = [segment for corners in paths for segment in pairwise(corners)]
    boxes = [Box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for (x0, y0), (x1, y1) in segments]
    lines = [box.padded(0.7) for box in boxes]
    sizes = [(float(extent.width), float(extent.height)) for extent in extents]
    for note, box, mark in zip(notes, place_names(marks, sizes, lines, Box(*axes.bbox.extents)), marks, strict=True):
        note.set_position((box.centre[0] - mark[0], box.centre[1] - mark[1]))
        if note.arrow_patch:  # close to its mark a name needs no line
            note.arrow_patch.set_visible(needs_line(box, mark))


def solved_figure(frontier: Frontier, view: View) -> Drawing:
    """Draw the points of a frontier, named after placements or what found them. Raises ConfigError if there is none."""
    if not frontier.points:
        raise ConfigError("there is nothing to draw: the frontier has no points")
    placements = len({point.placement for point in frontier}) > 1
    drawn = [
        Trade(point.placement if placements else point.source, point.value, point.budget, False, point.bound)
        for point in frontier
    ]
    units, titles = (frontier.time_unit, frontier.memory_unit), ("memory budget of a device", frontier.objective)
    return frontier_figure(drawn, *units, titles=titles, view=view, proved=frontier.proved)


def pareto_figure(pareto_points: Sequence[ParetoPoint], view: View) -> Drawing:
    """Draw the schedules of a comparison, and the budget that all devices have. Raises ConfigError if there is none."""
    if not pareto_points:
        raise ConfigError("there is nothing to draw: none of the algorithms applies")
    points = [
        Trade(called(one.outcome.algorithm), float(one.makespan), float(one.memory), one.dominated_by is not None)
        for one in pareto_points
    ]
    problem = pareto_points[0].outcome.problem
    limits = set(problem.memory.budget or ())
    limit = float(plain(limits.pop())) if len(limits) == 1 else None
    return frontier_figure(points, problem.time_unit, problem.memory.unit, limit=limit, view=view)


DIRECTIONS = ((1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1))  # best first
REACHES = (5, 12, 22, 34, 48)  # from a mark to its name
HALF = 3  # of the size of a mark
MARGIN = 1.5  # kept free around a name
# What costs how much: a square point on something else, and off the axes; a mark under a name; another mark that is
# nearer than its own; a line that runs through something.
OVERLAP, OUTSIDE, COVERED, MISLEADING, CROSSING = 4, 10, 100, 60, 60
Spot = tuple[float, float]


class Box(NamedTuple):
    """A rectangle that something covers."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def area(self) -> float:
        return (self.right - self.left) * (self.top - self.bottom)

    @property
    def centre(self) -> Spot:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def padded(self, margin: float) -> Box:
        return Box(self.left - margin, self.bottom - margin, self.right + margin, self.top + margin)

    def common(self, other: Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide * high if wide > 0 and high > 0 else 0.0

    def distance(self, spot: Spot) -> float:
        """Return the distance from a spot to the nearest point of the box."""
        x, y = min(max(spot[0], self.left), self.right), min(max(spot[1], self.bottom), self.top)
        return hypot(spot[0] - x, spot[1] - y)


def place_names(marks: Sequence[Spot], sizes: Sequence[Spot], lines: Sequence[Box], inside: Box) -> list[Box]:
    """Return a box for the name of each mark, chosen in their order; `sizes` are widths and heights of the names."""
    taken, chosen = list(lines), []
    for mark, size in zip(marks, sizes, strict=True):
        others = [other for other in marks if other != mark]
        boxes = [(_beside(mark, size, direction, reach), reach) for reach in REACHES for direction in DIRECTIONS]
        best, _ = min(boxes, key=lambda pair: pair[1] + _cost(pair[0], mark, others, taken, inside))
        chosen.append(best)
        taken.append(best.padded(MARGIN))
    return chosen


def _beside(mark: Spot, size: Spot, direction: tuple[int, int], reach: float) -> Box:
    (x, y), (width, height), (right, up) = mark, size, direction
    left = x + right * reach - (width if right < 0 else 0 if right else width / 2)
    bottom = y + up * reach - (height if up < 0 else 0 if up else height / 2)
    return Box(left, bottom, left + width, bottom + height)


def _cost(box: Box, mark: Spot, others: Sequence[Spot], taken: Sequence[Box], inside: Box) -> float:
    own = box.distance(mark)
    cost = OVERLAP * sum(map(box.common, taken)) + OUTSIDE * (box.area - box.common(inside))
    cost += COVERED * sum(box.distance(other) < HALF for other in others)
    if needs_line(box, mark):  # which may pass through a box that neither end is in
        (x, y), (until, top) = mark, box.centre
        line = [(x + (until - x) * part / 8, y + (top - y) * part / 8) for part in range(9)]
        passed = ([other.distance(spot) == 0 for spot in line] for other in taken)
        return cost + CROSSING * sum(any(between) and not (first or last) for first, *between, last in passed)
    return cost + MISLEADING * sum(box.distance(other) <= own for other in others)


def needs_line(box: Box, mark: Spot) -> bool:
    """Return whether a name is so far from its mark that only a line says whose it is."""
    return box.distance(mark) > 2 * REACHES[0]


LOW = 0.55  # height over width of lines, which is less than that of a frontier
LINE = 1.2  # points
MARKERS = "osD^vP*X<>"  # one after the other, so that lines differ without colours
MOST_TICKS = 13  # values of the field that all stand below the axis
HOLLOW: Any = {"markerfacecolor": "white", "markeredgecolor": "0.35"}  # of what is over a budget


def sweep_figure(sweep: Sweep, view: View) -> Drawing:
    """Draw the measure `view.show`. Raises ConfigError for an unknown one, or if there is nothing to draw."""
    lines, note = best_lines(sweep, view.show)
    if not lines:
        raise ConfigError("there is nothing to draw: none of the algorithms applies", "result")
    with sheet(view, view.inches * LOW + 0.3) as figure:
        axes = plot_axes(figure)
        keys = [_draw_line(axes, place, len(lines), name, line) for place, (name, line) in enumerate(lines.items())]
        if not all(mark.fits for line in lines.values() for mark in line):
            keys.append((Line2D([], [], linestyle="none", marker="o", markersize=4, **HOLLOW), "over budget"))
        if note:
            keys.append((Line2D([], [], linestyle="none"), note))
        axes.set_xlabel(title_of_field(sweep))
        axes.set_ylabel(title_of(sweep, view.show))
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


def _draw_line(axes: Axes, place: int, lines: int, name: str, line: Sequence[PlotMark]) -> Key:
    """Draw a line, its marks hollow where over budget and smaller than those of lines below; return its key."""
    colour, marker = unit_rgb(HUES[place % len(HUES)]), MARKERS[place % len(MARKERS)]
    size = 3.5 + 3 * (1 - place / max(lines - 1, 1))
    axes.plot([mark.x for mark in line], [mark.y for mark in line], color=colour, linewidth=LINE, zorder=2 + place)
    beside: Any = {"linestyle": "none", "marker": marker, "markersize": size, "zorder": 2 + place}
    for fits, look in ((True, {"color": colour}), (False, {**HOLLOW, "markeredgecolor": colour})):
        chosen = [mark for mark in line if mark.fits == fits]
        axes.plot([mark.x for mark in chosen], [mark.y for mark in chosen], **beside, **look)
    return Line2D([], [], color=colour, linewidth=LINE, marker=marker, markersize=size), name


STYLES: Any = ("-", "--", "-.", ":")  # one after the other, so that lines differ without colours
MOST_POINTS = 1000  # of a line; of more samples evenly many


def robustness_figure(robustness: Robustness, view: View) -> Drawing:
    """Draw how many steps take how long, and makespans without noise. Raises ConfigError where no row has samples."""
    rows = [row for row in robustness if row.makespans]
    if not rows:
        why = "none of the schedules applies" if not any(row.applicable for row in robustness) else "no samples"
        raise ConfigError(f"there is nothing to draw: {why}", "result")
    with sheet(view, view.inches * LOW + 0.3) as figure:
        axes = plot_axes(figure)
        keys: list[Key] = []
        for place, row in enumerate(rows):
            colour, dash = unit_rgb(HUES[place % len(HUES)]), STYLES[place % len(STYLES)]
            ordered, count = sorted(row.makespans), len(row.makespans)
            drawn = min(count, MOST_POINTS)
            points = [place * (count - 1) // max(drawn - 1, 1) for place in range(drawn)]
            across = [ordered[0], *(ordered[point] for point in points)]
            up = [0.0, *(100 * (point + 1) / count for point in points)]
            look: Any = {"color": colour, "linestyle": dash, "linewidth": LINE}
            axes.plot(across, up, drawstyle="steps-post", zorder=2 + place, **look)
            mark: Any = {"marker": "o", "color": colour, "markersize": 3.5, "linestyle": "none"}
            axes.plot([row.makespan], [0], zorder=3, clip_on=False, **mark)
            keys.append((Line2D([], [], **look), called(row.algorithm)))
        keys.append((Line2D([], [], linestyle="none", marker="o", color="0.35", markersize=3.5), "without noise"))
        axes.set_xlabel(with_unit("makespan", robustness.time_unit))
        axes.set_ylabel("steps that take no longer (%)")
        axes.set_ylim(-3, 103)
        legend(figure, keys)
        settle(figure)
        return figure

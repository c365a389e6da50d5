"""The trade between time and memory: every schedule a point, and a line through those that no other beats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import plain
from pipesched.render.figure.chart import DASHES, Box, needs_line, place_names, unit_rgb
from pipesched.render.figure.page import GREY, Drawing, Key, font, legend, plain_numbers, plot_axes, settle, sheet
from pipesched.render.marks import with_unit
from pipesched.render.palette import HUES
from pipesched.render.view import View
from pipesched.results.comparison import Frontier, ParetoPoint
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
        _marks(axes, points)
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


def _marks(axes: Axes, points: Sequence[Trade]) -> None:
    for dominated, colour, size in ((True, PASSED, 10), (False, MARK, 18)):
        chosen = [point for point in points if point.dominated == dominated]
        faces = ["white" if point.open else colour for point in chosen]
        look: Any = {"s": size, "facecolors": faces, "edgecolors": [colour] * len(chosen), "linewidths": 0.9}
        axes.scatter([point.peak for point in chosen], [point.makespan for point in chosen], zorder=3, **look)
    gaps = [[(point.peak, point.bound), (point.peak, point.makespan)] for point in points if point.bound is not None]
    axes.add_collection(LineCollection(gaps, colors=MARK, linewidths=THICK, linestyles=DOTTED))


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
    """Draw the points of a frontier.

    Their names are placements, or what found them where all have the same one. Raises ConfigError if there is none.
    """
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
    """Draw the schedules of a comparison, with the budget of the devices where all have the same.

    Raises ConfigError if there is none.
    """
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

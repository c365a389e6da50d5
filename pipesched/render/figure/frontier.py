"""The trade between time and memory: every schedule a point, and a line through those that no other beats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from pipesched.render.figure.chart import unit_rgb
from pipesched.render.figure.page import FONT, GREY, POINTS, image, settle, sheet, with_unit
from pipesched.render.palette import HUES
from pipesched.render.timescale import number
from pipesched.render.view import PAGE

SHAPE = 0.62  # height over width
MARK, PASSED = unit_rgb(HUES[0]), "0.6"
WIDE_RANGE = 2.5  # of makespans, from which their axis is logarithmic
PLACES = [  # where a name may stand, best first: (right, up) in points to its nearest corner or edge
    (right * reach, up * reach)
    for reach in (5, 12, 22, 34, 48)
    for right, up in ((1, 1), (1, 0), (1, -1), (-1, 1), (-1, 0), (-1, -1), (0, 1), (0, -1))
]
NEAR = 8  # points; a name further away has a line to its mark


class Point(NamedTuple):
    """A schedule by its makespan and peak memory, in the user's units. Dominated: another is better in one of them,
    and no worse in the other.
    """

    label: str
    makespan: float
    peak: float
    dominated: bool


def frontier_image(
    points: Sequence[Point], kind: str, *, time_unit: str = "", memory_unit: str = "", inches: float = PAGE
) -> bytes:
    """Peak memory to the right, makespan upwards, as svg, png or pdf; points of equal place share a name."""
    with sheet(inches, inches * SHAPE + 0.3) as figure:
        axes = figure.add_subplot()
        _stairs(axes, points)
        _marks(axes, points)
        axes.set_xlabel(with_unit("peak memory of a device", memory_unit))
        axes.set_ylabel(with_unit("makespan", time_unit))
        axes.margins(0.12)
        _scales(axes, points)
        axes.grid(linewidth=0.3, color="0.88")
        axes.set_axisbelow(True)
        for side in ("right", "top"):
            axes.spines[side].set_visible(False)
        settle(figure)
        _names(axes, points)
        return image(figure, kind)


def _scales(axes: Axes, points: Sequence[Point]) -> None:
    """Plain numbers along both axes; makespans far apart on a logarithmic one, which shows the near ones too."""
    makespans = [point.makespan for point in points if point.makespan > 0]
    if makespans and max(makespans) > WIDE_RANGE * min(makespans):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 2.5, 3, 4, 5, 6, 8)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: number(int(value) if value == int(value) else value))


def _stairs(axes: Axes, points: Sequence[Point]) -> None:
    """The frontier: with that much memory, no schedule of these is shorter."""
    best = sorted({(point.peak, point.makespan) for point in points if not point.dominated})
    if best:
        peaks, makespans = zip(*best, strict=True)
        axes.step(peaks, makespans, where="post", color=MARK, linewidth=0.9)


def _marks(axes: Axes, points: Sequence[Point]) -> None:
    for dominated, colour, size in ((True, PASSED, 10), (False, MARK, 18)):
        chosen = [point for point in points if point.dominated == dominated]
        axes.scatter(
            [point.peak for point in chosen], [point.makespan for point in chosen], s=size, color=colour, zorder=3
        )


def _names(axes: Axes, points: Sequence[Point]) -> None:
    """A name at each place where points are, where it covers least of other names, marks and the line; the frontier's
    first.
    """
    taken = [_around(axes, point) for point in points]
    taken += [box for line in axes.lines for box in _along(line.get_transform().transform(line.get_xydata()).tolist())]
    for name, point in sorted(_places(points), key=lambda entry: entry[1].dominated):
        taken.append(_write(axes, name, point, taken))


def _places(points: Sequence[Point]) -> Iterator[tuple[str, Point]]:
    """Each place once, with the names of all points there."""
    names: dict[tuple[float, float], list[Point]] = defaultdict(list)
    for point in points:
        names[point.peak, point.makespan].append(point)
    for together in names.values():
        yield ", ".join(point.label for point in together), together[0]


def _around(axes: Axes, point: Point) -> Bbox:
    """A mark, in pixels."""
    across, up = axes.transData.transform((point.peak, point.makespan))
    return Bbox.from_bounds(across - 4, up - 4, 8, 8)


def _along(corners: Sequence[Sequence[float]]) -> Iterator[Bbox]:
    """The legs of the stairs, in pixels."""
    for (x0, y0), (x1, y1) in pairwise(corners):
        yield Bbox.from_extents(min(x0, x1) - 1, min(y0, y1) - 1, max(x0, x1) + 1, max(y0, y1) + 1)


def _write(axes: Axes, name: str, point: Point, taken: Sequence[Bbox]) -> Bbox:
    """Write a name at the place that covers least, and return what to keep free for it, in pixels."""
    pixels = axes.figure.dpi / POINTS
    note = axes.annotate(
        name,
        (point.peak, point.makespan),
        xytext=(0, 0),
        textcoords="offset points",
        va="center",
        ha="center",
        fontsize=FONT - 1,
        color=GREY if point.dominated else "black",
        arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": GREY, "shrinkA": 0, "shrinkB": 2},
    )
    note.set_in_layout(False)
    size = note.get_window_extent()
    centre = axes.transData.transform((point.peak, point.makespan)).tolist()
    boxes = [_box(centre, size, right * pixels, up * pixels) for right, up in PLACES]
    costs = [_covered(box, taken, axes.bbox) for box in boxes]
    chosen = costs.index(min(costs))
    box = boxes[chosen]
    note.set_position((((box.x0 + box.x1) / 2 - centre[0]) / pixels, ((box.y0 + box.y1) / 2 - centre[1]) / pixels))
    if max(map(abs, PLACES[chosen])) < NEAR and note.arrow_patch:
        note.arrow_patch.set_visible(False)
    return box.padded(2 * pixels)


def _box(centre: Sequence[float], size: Bbox, right: float, up: float) -> Bbox:
    """What a name covers that stands so far right of and above `centre`, in pixels."""
    left = centre[0] + (right if right > 0 else right - size.width if right else -size.width / 2)
    bottom = centre[1] + (up if up > 0 else up - size.height if up else -size.height / 2)
    return Bbox.from_bounds(left, bottom, size.width, size.height)


def _covered(box: Bbox, taken: Sequence[Bbox], inside: Bbox) -> float:
    """How much of a name would stand on others, or outside of the axes, in square pixels."""
    return sum(_common(box, other) for other in taken) + 10 * (box.width * box.height - _common(box, inside))


def _common(one: Bbox, other: Bbox) -> float:
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return wide * high if wide > 0 and high > 0 else 0.0

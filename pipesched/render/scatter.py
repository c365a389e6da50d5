"""Makespan against memory: a scatter plot in characters, and a table.

A cell is two columns wide: the mark of a point, and a + when more points share the cell (the legend names them all). So
two marks never touch, and every fact is readable without colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from string import ascii_lowercase, digits
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.pipeline.quantities import Exact, plain, to_fraction
from pipesched.render.cells import Line
from pipesched.render.comparison import MAKESPAN, PEAK, refusals, units_of
from pipesched.render.grid import folded, grid, heads, right, shortened, uncut
from pipesched.render.legend import Item, held_text, wrap
from pipesched.render.marks import with_unit
from pipesched.render.palette import DIM, OVER
from pipesched.render.summary import BAD, GOOD
from pipesched.render.timescale import number, round_number
from pipesched.render.view import line
from pipesched.results.comparison import Comparison, Frontier, ParetoPoint
from pipesched.results.status import Status

Amount = int | float | Fraction
PLAIN = Style.null()
FEWEST_ROWS, MOST_ROWS = 6, 18


class PlotPoint(NamedTuple):
    """A point and the one character that stands for it."""

    x: Amount
    y: Amount
    mark: str
    style: Style = PLAIN


class Wall(NamedTuple):
    """A vertical line, such as a limit, and its name. Far from all points it stands in the legend only."""

    x: Amount
    label: str


class Path(NamedTuple):
    """A line from point to point (x, y), drawn in dots where nothing else stands."""

    points: Sequence[tuple[Amount, Amount]]
    style: Style = PLAIN


class Ruler(NamedTuple):
    """An axis: `cells` cells show the values from `low` to `high`."""

    low: Fraction
    high: Fraction
    cells: int

    @classmethod
    def over(cls, values: Sequence[Fraction], cells: int) -> Ruler:
        """Return the axis that shows all of these values; a longer one where they are equal."""
        low, high = min(values), max(values)
        return cls(low, high if high > low else low + (abs(low) or 1), cells)

    def cell(self, value: Amount) -> int:
        """Return the cell nearest to a value."""
        return round((Fraction(value) - self.low) * (self.cells - 1) / (self.high - self.low))

    def ticks(self, spacing: int, *, whole: bool = False) -> list[tuple[int, str]]:
        """Return (cell, label) of round values, at least `spacing` cells apart; only of `whole` ones if asked."""
        step = round_number((self.high - self.low) * spacing / (self.cells - 1))
        step = max(step, Fraction(1)) if whole else step
        values = [multiple * step for multiple in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [(self.cell(value), number(plain(value))) for value in values]


class Glyphs(NamedTuple):
    """The characters of a plot besides its marks."""

    axis: str
    tick: str
    origin: str
    floor: str
    floor_tick: str
    flat: str
    drop: str
    corner: str
    wall: str
    above: str
    dot: str


UNICODE = Glyphs("│", "┤", "└", "─", "┬", "─", "│", "┐", "┊", "↑", "·")
ASCII = Glyphs("|", "+", "+", "-", "+", "-", "|", ".", ":", "^", ".")


@dataclass(frozen=True)
class Scatter:
    """Points over two titled axes.

    `steps` are corners (x, y) of a falling frontier, x rising: a line runs right from each and drops to the next, and
    from the last one to the edge. What is above the `ceiling` stands in a row of its own on top, so that it does not
    flatten the rest. Of several points in a cell the first is drawn. `paths` join points; `names` says in the legend
    what marks stand for, `note` what is missing. `counts` says that x counts something: its axis has whole numbers.
    """

    points: Sequence[PlotPoint]
    x_title: str
    y_title: str
    steps: Sequence[tuple[Amount, Amount]] = ()
    walls: Sequence[Wall] = ()
    ceiling: Amount | None = None
    paths: Sequence[Path] = ()
    names: Sequence[tuple[str, str, Style]] = ()
    note: str = ""
    ascii_only: bool = False
    counts: bool = False

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.points:
            return
        plot = _Plot(self, options.max_width, ASCII if self.ascii_only or options.ascii_only else UNICODE)
        for segments in plot.lines():
            yield from line(Segment.adjust_line_length(segments, options.max_width, pad=False))

    def is_above(self, y: Amount) -> bool:
        """Return whether a value is off the scale."""
        return self.ceiling is not None and y > self.ceiling


class _Plot:
    """A scatter laid out for a width: the grid of characters, and the axes around it."""

    def __init__(self, scatter: Scatter, width: int, glyphs: Glyphs) -> None:
        self.scatter, self.width, self.glyphs = scatter, width, glyphs
        heights = [Fraction(point.y) for point in scatter.points if not scatter.is_above(point.y)]
        self.above = len(heights) < len(scatter.points)
        self.y = Ruler.over(heights or [Fraction(0)], min(max(width // 4, FEWEST_ROWS), MOST_ROWS))
        self.rows = self.y.cells + self.above
        self.labels = {self.rows - 1 - cell: label for cell, label in self.y.ticks(spacing=3)}
        if self.above:
            self.labels[0] = glyphs.above
        widest = max(map(len, self.labels.values()), default=0)
        self.gutter = widest + 1 if widest + 1 <= width // 2 else 0
        across = [Fraction(point.x) for point in scatter.points]
        low, high = min(across), max(across)  # which must keep half of the width, whatever walls stand in it
        near = [Fraction(wall.x) for wall in scatter.walls if 2 * low - high <= wall.x <= 2 * high - low]
        self.x = Ruler.over([*across, *near], max((width - self.gutter - 1) // 2, 2))
        self.grid: list[Line] = [[Segment(" ")] * (2 * self.x.cells) for _ in range(self.rows)]
        self.shared: dict[tuple[int, int], list[PlotPoint]] = {}
        for point in scatter.points:
            self.shared.setdefault((self._row(point.y), self.x.cell(point.x)), []).append(point)

    def lines(self) -> Iterator[Line]:
        """Yield the title of the upright axis, the grid, the other axis and its title, the legend."""
        for wall in self.scatter.walls:
            for row in range(self.rows) if self.x.low <= wall.x <= self.x.high else ():
                self._put(row, 2 * self.x.cell(wall.x), self.glyphs.wall, OVER)
        self._draw_steps()
        self._draw_paths()
        for (row, cell), points in self.shared.items():
            self._put(row, 2 * cell, points[0].mark, points[0].style)
            if len(points) > 1:
                self._put(row, 2 * cell + 1, "+", points[0].style)
        yield [Segment(self.scatter.y_title, DIM)]
        for row, cells in enumerate(self.grid):
            label = self.labels.get(row, "")
            axis = self.glyphs.tick if label and label != self.glyphs.above else self.glyphs.axis
            yield [Segment((label + " ").rjust(self.gutter)[: self.gutter] + axis, DIM), *cells]
        yield from self._floor()
        yield [Segment(self.scatter.x_title.rjust(self.gutter + 1 + 2 * self.x.cells), DIM)]
        yield from wrap(self._legend(), self.width)

    def _row(self, y: Amount) -> int:
        return 0 if self.scatter.is_above(y) else self.rows - 1 - self.y.cell(y)

    def _put(self, row: int, column: int, text: str, style: Style) -> None:
        self.grid[row][column] = Segment(text, style)

    def _draw_steps(self) -> None:
        corners = [(self._row(y), 2 * self.x.cell(x), self.scatter.is_above(y)) for x, y in self.scatter.steps]
        for (row, column, above), (lower, until, _) in pairwise(corners):
            if not above:
                self._draw_flat(row, column, until)
            for passed in range(row, lower):
                self._put(passed, until, self.glyphs.drop if above or passed > row else self.glyphs.corner, PLAIN)
        if corners and not corners[-1][2]:
            self._draw_flat(*corners[-1][:2], 2 * self.x.cells - 1)

    def _draw_flat(self, row: int, column: int, until: int) -> None:
        for passed in range(column, until + 1):
            self._put(row, passed, self.glyphs.flat, PLAIN)

    def _draw_paths(self) -> None:
        for path in self.scatter.paths:
            cells = [(self._row(y), 2 * self.x.cell(x)) for x, y in path.points]
            for (row, column), (lower, until) in pairwise(cells):
                dots = max(abs(until - column), abs(lower - row))
                for step in range(1, dots):
                    place = (row * dots + (lower - row) * step, column * dots + (until - column) * step)
                    passed, across = (round(Fraction(part, dots)) for part in place)
                    if self.grid[passed][across].text == " ":
                        self._put(passed, across, self.glyphs.dot, path.style)

    def _floor(self) -> Iterator[Line]:
        """Yield the axis below the grid, and round values under their cells."""
        columns = 2 * self.x.cells
        widest = max(len(number(plain(end))) for end in (self.x.low, self.x.high))
        ticks = self.x.ticks(spacing=widest // 2 + 3, whole=self.scatter.counts)
        labels, marked = labels_along([(2 * cell, label) for cell, label in ticks], columns)
        marks = [self.glyphs.floor_tick if column in marked else self.glyphs.floor for column in range(columns)]
        yield [Segment(" " * self.gutter + self.glyphs.origin + "".join(marks), DIM)]
        yield [Segment(" " * (self.gutter + 1) + labels, DIM)]

    def _legend(self) -> Iterator[Item]:
        for mark, name, style in self.scatter.names:
            yield [Segment(mark, style), Segment(f" {shortened(name, self.width - 2)}")]
        if self.scatter.note:
            yield [Segment(f"({self.scatter.note})", DIM)]
        if self.scatter.steps:
            yield [Segment(f"{self.glyphs.flat} frontier")]
        for wall in self.scatter.walls:
            side = "left" if wall.x < self.x.low else "right" if wall.x > self.x.high else ""
            where = f" ({side} of the plot)" * bool(side)
            yield [Segment(self.glyphs.wall, OVER), Segment(f" {wall.label}{where}")]
        yield from self._shared_marks()
        for point in self.scatter.points:
            if self.scatter.is_above(point.y):
                yield [Segment(f"{self.glyphs.above} {point.mark} off the scale: {number(plain(Fraction(point.y)))}")]

    def _shared_marks(self) -> Iterator[Item]:
        """Yield what `a+` stands for, each set of marks once: lines may share a mark with others at other places."""
        sets: dict[str, dict[tuple[str, ...], None]] = {}  # by the mark that is drawn
        for points in self.shared.values():
            if len(points) > 1:
                sets.setdefault(points[0].mark, {})[tuple(point.mark for point in points)] = None
        for drawn, alternatives in sets.items():
            for place, marks in enumerate(alternatives):
                head = "or" if place else f"{drawn}+ ="
                most = max((self.width - len(head)) // 2, 1)  # that fit on a line
                for first in range(0, len(marks), most):
                    yield [Segment(" ".join([head, *marks[first : first + most]]))]


def labels_along(ticks: Sequence[tuple[int, str]], width: int) -> tuple[str, list[int]]:
    """Return the labels of ticks (column, label) along an axis where there is room, and the columns that have one."""
    text, labelled = "", []
    for column, label in ticks:
        start = min(column, width - len(label))
        if start >= len(text) + bool(text):
            text = text.ljust(start) + label
            labelled.append(column)
    return text, labelled


BOLD = Style(bold=True)
PROVED, OPEN = "*", "o"
MEANING = "peak memory: {} of the device that holds most; dominated: another is no worse in both, better in one"


def pareto(
    pareto_points: Sequence[ParetoPoint], comparison: Comparison, *, ascii_only: bool = False, narrow: bool = False
) -> Group:
    """Return the plot, a row for each schedule, and why others do not apply; a `narrow` table leaves the bubble out."""
    refused = refusals(comparison)
    if not pareto_points:
        return Group(*refused)
    table = _table(pareto_points, units_of(comparison), narrow=narrow)
    meaning = Text(MEANING.format(held_text(pareto_points[0].outcome.problem)), style="dim")
    return Group(plot(pareto_points, ascii_only=ascii_only), "", table, meaning, *refused)


def plot(pareto_points: Sequence[ParetoPoint], *, ascii_only: bool = False) -> Scatter:
    """Return a plot of the schedules; in a cell that several share, one that none dominates is drawn.

    The line joins those of them that fit the budget. More than twice the least makespan is off the scale.
    """
    problem = pareto_points[0].outcome.schedule.problem
    marked = sorted(
        zip(pareto_points, marks(pareto_points), strict=True), key=lambda pair: pair[0].dominated_by is not None
    )
    looks = [OVER if not point.fits else BOLD if point.dominated_by is None else DIM for point, _ in marked]
    undominated = [point for point in pareto_points if point.fits and point.dominated_by is None]
    limits, unit = problem.memory.budget, problem.memory.unit
    ends: list[tuple[str, Exact]] = []  # of the budget; where it differs by device, the least and the most of it
    if limits is not None:
        ends = [("", limits[0])] if len(set(limits)) == 1 else [("least ", min(limits)), ("most ", max(limits))]
    return Scatter(
        [PlotPoint(p.memory, p.makespan, mark, look) for (p, mark), look in zip(marked, looks, strict=True)],
        x_title=with_unit("peak memory of the largest device", problem.memory.unit),
        y_title=with_unit("makespan", problem.time_unit),
        steps=sorted({(point.memory, point.makespan) for point in undominated}),
        walls=[Wall(to_fraction(at), f"{which}budget {number(plain(at))} {unit}".rstrip()) for which, at in ends],
        ceiling=2 * min(point.makespan for point in pareto_points),
        ascii_only=ascii_only,
    )


def marks(pareto_points: Sequence[ParetoPoint]) -> list[str]:
    """Return a mark for each schedule: a letter, a capital if none dominates it; after z digits, and then #."""
    letters = [*ascii_lowercase, *digits]
    letters += ["#"] * (len(pareto_points) - len(letters))
    return [
        letter.upper() if point.dominated_by is None else letter
        for point, letter in zip(pareto_points, letters, strict=False)
    ]


def _table(pareto_points: Sequence[ParetoPoint], units: Mapping[str, str], *, narrow: bool) -> Table:
    titles = (MAKESPAN, PEAK) if narrow else (MAKESPAN, "vs\nbest", "\nbubble", PEAK)
    name, *columns = heads(("\nalgorithm", *titles), units)
    table = grid(uncut(), folded(name.header, min_width=11), *columns, folded())
    letters, best = marks(pareto_points), pareto_points[0]
    for point, mark in zip(pareto_points, letters, strict=True):
        apart = float(point.makespan / best.makespan - 1) if best.makespan else 0.0
        behind = "best" if point.fits and point.makespan == best.makespan else f"{apart:+.1%}"
        peak, bubble = number(plain(point.memory)), f"{point.outcome.schedule.bubble:.1%}"
        memory = Text(peak) if point.fits else Text(f"{peak} over", style=BAD)
        style = DIM if point.dominated_by is not None else BOLD
        middle: list[str | Text] = [number(plain(point.makespan)), *([] if narrow else [behind, bubble]), memory]
        said = "frontier" if point.fits else "over budget"
        if point.dominated_by is not None:
            said = f"dominated by {letters[point.dominated_by]}"
        table.add_row(mark, point.label, *middle, said, style=style)
    return table


def frontier_view(frontier: Frontier, *, ascii_only: bool = False) -> Group:
    """Return the plot, then the table. Budgets and times are in the user's units."""
    corners = [(to_fraction(point.budget), to_fraction(point.value)) for point in frontier]
    drawn = [
        PlotPoint(x, y, PROVED if point.status == Status.OPTIMAL else OPEN)
        for point, (x, y) in zip(frontier, corners, strict=True)
    ]
    across = with_unit("memory budget of a device", frontier.memory_unit)
    titles = across, with_unit(frontier.objective, frontier.time_unit)
    legend = Text(f"{PROVED} proved {frontier.proved}  {OPEN} best found")
    about = Text(f"each bound: for {frontier.covers}", style="dim")
    return Group(
        Scatter(drawn, *titles, steps=corners, ascii_only=ascii_only), "", frontier_table(frontier), legend, about
    )


def frontier_table(frontier: Frontier) -> Table:
    """Return a row for each point: budget, objective, bound, gap, placement."""
    time, memory = frontier.time_unit, frontier.memory_unit
    heads = with_unit("memory budget", memory), with_unit(frontier.objective, time), with_unit("bound", time), "gap"
    table = grid(*map(right, heads), folded("placement"))
    for point in frontier:
        gap = Text(frontier.proved, style=GOOD) if point.status == Status.OPTIMAL else Text(f"{point.gap:.2%}")
        table.add_row(*map(number, (point.budget, point.value, point.bound)), gap, point.placement)
    return table

"""Plots in characters, and the tables below them: makespan against memory, and histograms of makespans.

A `Scatter` draws points over two axes; `frontier_view` and `robustness_view` are results with their plots and tables.
A cell of a scatter plot is two columns wide: the mark of a point, and a + when more points share the cell (the legend
names them all). So two marks never touch, and every fact is readable without colour.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from pipesched.pipeline.problem.quantities import plain, to_fraction
from pipesched.render.gantt import NEWLINE, Line, Widely, wrap
from pipesched.render.grid import FittedTable, folded, grid, right, shortened
from pipesched.render.palette import DIM, OVER, ink
from pipesched.render.scene import number, round_number, with_unit
from pipesched.render.summary import GOOD
from pipesched.results.comparison import Frontier, refused
from pipesched.results.outcome import Status
from pipesched.schedulers.registry import called

if TYPE_CHECKING:
    from pipesched.analysis.robustness import Robustness, RobustnessRow

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


Path = tuple[Sequence[tuple[Amount, Amount]], Style]  # a line from point to point (x, y), and how it looks


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
        return round((Fraction(value) - self.low) * (self.cells - 1) / (self.high - self.low))

    def ticks(self, spacing: int, *, whole: bool = False) -> list[tuple[int, str]]:
        """Return (cell, label) of round values, at least `spacing` cells apart; only of `whole` ones if asked."""
        step = round_number((self.high - self.low) * spacing / (self.cells - 1))
        step = max(step, Fraction(1)) if whole else step
        values = [multiple * step for multiple in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [(self.cell(value), number(plain(value))) for value in values]


Glyphs = namedtuple("Glyphs", "axis tick origin floor floor_tick flat drop corner wall above dot")  # besides marks
UNICODE, ASCII = Glyphs(*"│┤└─┬─│┐┊↑·"), Glyphs(*"|++-+-|.:^.")


@dataclass(frozen=True)
class Scatter(Widely):
    """Points over two titled axes.

    `steps` are corners (x, y) of a falling frontier, x rising: a line runs right from each and drops to the next, and
    from the last one to the edge. What is above the `ceiling` stands in a row of its own on top, so that it does not
    flatten the rest. Of several points in a cell the first is drawn. `paths` join points by dots where nothing else
    stands; `names` says in the legend what marks stand for, `note` what is missing. `counts` says that x counts
    something: its axis has whole numbers.
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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.points:
            return
        plot = _Plot(self, options.max_width, ASCII if self.ascii_only or options.ascii_only else UNICODE)
        for segments in plot.lines():
            yield from (*Segment.adjust_line_length(segments, options.max_width, pad=False), NEWLINE)

    def is_above(self, y: Amount) -> bool:
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
            for cells in self.grid if self.x.low <= wall.x <= self.x.high else ():
                cells[2 * self.x.cell(wall.x)] = Segment(self.glyphs.wall, OVER)
        corners = [(self._row(y), 2 * self.x.cell(x), self.scatter.is_above(y)) for x, y in self.scatter.steps]
        for place, (row, column, above) in enumerate(corners):
            lower, until, _ = (*corners, (row, 2 * self.x.cells - 1, False))[place + 1]
            if not above:
                self.grid[row][column : until + 1] = [Segment(self.glyphs.flat, PLAIN)] * (until + 1 - column)
            for passed in range(row, lower):
                glyph = self.glyphs.drop if above or passed > row else self.glyphs.corner
                self.grid[passed][until] = Segment(glyph, PLAIN)
        self._draw_paths()
        for (row, cell), (first, *others) in self.shared.items():
            marks = [first.mark, "+"] if others else [first.mark]
            self.grid[row][2 * cell : 2 * cell + len(marks)] = [Segment(mark, first.style) for mark in marks]
        yield [Segment(self.scatter.y_title, DIM)]
        for row, cells in enumerate(self.grid):
            label = self.labels.get(row, "")
            axis = self.glyphs.tick if label and label != self.glyphs.above else self.glyphs.axis
            yield [Segment((label + " ").rjust(self.gutter)[: self.gutter] + axis, DIM), *cells]
        columns = 2 * self.x.cells
        widest = max(len(number(plain(end))) for end in (self.x.low, self.x.high))
        ticks = self.x.ticks(spacing=widest // 2 + 3, whole=self.scatter.counts)
        labels, marked = labels_along([(2 * cell, label) for cell, label in ticks], columns)
        marks = [self.glyphs.floor_tick if column in marked else self.glyphs.floor for column in range(columns)]
        yield [Segment(" " * self.gutter + self.glyphs.origin + "".join(marks), DIM)]
        yield [Segment(" " * (self.gutter + 1) + labels, DIM)]
        yield [Segment(self.scatter.x_title.rjust(self.gutter + 1 + 2 * self.x.cells), DIM)]
        yield from Segment.split_lines(wrap(self._legend(), self.width))

    def _row(self, y: Amount) -> int:
        return 0 if self.scatter.is_above(y) else self.rows - 1 - self.y.cell(y)

    def _draw_paths(self) -> None:
        for corners, style in self.scatter.paths:
            cells = [(self._row(y), 2 * self.x.cell(x)) for x, y in corners]
            for (row, column), (lower, until) in pairwise(cells):
                dots = max(abs(until - column), abs(lower - row))
                for step in range(1, dots):
                    place = (row * dots + (lower - row) * step, column * dots + (until - column) * step)
                    passed, across = (round(Fraction(part, dots)) for part in place)
                    if self.grid[passed][across].text == " ":
                        self.grid[passed][across] = Segment(self.glyphs.dot, style)

    def _legend(self) -> Iterator[Line]:
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

    def _shared_marks(self) -> Iterator[Line]:
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


def frontier_view(frontier: Frontier, *, ascii_only: bool = False) -> Group:
    """Return the plot, if there are points, then the table. Budgets and times are in the user's units."""
    if not frontier.points:
        return Group(frontier_table(frontier))
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


SHARE, SLOW, QUIET = "best\nshare", "worst\nstraggler", "no\nnoise"
COLUMN_PRIORITY = ("\nmean", "\np95", SLOW, SHARE, QUIET, "\nstd", "\np99", "\np50")
DIGITS, DIGITS_OF_STD = 4, 2  # of the longest time in the table at least, and of the least standard deviation
TALL, LOW = 3, 1  # lines of bars, of few histograms and of many
FEW = 4


def robustness_view(robustness: Robustness, *, ascii_only: bool = False) -> Group:
    """Return the histograms, if there are samples, and the table."""
    table = robustness_table(robustness)
    if not any(row.makespans for row in robustness):
        return table
    title = with_unit("makespan", robustness.time_unit)
    return Group(Histograms(robustness.rows, title, ascii_only=ascii_only), "", table)


def robustness_table(robustness: Robustness) -> Group:
    """Return a row for each schedule that applies, the largest share of shortest samples marked."""
    rows, parts = [row for row in robustness if row.applicable], list[RenderableType]()
    if rows:
        wanted = ((max(row.p99 for row in rows), DIGITS), (min(row.std for row in rows), DIGITS_OF_STD))
        decimals = min(max([0, *(digits - 1 - floor(log10(value)) for value, digits in wanted if value > 0)]), 9)
        most = max((row.best_share for row in rows if row.best_share is not None), default=None)
        styles = [GOOD if len(rows) > 1 and row.fits and row.best_share == most else "" for row in rows]
        names = [Text(called(row.algorithm), style=style) for row, style in zip(rows, styles, strict=True)]
        devices = f" and {robustness.device_noise:.4g} a device" if robustness.device_noise else ""
        said = (
            f"noise {robustness.noise:.4g} an operation{devices}, {robustness.samples:,} samples,"
            f" seed {robustness.seed}; best share: of samples in which it is shortest;"
            f" worst straggler: the device that costs most when it takes {number(robustness.straggler)} times as long,"
            " the makespan then, and what that is more"
        )
        table = FittedTable(names, [_cells_of_row(row, decimals) for row in rows], COLUMN_PRIORITY)
        parts += [table, Text(said, style="dim")]
    for row in robustness:
        if row.over:
            listed = ((one["device"], number(one["memory"]), number(one["budget"])) for one in row.over)
            held = ", ".join(f"device {device} holds {most} of {budget}" for device, most, budget in listed)
            parts.append(Text(f"{called(row.algorithm)} is over budget: {held}"))
        if not row.applicable:
            parts.append(Text(refused(row)))
    return Group(*parts)


def _cells_of_row(row: RobustnessRow, decimals: int) -> dict[str, str]:

    def time(value: float) -> str:
        return f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"

    worst = row.worst_device
    return {
        QUIET: number(row.makespan),
        **{f"\n{key}": time(getattr(row, key)) for key in ("mean", "std", "p50", "p95", "p99")},
        SHARE: "over budget" if row.best_share is None else f"{row.best_share:.1%}",
        SLOW: "" if worst is None else f"d{worst} {number(row.worst_makespan)} {row.price:+.1%}",
    }


BARS = (" ▁▂▃▄▅▆▇█", "─", "┬", "▲")  # parts of a bar up to a full cell; the axis, its ticks, and a mark on it
ASCII_BARS = (" .:#", "-", "+", "^")


class Histograms(Widely):
    """A histogram for each row that has samples: how many makespans fall into a column, over an axis that all share.

    The tallest column of each is as high as there is room, so heights compare within a histogram, places between them.
    """

    def __init__(self, rows: Sequence[RobustnessRow], title: str, *, ascii_only: bool = False) -> None:
        self.rows, self.title, self.ascii_only = [row for row in rows if row.makespans], title, ascii_only

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            return
        glyphs = ASCII_BARS if self.ascii_only or options.ascii_only else BARS
        for segments in self._lines(options.max_width, *glyphs):
            yield from (*Segment.adjust_line_length(segments, options.max_width, pad=False), NEWLINE)

    def _lines(self, width: int, parts: str, floor_glyph: str, tick_glyph: str, mark_glyph: str) -> Iterator[Line]:
        import numpy as np

        ends = [end(row.makespan, *row.makespans) for row in self.rows for end in (min, max)]
        ruler = Ruler.over([*map(Fraction, ends)], max(width, 2))
        widest = max(len(label) for _, label in ruler.ticks(width // 4 + 1)) if width > 8 else 1
        ticks = ruler.ticks(widest + 3)
        height = TALL if len(self.rows) <= FEW else LOW
        full = len(parts) - 1
        for place, row in enumerate(self.rows):
            yield [Segment(shortened(called(row.algorithm), width), BOLD)]
            low, length = float(ruler.low), float(ruler.high - ruler.low)
            columns = np.rint((np.asarray(row.makespans) - low) * ((ruler.cells - 1) / length)).astype(int)
            counts = np.bincount(np.clip(columns, 0, ruler.cells - 1), minlength=ruler.cells)
            levels = -(-counts * height * full // counts.max())  # a column with a sample has a part of a bar at least
            for below in reversed(range(height)):
                bars = "".join(parts[level] for level in np.clip(levels - below * full, 0, full))
                yield [Segment(bars.rstrip(), ink(place))]
            floor = [floor_glyph] * width
            for column, _ in ticks:
                floor[column] = tick_glyph
            floor[ruler.cell(row.makespan)] = mark_glyph
            yield [Segment("".join(floor), DIM)]
        yield [Segment(labels_along(ticks, width)[0], DIM)]
        yield [Segment(self.title.rjust(width), DIM)]
        yield from Segment.split_lines(wrap([[Segment(f"{mark_glyph} without noise")]], width))

"""A robustness as a table, and above it as histograms of makespans in characters, one below the other over one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor, log10

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from pipesched.analysis.robustness import Robustness, RobustnessRow
from pipesched.render.cells import Line
from pipesched.render.grid import FittedTable, shortened
from pipesched.render.legend import wrap
from pipesched.render.palette import DIM, ink
from pipesched.render.scatter import Ruler, labels_along
from pipesched.render.summary import GOOD
from pipesched.render.timescale import number
from pipesched.render.view import line
from pipesched.results.comparison import refused
from pipesched.schedulers.registry import called

SHARE, SLOW, MAKESPAN = "best\nshare", "worst\nstraggler", "no\nnoise"
KEPT_LONGEST = ("\nmean", "\np95", SLOW, SHARE, MAKESPAN, "\nstd", "\np99", "\np50")
DIGITS, DIGITS_OF_STD = 4, 2  # of the longest time in the table at least, and of the least standard deviation
TALL, LOW = 3, 1  # lines of bars, of few histograms and of many
FEW = 4
BOLD = Style(bold=True)


def robustness_view(robustness: Robustness, *, ascii_only: bool = False) -> Group:
    """Return the histograms, if there are samples, and the table."""
    table = RobustnessTable(robustness)
    if not any(row.makespans for row in robustness):
        return Group(table)
    unit = f" ({robustness.time_unit})" if robustness.time_unit else ""
    return Group(Histograms(robustness.rows, f"makespan{unit}", ascii_only=ascii_only), "", table)


class RobustnessTable:
    """A row for each schedule that applies, the largest share of shortest samples marked."""

    def __init__(self, robustness: Robustness) -> None:
        self.robustness = robustness
        self.rows = [row for row in robustness if row.applicable]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.rows:
            yield from self._table()
        for row in self.robustness:
            if row.over:
                listed = ((one["device"], number(one["memory"]), number(one["budget"])) for one in row.over)
                held = ", ".join(f"device {device} holds {most} of {budget}" for device, most, budget in listed)
                yield Text(f"{called(row.algorithm)} is over budget: {held}")
            if not row.applicable:
                yield Text(refused(row))

    def _table(self) -> RenderResult:
        longest, least_std = max(row.p99 for row in self.rows), min(row.std for row in self.rows)
        wanted = ((longest, DIGITS), (least_std, DIGITS_OF_STD))
        decimals = min(max([0, *(digits - 1 - floor(log10(value)) for value, digits in wanted if value > 0)]), 9)
        most = max((row.best_share for row in self.rows if row.best_share is not None), default=None)
        styles = [GOOD if len(self.rows) > 1 and row.fits and row.best_share == most else "" for row in self.rows]
        names = [Text(called(row.algorithm), style=style) for row, style in zip(self.rows, styles, strict=True)]
        yield FittedTable(names, [_cells(row, decimals) for row in self.rows], KEPT_LONGEST)
        found = self.robustness
        devices = f" and {found.device_noise:.4g} a device" if found.device_noise else ""
        yield Text(
            f"noise {found.noise:.4g} an operation{devices}, {found.samples:,} samples, seed {found.seed};"
            f" best share: of samples in which it is shortest; worst straggler: the device that costs most when it"
            f" takes {number(found.straggler)} times as long, the makespan then, and what that is more",
            style="dim",
        )


def _cells(row: RobustnessRow, decimals: int) -> dict[str, str]:

    def time(value: float) -> str:
        return f"{value:,.{decimals}f}" if abs(value) >= 10_000 else f"{value:.{decimals}f}"

    worst = row.worst_device
    return {
        MAKESPAN: number(row.makespan),
        "\nmean": time(row.mean),
        "\nstd": time(row.std),
        "\np50": time(row.p50),
        "\np95": time(row.p95),
        "\np99": time(row.p99),
        SHARE: "over budget" if row.best_share is None else f"{row.best_share:.1%}",
        SLOW: "" if worst is None else f"d{worst} {number(row.worst_makespan)} {row.price:+.1%}",
    }


HistogramGlyphs = tuple[str, str, str, str]  # parts of a bar up to a full cell; the axis, its ticks, and a mark on it
UNICODE = (" ▁▂▃▄▅▆▇█", "─", "┬", "▲")
ASCII = (" .:#", "-", "+", "^")


class Histograms:
    """A histogram for each row that has samples: how many makespans fall into a column, over an axis that all share.

    The tallest column of each is as high as there is room, so heights compare within a histogram, places between them.
    """

    def __init__(self, rows: Sequence[RobustnessRow], title: str, *, ascii_only: bool = False) -> None:
        self.rows, self.title, self.ascii_only = [row for row in rows if row.makespans], title, ascii_only

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            return
        glyphs = ASCII if self.ascii_only or options.ascii_only else UNICODE
        for segments in self._lines(options.max_width, glyphs):
            yield from line(Segment.adjust_line_length(segments, options.max_width, pad=False))

    def _lines(self, width: int, glyphs: HistogramGlyphs) -> Iterator[Line]:
        ends = [end(row.makespan, *row.makespans) for row in self.rows for end in (min, max)]
        ruler = Ruler.over([*map(Fraction, ends)], max(width, 2))
        widest = max(len(label) for _, label in ruler.ticks(width // 4 + 1)) if width > 8 else 1
        ticks = ruler.ticks(widest + 3)
        height = TALL if len(self.rows) <= FEW else LOW
        parts, floor_glyph, tick_glyph, mark_glyph = glyphs
        for place, row in enumerate(self.rows):
            yield [Segment(shortened(called(row.algorithm), width), BOLD)]
            for bars in _bars(_counts(row.makespans, ruler), height, parts):
                yield [Segment(bars.rstrip(), ink(place))]
            floor = [floor_glyph] * width
            for column, _ in ticks:
                floor[column] = tick_glyph
            floor[ruler.cell(row.makespan)] = mark_glyph
            yield [Segment("".join(floor), DIM)]
        yield [Segment(labels_along(ticks, width)[0], DIM)]
        yield [Segment(self.title.rjust(width), DIM)]
        yield from wrap(iter([[Segment(f"{mark_glyph} without noise")]]), width)


def _counts(makespans: Sequence[float], ruler: Ruler) -> Sequence[int]:
    """Return how many makespans are nearest to each column."""
    import numpy as np

    low, length = float(ruler.low), float(ruler.high - ruler.low)
    columns = np.rint((np.asarray(makespans) - low) * ((ruler.cells - 1) / length)).astype(int)
    counts: list[int] = np.bincount(np.clip(columns, 0, ruler.cells - 1), minlength=ruler.cells).tolist()
    return counts


def _bars(counts: Sequence[int], height: int, parts: str) -> Iterator[str]:
    """Yield the lines of bars from the top; a column with a sample has at least the least part of a bar."""
    full = len(parts) - 1
    levels = [-(-count * height * full // max(counts)) for count in counts]
    for below in reversed(range(height)):
        yield "".join(parts[min(max(level - below * full, 0), full)] for level in levels)

"""Histograms of makespans in characters, one below the other over one axis, as a Rich renderable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

from pipesched.analysis.robust.result import RobustnessRow
from pipesched.render.cells import Line
from pipesched.render.legend import wrap
from pipesched.render.palette import DIM, ink
from pipesched.render.scatter import Ruler

TALL, LOW = 3, 1  # lines of bars, of few histograms and of many
FEW = 4
BOLD = Style(bold=True)


class HistogramGlyphs(NamedTuple):
    """The characters of a histogram: parts of a bar from nothing to a full cell, and those of the axis."""

    bars: str
    floor: str
    tick: str
    mark: str


UNICODE = HistogramGlyphs(" ▁▂▃▄▅▆▇█", "─", "┬", "▲")
ASCII = HistogramGlyphs(" .:#", "-", "+", "^")


class Histograms:
    """A histogram for each row that has samples: how many makespans fall into a column, over an axis that all share.

    The tallest column of each is as high as there is room, so heights compare within a histogram, places between them.
    """

    def __init__(self, rows: Sequence[RobustnessRow], title: str, *, ascii_only: bool = False) -> None:
        self.rows, self.title, self.ascii_only = [row for row in rows if row.makespans], title, ascii_only

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return all width there is as the most."""
        return Measurement(min(20, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield lines of segments, none wider than the options allow."""
        if not self.rows:
            return
        glyphs = ASCII if self.ascii_only or options.ascii_only else UNICODE
        for line in self._lines(options.max_width, glyphs):
            yield from Segment.adjust_line_length(line, options.max_width, pad=False)
            yield Segment.line()

    def _lines(self, width: int, glyphs: HistogramGlyphs) -> Iterator[Line]:
        ends = [end(row.makespan, *row.makespans) for row in self.rows for end in (min, max)]
        ruler = Ruler.over([*map(Fraction, ends)], max(width, 2))
        widest = max(len(label) for _, label in ruler.ticks(width // 4 + 1)) if width > 8 else 1
        ticks = ruler.ticks(widest + 3)
        height = TALL if len(self.rows) <= FEW else LOW
        for place, row in enumerate(self.rows):
            yield [Segment(row.algorithm, BOLD)]
            for bars in _bars(_counts(row.makespans, ruler), height, glyphs.bars):
                yield [Segment(bars.rstrip(), ink(place, "F"))]
            floor = [glyphs.floor] * width
            for column, _ in ticks:
                floor[column] = glyphs.tick
            floor[ruler.cell(row.makespan)] = glyphs.mark
            yield [Segment("".join(floor), DIM)]
        yield [Segment(_labels(ticks, width), DIM)]
        yield [Segment(self.title.rjust(width), DIM)]
        yield from wrap(iter([[Segment(f"{glyphs.mark} without noise")]]), width)


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
    for line in reversed(range(height)):
        yield "".join(parts[min(max(level - line * full, 0), full)] for level in levels)


def _labels(ticks: Sequence[tuple[int, str]], width: int) -> str:
    """Return round values, each at its column where there is room."""
    text = ""
    for column, label in ticks:
        start = min(column, width - len(label))
        if start >= len(text) + bool(text):
            text = text.ljust(start) + label
    return text

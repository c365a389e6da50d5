"""The frame of every chart: names at the left, an axis above, idle shares and peaks at the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from rich.console import Console
from rich.segment import Segment

from pipesched.pipeline.quantities import in_units
from pipesched.render.palette import DIM, break_mark
from pipesched.render.timescale import TimeScale, Window, axis_ticks, in_all, number, round_step

WIDE = 70  # columns from which names are written out and the idle share stands at the end


class LineFrame(NamedTuple):
    """The parts of a line: the gutter with the names, the columns of time, the tail with idle shares and peaks.

    Where time is left out there are several scales, with a column for the break between two.
    """

    gutter: int
    scales: Sequence[TimeScale]
    tail: int
    colour: bool
    ascii_only: bool
    few_colours: bool = False  # 16 of them

    @property
    def scale(self) -> TimeScale:
        """The scale, if there is one, or one that is as wide as all."""
        return in_all(self.scales)


def has_colour(console: Console, ascii_only: bool) -> bool:
    """Return whether cells are filled with colour; else letters spell them out."""
    return not (ascii_only or console.no_color or console.color_system is None)


def has_few_colours(console: Console) -> bool:
    """Return whether a terminal has 16 colours, or less."""
    return console.color_system in ("standard", "windows")


def axis(layout: LineFrame, ticks_a_unit: int, marked: Window | None = None) -> Iterator[Segment]:
    """Yield the line of round times above their columns, then a line of marks.

    The times on both sides of a break are given too; `marked` is a time that a double line shows.
    """
    window = layout.scale.window
    step = round_step(layout.scale, ticks_a_unit) if window.start < window.end else Fraction(1)
    pause = break_mark(ascii_only=layout.ascii_only).text
    glyphs = "-+=" if layout.ascii_only else "─┬═"
    labels = marks = " " * layout.gutter
    for position, scale in enumerate(layout.scales):
        texts = dict(_edges(scale, ticks_a_unit, at_start=position > 0, at_end=scale is not layout.scales[-1]))
        for column, text in axis_ticks(scale, ticks_a_unit, step):
            if all(column + len(text) < other or column > other + len(texts[other]) for other in texts):
                texts[column] = text
        labels += (" " if position else "") + _written(texts, scale.columns)
        marks += (pause if position else "") + _ruled(texts, scale, glyphs, marked)
    share = "idle".rjust(layout.tail) if layout.tail >= len(" idle") else ""
    yield from line([Segment(labels + share, DIM)])
    yield from line([Segment(marks, DIM)])


def _edges(scale: TimeScale, unit: int, *, at_start: bool, at_end: bool) -> Iterator[tuple[int, str]]:
    """Yield (column, label) of the ends of a scale at which time is left out, where they fit."""
    start, end = (number(in_units(time, unit)) for time in scale.window)
    if at_start and len(start) <= scale.columns:
        yield 0, start
    if at_end and len(end) + (len(start) + 1) * at_start <= scale.columns:
        yield scale.columns - len(end), end


def _written(texts: Mapping[int, str], columns: int) -> str:
    """Return the labels at their columns, but for those that would be cut."""
    written = ""
    for column, text in sorted(texts.items()):
        if column + len(text) <= columns:
            written = written.ljust(column) + text
    return written.ljust(columns)


def _ruled(texts: Mapping[int, str], scale: TimeScale, glyphs: str, marked: Window | None) -> str:
    """Return a rule with a mark for each label that is written."""
    plain, tick, double = glyphs[0], glyphs[1], glyphs[2]
    rule = [plain] * scale.columns
    if marked is not None and scale.window.start <= marked.start < scale.window.end:
        for column in range(scale.column(marked.start), min(scale.column_before(marked.end) + 1, scale.columns)):
            rule[column] = double
    for column, text in texts.items():
        if column + len(text) <= scale.columns and column < scale.columns:
            rule[column] = tick
    return "".join(rule)


def line(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the segments and the end of their line."""
    yield from segments
    yield Segment.line()

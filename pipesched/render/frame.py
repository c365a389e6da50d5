"""The frame of every chart: names at the left, an axis above, idle shares and peaks at the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.console import Console
from rich.segment import Segment

from pipesched.render.palette import DIM
from pipesched.render.timescale import TimeScale, axis_ticks

WIDE = 70  # columns from which names are written out and the idle share stands at the end


class Layout(NamedTuple):
    """The parts of a line: the gutter with the names, the columns of time, the tail with idle shares and peaks."""

    gutter: int
    scale: TimeScale
    tail: int
    colour: bool
    ascii_only: bool


def has_colour(console: Console, ascii_only: bool) -> bool:
    """Return whether cells are filled with colour; else letters spell them out."""
    return not (ascii_only or console.no_color or console.color_system is None)


def axis(layout: Layout, ticks_a_unit: int) -> Iterator[Segment]:
    """Yield the line of round times above their columns, then a line of marks."""
    columns = layout.scale.columns
    labels, marks = "", ["-" if layout.ascii_only else "─"] * columns
    for column, text in axis_ticks(layout.scale, ticks_a_unit):
        if column + len(text) <= columns and column < columns:
            labels = labels.ljust(column) + text
            marks[column] = "+" if layout.ascii_only else "┬"
    share = "idle".rjust(layout.tail) if layout.tail >= len(" idle") else ""
    yield from line([Segment(" " * layout.gutter + labels.ljust(columns) + share, DIM)])
    yield from line([Segment(" " * layout.gutter + "".join(marks), DIM)])


def line(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the segments and the end of their line."""
    yield from segments
    yield Segment.line()

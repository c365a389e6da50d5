"""The lines below a chart: what the colours or letters mean, and the scale."""

from __future__ import annotations

from collections.abc import Iterator

from rich.segment import Segment

from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import ASCII_SHADES, KIND_FILL, SHADES, Line
from pipesched.render.palette import DIM, HUES, OVER, PAIR_STYLE, fill, ink
from pipesched.render.strip import full_scale
from pipesched.render.timescale import number

KIND_NAMES = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
Item = list[Segment]


def legend(
    schedule: Schedule,
    chunks: int,
    scale_text: str,
    *,
    shared: bool,
    hidden: int,
    memory: bool,
    colour: bool,
    ascii_only: bool,
) -> Iterator[Item]:
    """The items of the legend. `shared`: some columns hold more than one slot and show how busy they are; `hidden`: so
    many slots are too short to show."""
    kinds = schedule.plan.index.kinds
    if colour:
        yield from _colour_items(schedule, kinds, chunks)
    else:
        yield from _letter_items(schedule, kinds, chunks)
    shades = ASCII_SHADES if ascii_only else SHADES
    yield [Segment(shades[0], DIM), Segment(" idle")]
    if shared:
        yield [Segment(shades[1:], ink(0, "F") if colour else None), Segment(" share of a column that is busy")]
    if memory:
        yield from _memory_items(schedule, colour=colour, ascii_only=ascii_only)
    yield [Segment(scale_text, DIM)]
    if hidden:
        yield [Segment(f"({hidden} slots too short to show; --zoom)", DIM)]


def _colour_items(schedule: Schedule, kinds: str, chunks: int) -> Iterator[Item]:
    count = schedule.problem.microbatches
    swatches = [Segment(f"{m}", fill(m, "F")) for m in range(min(count, len(HUES)))]
    more = [Segment("..")] if count > len(HUES) else []
    yield [Segment("microbatch "), *swatches, *more]
    for kind in kinds:
        yield [Segment(f" {kind} ", fill(0, kind, 0, chunks)), Segment(f" {KIND_NAMES[kind]}")]
    if schedule.plan.pairs:
        yield [Segment("1&0", fill(1, "F") + PAIR_STYLE), Segment(" overlapped pair")]
    if chunks > 1:
        yield [Segment("chunk "), *(Segment(f" {c} ", fill(0, "F", c, chunks)) for c in range(min(chunks, 4)))]


def _letter_items(schedule: Schedule, kinds: str, chunks: int) -> Iterator[Item]:
    for kind in kinds:
        yield [Segment(f"{kind}{KIND_FILL[kind]} {KIND_NAMES[kind]}")]
    if schedule.plan.pairs:
        yield [Segment("&= overlapped pair")]
    yield [Segment("below: microbatch" + (", then chunk" if chunks > 1 else ""))]


def _memory_items(schedule: Schedule, *, colour: bool, ascii_only: bool) -> Iterator[Item]:
    memory = schedule.problem.memory
    top = number(in_units(full_scale(schedule), memory.scale))
    marks = "9" if ascii_only else "█"
    yield [Segment(f"mem: {marks} = {top} {memory.unit}".rstrip())]
    if memory.budget is not None:
        yield [Segment("█" if colour else "!", OVER), Segment(" over budget")]


def wrap(items: Iterator[Item], width: int) -> Iterator[Line]:
    """The items on as few lines as fit, two blanks apart; an item longer than a line is cut."""
    line: Line = []
    used = 0
    for item in items:
        length = sum(len(segment.text) for segment in item)
        if line and used + 2 + length > width:
            yield line
            line, used = [], 0
        if line:
            line.append(Segment("  "))
            used += 2
        line += Segment.adjust_line_length(item, min(length, width))
        used += length
    if line:
        yield line

"""The lines below a chart: what the colours or letters mean, and the scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.segment import Segment

from pipesched.pipeline.ops import KINDS
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import ASCII_SHADES, KIND_FILL, SHADES, Line, chunk_of_stage
from pipesched.render.palette import DIM, HUES, OVER, PAIR_STYLE, fill, ink
from pipesched.render.rows import Row, Run
from pipesched.render.strip import full_scale
from pipesched.render.timescale import TimeScale, describe, number

KIND_NAMES = {
    "F": "forward",
    "B": "backward",
    "I": "input gradient",
    "W": "weight gradient",
    "R": "recompute",
    "O": "offload",
    "L": "load back",
}
Item = list[Segment]


class Look:
    """What charts turned out to show: rows of whole slots, rows of shared columns, slots too short to show."""

    def __init__(self) -> None:
        self.apart = self.shared = False
        self.hidden = 0

    def add(self, row: Row, runs: Sequence[Run], scale: TimeScale) -> None:
        """Count a row that was drawn as `runs`."""
        self.shared = self.shared or runs[0].shared
        self.apart = self.apart or not runs[0].shared
        self.hidden += row.hidden(runs, scale)


class Key:
    """What there is to explain in the charts of `schedules`, drawn on one scale."""

    def __init__(
        self, schedules: Sequence[Schedule], scale: TimeScale, memory: bool, colour: bool, ascii_only: bool
    ) -> None:
        self.schedules, self.scale, self.memory = schedules, scale, memory
        self.colour, self.ascii_only = colour, ascii_only
        self.kinds = [kind for kind in KINDS if any(_occurs(kind, one) for one in schedules)]
        self.lanes_of_two = any(one.offloaded and one.problem.lanes == "pair" for one in schedules)
        self.pairs = any(one.plan.pairs for one in schedules)
        self.chunks = max(max(chunk_of_stage(one)) for one in schedules) + 1

    def items(self, look: Look) -> Iterator[Item]:
        """The items of the legend, for what the charts look like."""
        if self.colour:
            yield from self._colour_items()
        elif look.apart:
            yield from self._letter_items()
        problem = self.schedules[0].problem
        shades = ASCII_SHADES if self.ascii_only else SHADES
        yield [Segment(shades[0], DIM), Segment(" idle")]
        if look.shared:
            busy = Segment(shades[1:], ink(0, "F") if self.colour else None)
            yield [busy, Segment(" share of a column that is busy")]
        if self.memory:
            yield from self._memory_items()
        yield [Segment(describe(self.scale, problem.costs.scale, problem.time_unit), DIM)]
        if look.hidden:
            slots = "slot" if look.hidden == 1 else "slots"
            yield [Segment(f"({look.hidden} {slots} too short to show; --zoom)", DIM)]

    def _colour_items(self) -> Iterator[Item]:
        count = self.schedules[0].problem.microbatches
        swatches = [Segment(f"{m}", fill(m, "F")) for m in range(min(count, len(HUES)))]
        more = [Segment("..")] if count > len(HUES) else []
        yield [Segment("microbatch "), *swatches, *more]
        for kind in self.kinds:
            yield [Segment(f" {kind} ", fill(0, kind, 0, self.chunks)), Segment(f" {KIND_NAMES[kind]}")]
        if self.pairs:
            yield [Segment("1&0", fill(1, "F") + PAIR_STYLE), Segment(" overlapped pair")]
        if self.chunks > 1:
            shades = [Segment(f" {chunk} ", fill(0, "F", chunk, self.chunks)) for chunk in range(min(self.chunks, 4))]
            yield [Segment("chunk "), *shades]

    def _letter_items(self) -> Iterator[Item]:
        for kind in self.kinds:
            yield [Segment(f"{kind}{KIND_FILL[kind]} {KIND_NAMES[kind]}")]
        if self.pairs:
            yield [Segment("&= overlapped pair")]
        lanes = "; on lanes of two devices stage" if self.lanes_of_two else ""
        yield [Segment("below: microbatch" + (", then chunk" if self.chunks > 1 else "") + lanes)]

    def _memory_items(self) -> Iterator[Item]:
        problem = self.schedules[0].problem
        top = number(in_units(max(map(full_scale, self.schedules)), problem.memory.scale))
        yield [Segment(f"mem: {'9' if self.ascii_only else '█'} = {top} {problem.memory.unit}".rstrip())]
        if problem.memory.budget is not None:
            yield [Segment("█" if self.colour else "!", OVER), Segment(" over budget")]


def _occurs(kind: str, schedule: Schedule) -> bool:
    """Whether there is something of this kind in a schedule, as far as its plan allows it."""
    used = {"R": schedule.recomputed, "O": schedule.offloaded, "L": schedule.offloaded}
    return kind in schedule.plan.index.kinds and bool(used.get(kind, True))


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

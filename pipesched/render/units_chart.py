"""The chart of a hardware schedule: a row for each unit, cycles to the right, and the registers in use below.

With colours an operation is filled with the hue of its type (in a loop, of its iteration), lighter every other time.
Without them a unit takes a line of types, a line of names and, in a loop, a line of iterations. Where an expression
does not fit, its label is a number, which the end of the legend explains. Marked operations are underlined, or without
colours have a line of `*` below their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

from pipesched.core.arrays import ceil_div
from pipesched.hls.graph import Operation
from pipesched.hls.schedule import HardwareSchedule
from pipesched.render.cells import ASCII_IDLE, IDLE, Line
from pipesched.render.legend import SHARED, Item, Look, column_levels, explained, level_marks, wrap
from pipesched.render.marks import counted
from pipesched.render.palette import DIM, HUES, fill
from pipesched.render.rows import Row, Run
from pipesched.render.timescale import Window, describe, fit
from pipesched.render.view import WIDE, LineFrame, axis, has_colour, line

MOST_ITERATIONS = 4  # of a loop
MARK, MARKED = "*", Style(underline=True, bold=True)
MOST_IDLE = 16  # units of a class, from which those without work are left out


class UnitChart:
    """A hardware schedule as a chart; a loop is drawn until its iterations overlap as they do for ever."""

    def __init__(
        self,
        schedule: HardwareSchedule,
        *,
        ascii_only: bool = False,
        marked: Iterable[int] = (),
        explained_too: Iterable[int] = (),
    ) -> None:
        """Mark the operations `marked`, a critical path; explain the labels of those of `explained_too` in any case."""
        self.schedule, self.ascii_only = schedule, ascii_only
        self.marked, self.explained_too = set(marked), set(explained_too)
        self.period = schedule.interval or 0
        self.iterations = 1
        if self.period:
            self.iterations = min(1 + ceil_div(schedule.latency, self.period), MOST_ITERATIONS)
        self.end = (self.iterations - 1) * self.period + schedule.latency
        self.types = sorted({operation.type for operation in schedule.graph.operations})
        self.names: list[str] = []
        self.numbered: set[int] = set()  # operations without a name whose expression did not fit
        self.positions: dict[int, int] = {}  # of each operation, its position in its row

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(24, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        ascii_only = self.ascii_only or options.ascii_only
        names = (f"{unit.name} {unit.count - 1}" for unit in self.schedule.units)
        gutter = max(len("regs"), *map(len, names)) + 1
        gutter = min(gutter, options.max_width // 4) if options.max_width < WIDE else min(gutter, 20)
        tail = len(" idle")
        scale = fit(Window(0, self.end), 1, max(options.max_width - gutter - tail, 1))
        layout = LineFrame(gutter, [scale], tail, has_colour(console, ascii_only), ascii_only)
        self.set_names(layout.scale.columns // self.end)
        yield from axis(layout, 1)
        look = Look()
        for name, row, busy in self.rows():
            runs = row.runs(layout.scale)
            look.add(row, runs, layout.scale)
            head = Segment(name[: layout.gutter - 1].ljust(layout.gutter))
            share = Segment(f"{1 - busy / self.end:.0%}".rjust(layout.tail), DIM)
            for number, cells in enumerate(self.lines(runs, layout)):
                yield from line([head, *cells, share] if not number else [Segment(" " * layout.gutter), *cells])
        yield from self.registers(layout)
        for items in wrap(self.legend(look, layout), options.max_width):
            yield from line(items)
        numbered = [self.schedule.graph.operations[task] for task in sorted(self.numbered)]
        for items in wrap(explained(numbered, options.max_width, layout.ascii_only), options.max_width):
            yield from line(items)

    def set_names(self, width: int) -> None:
        """Take names that fit into so many columns, where they do; which ones did not is known after `lines`."""
        self.names = short_names(self.schedule.graph.operations, width)
        self.numbered = set(self.explained_too)

    def rows(self) -> Iterator[tuple[str, Row, int]]:
        """Yield for each unit its name, its operations in order, and the cycles for which they occupy it."""
        schedule = self.schedule
        starts, instances = schedule.unrolled(self.iterations)
        held: dict[tuple[int, int], list[int]] = {}
        for task in sorted(range(len(starts)), key=starts.__getitem__):
            held.setdefault((schedule.classes[task % len(schedule.graph)], instances[task]), []).append(task)
        for number, unit in enumerate(schedule.units):
            for instance in range(unit.count):
                order = held.get((number, instance), [])
                if not order and unit.count > MOST_IDLE:
                    continue
                self.positions |= {task: position for position, task in enumerate(order)}
                begin = [starts[task] for task in order]
                end = [start + unit.interval for start in begin]
                yield f"{unit.name} {instance}", Row(order, begin, end, self._type), len(order) * unit.interval

    def lines(self, runs: Sequence[Run], layout: LineFrame) -> list[Line]:
        """Return the lines of a unit, for its runs; `rows` says first where operations stand in their rows."""
        if layout.colour:
            return [[self._filled(run) for run in runs]]
        idle = ASCII_IDLE if layout.ascii_only else IDLE
        kinds = "".join(self._kind(run, idle) for run in runs)
        below = ["".join((MARK if self._is_marked(run) else " ") * run.width for run in runs)]
        below.append("".join(self._label(run).ljust(run.width) for run in runs))
        if self.period:
            turns = (
                "" if run.slot is None or run.shared else str(run.slot // len(self.schedule.graph)) for run in runs
            )
            below.append("".join(turn.ljust(run.width) for turn, run in zip(turns, runs, strict=True)))
        return [[Segment(kinds)], *([Segment(text.rstrip())] for text in below if text.strip())]

    def _filled(self, run: Run) -> Segment:
        if run.slot is None:
            return Segment(IDLE * run.width, DIM)
        iteration, task = divmod(run.slot, len(self.schedule.graph))
        hue = iteration if self.period else self.types.index(self._type(task))
        style = fill(hue, "F", 0 if run.shared else self.positions[run.slot] % 2, 2)
        return Segment(self._label(run).ljust(run.width), style + MARKED if self._is_marked(run) else style)

    def _is_marked(self, run: Run) -> bool:
        """Return whether a run shows a marked operation, as far as it is known of columns that several share."""
        if run.slot is None or not self.marked:
            return False
        return not self.marked.isdisjoint(task % len(self.schedule.graph) for task in (run.slot, *run.slots))

    def _type(self, slot: int) -> str:
        return self.schedule.graph.operations[slot % len(self.schedule.graph)].type

    def _kind(self, run: Run, idle: str) -> str:
        if run.slot is None:
            return idle * run.width
        kind = self._type(run.slot)
        return kind[: run.width].ljust(run.width, "-" if self.positions[run.slot] % 2 else "=")

    def _label(self, run: Run) -> str:
        """Return the operation's text where it fits, else its name, or the end of it."""
        if run.slot is None or run.shared:
            return ""
        task = run.slot % len(self.schedule.graph)
        text = self.schedule.graph.operations[task].text
        if text and len(text) < run.width:
            return text
        if text:
            self.numbered.add(task)
        return self.names[task][-run.width :]

    def registers(self, layout: LineFrame) -> Iterator[Segment]:
        """Yield the strip of registers in use at the boundary with which a cycle begins."""
        alive = self.schedule.alive
        steps = [(cycle, alive[cycle % len(alive)]) for cycle in range(self.end)]
        levels = column_levels(steps, layout.scale)
        marks = level_marks(levels, self.schedule.registers, colour=layout.colour, ascii_only=layout.ascii_only)
        peak = Segment(str(self.schedule.registers).rjust(layout.tail), DIM)
        yield from line([Segment("regs".ljust(layout.gutter), DIM), *marks, peak])

    def legend(self, look: Look, layout: LineFrame) -> Iterator[Item]:
        """Yield the items of the legend."""
        if layout.colour and self.period:
            swatches = [Segment(f" {number} ", fill(number, "F", 0, 2)) for number in range(self.iterations)]
            yield [Segment("iteration "), *swatches]
        elif layout.colour:
            for hue, kind in enumerate(self.types):
                yield [Segment(f" {kind} ", fill(hue % len(HUES), "F", 0, 2))]
        elif look.apart:
            yield [Segment("type, below: name" + (", then iteration" if self.period else ""))]
        if self.marked:
            yield [Segment(" op ", MARKED) if layout.colour else Segment(MARK), Segment(" critical path")]
        yield [Segment(ASCII_IDLE if layout.ascii_only else IDLE, DIM), Segment(" idle")]
        if look.shared:
            yield [Segment(SHARED.replace("kind", "type"))]
        when = " in the steady state" if self.period else ""
        most = counted(self.schedule.registers, "register")
        yield [Segment(f"regs: {'9' if layout.ascii_only else '█'} = {most} alive{when}")]
        length, columns = layout.scale.window.end, layout.scale.columns
        if not columns % length:
            yield [Segment(f"{columns // length} columns = 1 cycle" if columns > length else "1 column = 1 cycle", DIM)]
        else:
            yield [Segment(describe(layout.scale, 1, "cycles"), DIM)]
        if look.hidden:
            yield [Segment(f"({look.hidden} operations too short to show)", DIM)]


def short_names(operations: Sequence[Operation], width: int) -> list[str]:
    """Return the names; if not all fit with a blank behind, without the type with which they begin: 16 for MUL_16."""
    names = [operation.name for operation in operations]
    if all(len(name) < width for name in names):
        return names
    return [name.removeprefix(op.type).lstrip("_") or name for name, op in zip(names, operations, strict=True)]

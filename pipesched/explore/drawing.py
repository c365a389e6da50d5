"""The chart as lines of cells, with marks below the rows: `draw` makes a `BoardDrawing`.

A `_Pen` draws the rows of a `Viewport` until the screen is full: each by a painter, with the cells, strips and legends
of printed charts, and below it its `_Marks`: legal positions, inputs, what is selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import groupby, zip_longest
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style

from pipesched.core.reasons import NOTHING
from pipesched.explore.pipeline_board import PipelineBoard
from pipesched.explore.sheet import Board, held_back_by, place_of
from pipesched.explore.state import State
from pipesched.explore.unit_board import UnitBoard
from pipesched.pipeline.problem.kinds import Resource
from pipesched.render.gantt import (
    WIDE,
    Cells,
    ColourCells,
    LegendKey,
    LetterCells,
    Line,
    LineBelow,
    LineFrame,
    Look,
    axis,
    full_scale,
    is_by_kind,
    lines_below,
    peak_text,
    wrap,
)
from pipesched.render.hardware import UnitChart
from pipesched.render.palette import DIM, OVER
from pipesched.render.scene import NETWORK_LANE, Row, Run, TimeScale, Window, device_row, fit, quantum

NEARLY = 1.02  # of a window: what shows that much less than all shows all
CLOSEST = 4  # ticks that a window shows at least
SELECTED_NAME = Style(bold=True)
SELECTED = Style(reverse=True, bold=True)  # of the terminal's own colours: dark on light or light on dark, never idle
MARKS = {  # what stands below a row: its style in colour; of several in a column the last
    "-": Style(color="green"),
    "[": Style(color="green", bold=True),
    "]": Style(color="green", bold=True),
    "*": Style(bold=True),
    "o": Style(color="magenta", bold=True),
    "i": Style(color="cyan", bold=True),
    "I": Style(color="cyan", bold=True, reverse=True),
    "^": Style(bold=True),
    "|": Style(color="green", bold=True, reverse=True),
    "!": Style(color="red", bold=True, reverse=True),
}
AXIS = 2  # lines
LEGEND = 3  # lines with the one between
SPACED = 3  # lines of a row with its marks and its memory
LEAST_USED = 0.8  # of the width by equal columns for equal times; else time is spread over all of it


class PipelinePainter:
    """Draws the rows of a pipeline: devices, with memory and lanes below them. `bottom` stands below all rows."""

    bottom: Sequence[LineBelow] = ()

    def __init__(self, board: PipelineBoard, layout: LineFrame, critical: Set[int]) -> None:
        self.schedule, self.layout, self.problem = board.schedule, layout, board.problem
        self.per_unit, self.over = board.problem.ticks.per_unit, board.schedule.over_budget
        self.by_kind = is_by_kind([self.schedule], layout.scales) and any(self.schedule.busy_ticks)
        self.cells: Cells = LetterCells(self.schedule, "auto", layout.ascii_only)
        if layout.colour:
            self.cells = ColourCells(self.schedule, "auto", layout, by_kind=self.by_kind, underlined=critical)
        self.lines = self.cells.lines  # of a row

    def row(self, number: int) -> Row:
        return device_row(self.schedule, number)

    def below(self, number: int, *, memory: bool) -> Iterator[tuple[int, LineBelow]]:
        """Yield what stands below a row, memory and transfers, each with the row that it shows."""
        full = full_scale([self.schedule]) if memory else None
        for line in lines_below(self.schedule, number, self.cells, self.layout, full=full, is_first=not number):
            row = number
            if line.lane == NETWORK_LANE:
                row = self.problem.devices + 2 * len(self.schedule.plan.lanes) + number
            elif line.lane:
                row = self.problem.resource(number, Resource(line.lane))
            yield row, line

    def legend(self, look: Look, *, memory: bool) -> Iterator[Line]:
        if any(self.schedule.busy_ticks):
            yield from LegendKey([self.schedule], self.layout, memory=memory, by_kind=self.by_kind).items(look)


class UnitPainter:
    """Draws functional units, whose time is in cycles, without budgets; below them all the registers in use."""

    per_unit, over = 1, ()

    def __init__(self, board: UnitBoard, layout: LineFrame, critical: Set[int]) -> None:
        self.tasks, self.layout, running = board.tasks, layout, board.running
        look: Any = {"ascii_only": layout.ascii_only, "marked": critical}
        self.chart = self.measured = UnitChart(board.schedule, **look)  # of all operations, and of those placed
        self.bottom: Sequence[LineBelow] = ()
        if running is not None:
            self.measured = UnitChart(running, **look)
            first, *_ = Segment.split_lines(self.measured.registers(layout))
            self.bottom = [LineBelow("regs", [*first[1:-1]], str(running.registers))]
        self.measured.types = self.chart.types
        (start, end), columns = layout.scales[0]
        self.chart.set_names(columns // max(end - start, 1))
        self.chart.positions.update((task, place) for order in self.tasks.orders for place, task in enumerate(order))

    def row(self, number: int) -> Row:
        """Return the row of a unit, for as long as operations occupy it."""
        order, tasks = self.tasks.orders[number], self.tasks
        return Row(order, [tasks.starts[task] for task in order], [tasks.ends[task] for task in order])

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        return self.chart.lines(runs, self.layout)

    def below(self, number: int, *, memory: bool) -> Iterator[tuple[int, LineBelow]]:
        yield from ()

    def legend(self, look: Look, *, memory: bool) -> Iterator[Line]:
        return self.measured.legend(look, self.layout)


def painter_of(board: Board, layout: LineFrame, critical: Set[int] = frozenset()) -> PipelinePainter | UnitPainter:
    """Return what draws a board; operations on the `critical` path are underlined."""
    return (UnitPainter if isinstance(board, UnitBoard) else PipelinePainter)(board, layout, critical)  # type: ignore[arg-type]


def names_of(board: Board, *, long: bool) -> list[str]:
    """Return the names of all rows."""
    if isinstance(board, UnitBoard):
        return [board.row_name(row) for row in range(board.tasks.devices)]
    return [board.problem.device_name(row, "device " if long else "d") for row in range(board.problem.devices)]


class Viewport:
    """A window of time of a schedule that ends at `whole`, in ticks; `top` is the first row that is seen."""

    def __init__(self, whole: int) -> None:
        self.whole = max(whole, 1)
        self.window = Window(0, self.whole)
        self.top = 0

    @property
    def is_all(self) -> bool:
        return self.window == (0, self.whole)

    def resize(self, whole: int) -> None:
        """Take a schedule of another length: a window that showed all still does."""
        was_all, self.whole = self.is_all, max(whole, 1)
        if was_all:
            self.show_all()
        else:
            self._put(self.window.start, self.window.end - self.window.start)

    def show_all(self) -> None:
        self.window = Window(0, self.whole)

    def zoom(self, factor: float, at: int) -> None:
        """See 1/factor as much, so that the tick `at` stays where it is."""
        start, end = self.window
        length = max(round((end - start) / factor), min(CLOSEST, self.whole))
        if NEARLY * length >= self.whole:
            self.show_all()
            return
        share = (at - start) / (end - start)
        self._put(round(at - share * length), length)

    def pan(self, share: float) -> None:
        length = self.window.end - self.window.start
        self._put(self.window.start + round(share * length), length)

    def around(self, start: int, end: int) -> None:
        """See a time with as much before and behind it, four times over."""
        length = min(max(9 * (end - start), CLOSEST), self.whole)
        self._put((start + end - length) // 2, length)

    def follow(self, start: int, end: int) -> None:
        length = self.window.end - self.window.start
        if start < self.window.start or end - start >= length:
            self._put(start, length)
        elif end > self.window.end:
            self._put(end - length, length)

    def _put(self, start: int, length: int) -> None:
        length = min(length, self.whole)
        first = min(max(start, 0), self.whole - length)
        self.window = Window(first, first + length)


class BoardScreen(NamedTuple):
    """What there is room for, and how it is drawn."""

    width: int
    height: int
    colour: bool = True
    ascii_only: bool = False
    strips: bool = False  # of memory, where there is room for those of all rows


class Drop(NamedTuple):
    """Where a drag would put the selected task: a tick of its row, and whether it may stand there."""

    tick: int
    is_legal: bool


class BoardDrawing(NamedTuple):
    """Lines of cells; `rows` says of each line which row it shows (NOTHING: none)."""

    lines: Sequence[Line]
    rows: Sequence[int]
    gutter: int
    scale: TimeScale
    first: int  # the tick of the schedule that is time 0 of its tasks
    wanted: int  # lines that would show all rows, with room between them

    def row_at(self, line: int) -> int:
        return self.rows[line] if 0 <= line < len(self.rows) else NOTHING

    def tick_at(self, column: int) -> int:
        """Return the time of tasks in the middle of a column of the screen."""
        (start, end), columns = self.scale
        inside = min(max(column - self.gutter, 0), columns - 1)
        return start + (2 * inside + 1) * (end - start) // (2 * columns) - self.first


def draw(state: State, view: Viewport, screen: BoardScreen, drop: Drop | None = None) -> BoardDrawing:
    """Return the chart of the schedule under edit; the viewport follows the row that is selected.

    Kept schedules share its scale, which is that of the longest.
    """
    return _Pen(state, view, screen, drop).drawn()


class _Marks:
    """The line of marks below each row."""

    def __init__(self, state: State, scale: TimeScale, first: int, drop: Drop | None) -> None:
        self.tasks, self.scale, self.first = state.board.tasks, scale, first
        self.of_row: dict[int, list[str]] = {}
        task = state.selected
        if task == NOTHING:
            return
        row, _ = place_of(state.board, task)
        if "critical" in state.shown:
            for other in self.tasks.critical_path:
                self._of(other, "*")
        limits, order = state.limits, self.tasks.orders[row]
        if limits is not None and limits.first != limits.last and row < self.tasks.devices:  # where it may stand
            start, end = self.tasks.starts[order[limits.first]], self.tasks.ends[order[limits.last]]
            self._mark(row, start, end, "-", keep="*")
            self._mark(row, start, start, "[")
            self._mark(row, end, end, "]")
        if "inputs" in state.shown:
            for user in state.board.users[task]:
                self._of(user, "o")
            held = held_back_by(self.tasks, task)
            for arc in self.tasks.arcs(task):
                self._of(arc.before, "I" if arc == held else "i")
        self._of(task, "^")
        if drop is not None:
            self._mark(row, drop.tick, drop.tick, "|" if drop.is_legal else "!")

    def _of(self, task: int, mark: str) -> None:
        row = self.tasks.machine[task]
        if row != NOTHING:
            self._mark(row, self.tasks.starts[task], self.tasks.ends[task], mark)

    def _mark(self, row: int, start: int, end: int, mark: str, keep: str = "") -> None:
        window = self.scale.window
        start, end = max(start + self.first, window.start), min(end + self.first, window.end)
        if start > end or start > window.end:
            return
        line = self.of_row.setdefault(row, [" "] * self.scale.columns)
        first = min(self.scale.column(start), self.scale.columns - 1)
        last = max(min(self.scale.column_before(end), self.scale.columns - 1), first)
        if start == end and mark == "]":
            first = last = min(max(self.scale.column_before(end), 0), self.scale.columns - 1)
        line[first : last + 1] = [old if old == keep else mark for old in line[first : last + 1]]

    def segments(self, row: int, *, colour: bool) -> Line:
        marks = groupby(self.of_row.get(row, ()))
        return [Segment("".join(same), MARKS.get(mark) if colour else None) for mark, same in marks]


class _Pen:
    """Draws the rows that are seen, from the top one on, until the screen is full."""

    def __init__(self, state: State, view: Viewport, screen: BoardScreen, drop: Drop | None) -> None:
        self.state, self.view, self.screen, self.look = state, view, screen, Look()
        board = state.board
        self.first = board.first
        view.resize(max(sheet.board.tasks.makespan + sheet.board.first for sheet in state.sheets))
        self.names = names = names_of(board, long=screen.width >= WIDE)
        gutter = max(4, *(len(name) + 1 for name in names))
        roomy = screen.strips and SPACED * len(names) + AXIS <= screen.height
        self.memory = ("memory" in state.shown) != roomy
        tail = len(" idle") if screen.width >= WIDE else 0
        if self.memory and isinstance(board, PipelineBoard):
            tail = max([tail, *(len(peak_text(board.schedule, row)) + 1 for row in range(len(names)))])
        columns = max(screen.width - gutter - tail, 2)
        scale = fit(view.window, 1 if isinstance(board, UnitBoard) else quantum([board.schedule]), columns)
        if scale.columns < LEAST_USED * columns:
            scale = TimeScale(view.window, columns)
        self.layout = LineFrame(gutter, [scale], tail, screen.colour, screen.ascii_only)
        is_marked = "critical" in state.shown and screen.colour
        self.painter = painter_of(board, self.layout, frozenset(board.tasks.critical_path if is_marked else ()))
        self.marks = _Marks(state, scale, self.first, drop)

    def drawn(self) -> BoardDrawing:
        """Return the drawing; the view follows the row that is selected."""
        view, selected = self.view, self.state.selected
        row = self.state.board.drawn_with(self.marks.tasks.machine[selected]) if selected != NOTHING else 0
        bottom = [self._extra(extra) for extra in self.painter.bottom]
        left = self.screen.height - AXIS - len(bottom)
        whole = len(self._row(0, spaced=True)) * len(self.names)
        spaced = whole <= left
        view.top = min(view.top, row, max(len(self.names) - 1, 0))
        while True:
            blocks: list[tuple[int, list[tuple[int, Line]]]] = []
            used, self.look = 0, Look()  # the legend counts the rows of this pass alone
            for number in range(view.top, len(self.names)):
                block = self._row(number, spaced=spaced)
                blocks.append((number, block[: left - used]))
                used += len(block)
                if used >= left:
                    break
            last = blocks[-1][0] - (used > left)  # that is seen whole
            if row <= last or view.top >= row:
                break
            is_far = row > last + 1
            view.top = row - max(last - view.top, 0) // 2 if is_far else view.top + 1
        lines: list[Line] = [*Segment.split_lines(axis(self.layout, self.painter.per_unit))]
        rows = [NOTHING] * len(lines)
        for _, block in blocks:
            lines += [line for _, line in block]
            rows += [shown for shown, _ in block]
        lines += bottom
        rows += [NOTHING] * len(bottom)
        items = [*self.painter.legend(self.look, memory=self.memory)] if self.look.apart or self.look.shared else []
        legend = [*Segment.split_lines(wrap(items, self.screen.width))]
        if len(lines) < self.screen.height:
            lines += [[], *legend] if len(lines) + len(legend) < self.screen.height else legend
        del lines[self.screen.height :]
        wanted = AXIS + whole + len(bottom) + LEGEND
        return BoardDrawing(lines, rows, self.layout.gutter, self.layout.scales[0], self.first, wanted)

    def _row(self, number: int, *, spaced: bool) -> list[tuple[int, Line]]:
        """Return the lines of a row, each with the row that it shows: of a device, or of a lane."""
        layout, painter = self.layout, self.painter
        row = painter.row(number)
        scale = layout.scales[0]
        runs = row.runs(scale) if row.order else [Run(scale.columns, None)]
        if row.order:
            self.look.add(row, runs, scale)
        over = number in painter.over
        selected = self.state.selected != NOTHING and number == self.marks.tasks.machine[self.state.selected]
        head = Segment(self.names[number].ljust(layout.gutter), OVER if over else SELECTED_NAME if selected else None)
        left = Segment(" " * layout.gutter)
        first, *others = [self._selected(runs, cells) for cells in painter.lines(runs)]
        tasks, tail, share = self.marks.tasks, layout.tail, list[Segment]()
        if tail >= len(" idle") and tasks.makespan:
            busy = sum(tasks.durations[task] for task in tasks.orders[number])
            share = [Segment(f"{1 - busy / tasks.makespan:.0%}".rjust(tail), DIM)]
        lines = [[head, *first, *share], *([left, *cells] for cells in others)]
        marked = self.marks.segments(number, colour=layout.colour)
        if marked:
            lines.append([left, *marked])
        found = [(number, line) for line in lines]
        extras = [*painter.below(number, memory=self.memory)]
        for (shown, extra), after in zip_longest(extras, extras[1:]):
            found.append((shown, self._extra(extra)))
            of_lane = self.marks.segments(shown, colour=layout.colour) if shown != number else []
            if of_lane and (after is None or after[0] != shown):
                found.append((shown, [left, *of_lane]))
        return found + [(number, [])] * (spaced and not marked)

    def _selected(self, runs: Sequence[Run], cells: Line) -> Line:
        """Return the cells with the selected task in reverse, where there are colours; else a mark below says it."""
        task = self.state.selected
        if not self.layout.colour:
            return cells
        return [
            Segment(cell.text, SELECTED) if task == run.slot or task in run.slots else cell
            for run, cell in zip(runs, cells, strict=True)
        ]

    def _extra(self, extra: LineBelow) -> Line:
        head = Segment(extra.name.ljust(self.layout.gutter), DIM)
        end = [Segment(extra.end.rjust(self.layout.tail), DIM)] if extra.end else []
        segments = self._selected(extra.runs, extra.segments) if extra.runs else extra.segments
        return [head, *segments, *end]

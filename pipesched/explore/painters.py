"""What draws the rows of a board: the cells, strips and legends of the charts that commands print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple, Protocol

from rich.segment import Segment

from pipesched.core.reasons import NOTHING
from pipesched.explore.board import Board
from pipesched.explore.pipeline_board import PipelineBoard
from pipesched.explore.unit_board import UnitBoard
from pipesched.pipeline.kinds import Resource
from pipesched.render.cells import Cells, ColourCells, LetterCells, Line
from pipesched.render.gantt import is_by_kind
from pipesched.render.legend import Item, LegendKey, Look, full_scale, memory_strip, peak_text
from pipesched.render.marks import MEASURED_MEMORY
from pipesched.render.palette import DIM
from pipesched.render.rows import NETWORK_LANE, Row, Run, device_row, lane_rows
from pipesched.render.timescale import operation_times, quantum
from pipesched.render.units_chart import UnitChart
from pipesched.render.view import LineFrame


class Extra(NamedTuple):
    """A line below a row: its name, its segments, and what stands at its end; of a lane its row and its runs."""

    name: str
    segments: Line
    end: str = ""
    row: int = NOTHING
    runs: Sequence[Run] = ()


class Painter(Protocol):
    """What draws the rows of one board. What has a body here is so of units in cycles, without budgets."""

    def names(self, *, long: bool) -> list[str]:
        """Return the names of all rows."""

    def quantum(self) -> int:
        """Return what divides all times."""
        return 1

    def per_unit(self) -> int:
        """Return the ticks of a unit of time."""
        return 1

    def prepare(self, layout: LineFrame, critical: Set[int]) -> None:
        """Take the scale, and what stands on the critical path, before rows are drawn."""

    def row(self, number: int) -> Row:
        """Return a row."""

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        """Return the lines of a row."""

    def is_over(self, number: int) -> bool:
        """Return whether a row holds more than its budget."""
        return False

    def below(self, number: int, *, memory: bool) -> Iterator[Extra]:
        """Yield what stands below a row: memory, transfers."""
        yield from ()

    def bottom(self) -> Iterator[Extra]:
        """Yield what stands below all rows: registers."""
        yield from ()

    def legend(self, look: Look, *, memory: bool) -> Iterator[Item]:
        """Yield the items of the legend."""


class PipelinePainter(Painter):
    """Draws devices."""

    def __init__(self, board: PipelineBoard) -> None:
        self.schedule = board.schedule

    def names(self, *, long: bool) -> list[str]:
        problem = self.schedule.problem
        return [problem.device_name(device, "device " if long else "d") for device in range(problem.devices)]

    def quantum(self) -> int:
        return quantum([self.schedule])

    def per_unit(self) -> int:
        return self.schedule.problem.ticks.per_unit

    def prepare(self, layout: LineFrame, critical: Set[int]) -> None:
        self.layout = layout
        self.by_kind = is_by_kind([self.schedule], layout.scales) and any(self.schedule.busy_ticks)
        self.cells: Cells
        if layout.colour:
            scale = layout.scale
            lasting = [time for time in operation_times(self.schedule) if time]
            length = max(scale.window.end - scale.window.start, 1)
            narrowest = min(lasting, default=0) * scale.columns // length
            self.cells = ColourCells(self.schedule, "auto", narrowest, by_kind=self.by_kind, underlined=critical)
        else:
            self.cells = LetterCells(self.schedule, "auto", layout.ascii_only)

    def row(self, number: int) -> Row:
        return device_row(self.schedule, number)

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        return self.cells.lines(runs)

    def is_over(self, number: int) -> bool:
        return number in self.schedule.over_budget

    def below(self, number: int, *, memory: bool) -> Iterator[Extra]:
        layout = self.layout
        if memory:
            if self.schedule.own_lengths and not number:
                yield Extra("", [Segment(MEASURED_MEMORY[: layout.scale.columns], DIM)])
            full = full_scale([self.schedule])
            colours = {"colour": layout.colour, "ascii_only": layout.ascii_only}
            strip = memory_strip(self.schedule, number, layout.scales, full, **colours)
            yield Extra("mem", strip, peak_text(self.schedule, number))
        problem = self.schedule.problem
        for name, lane in lane_rows(self.schedule, number):
            of_two = problem.lanes == "pair" and name != NETWORK_LANE
            runs = lane.runs(*layout.scales)
            if name == NETWORK_LANE:
                row = problem.devices + 2 * len(self.schedule.plan.lanes) + number
            else:
                row = problem.resource(number, Resource(name))
            for count, line in enumerate(self.cells.lines(runs, of_two=of_two)):
                yield Extra("" if count else name, line, "", row, runs)

    def legend(self, look: Look, *, memory: bool) -> Iterator[Item]:
        if not any(self.schedule.busy_ticks):
            return iter(())
        return LegendKey([self.schedule], self.layout, memory=memory, by_kind=self.by_kind).items(look)


class UnitPainter(Painter):
    """Draws functional units."""

    def __init__(self, board: UnitBoard) -> None:
        self.board = board
        self.chart = self.measured = UnitChart(board.schedule)  # of all operations, and of those that are placed

    def names(self, *, long: bool) -> list[str]:
        return [self.board.row_name(row) for row in range(self.board.tasks.devices)]

    def prepare(self, layout: LineFrame, critical: Set[int]) -> None:
        self.layout = layout
        self.chart = UnitChart(self.board.schedule, ascii_only=layout.ascii_only, marked=critical)
        running = self.board.running
        self.measured = self.chart
        if running is not None:
            self.measured = UnitChart(running, ascii_only=layout.ascii_only, marked=critical)
        self.measured.types = self.chart.types
        length = max(layout.scale.window.end - layout.scale.window.start, 1)
        self.chart.set_names(layout.scale.columns // length)
        self.chart.positions.update(
            (task, place) for order in self.board.tasks.orders for place, task in enumerate(order)
        )

    def row(self, number: int) -> Row:
        """Return the row of a unit, for as long as operations occupy it."""
        tasks = self.board.tasks
        order = tasks.orders[number]
        return Row(order, [tasks.starts[task] for task in order], [tasks.ends[task] for task in order])

    def lines(self, runs: Sequence[Run]) -> list[Line]:
        return self.chart.lines(runs, self.layout)

    def bottom(self) -> Iterator[Extra]:
        running = self.board.running
        if running is not None:
            first, *_ = Segment.split_lines(self.measured.registers(self.layout))
            yield Extra("regs", [*first[1:-1]], str(running.registers))

    def legend(self, look: Look, *, memory: bool) -> Iterator[Item]:
        return self.measured.legend(look, self.layout)


def painter_of(board: Board) -> Painter:
    """Return what draws a board."""
    if isinstance(board, UnitBoard):
        return UnitPainter(board)
    assert isinstance(board, PipelineBoard)
    return PipelinePainter(board)

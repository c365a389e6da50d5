"""The chart: one row a device, time to the right, an axis above; one Rich renderable that knows its width.

With colours a slot is filled with its microbatch's hue. Without them, or in ASCII, a device takes a line of kinds, a
line of microbatches and, with several chunks, a line of chunks. A timeline too long for one column a slot is drawn as
how busy each column is. Transfer lanes stand below their device, or below the second of the two that share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import Cells, ColourCells, LetterCells
from pipesched.render.frame import WIDE, Layout, axis, has_colour, line
from pipesched.render.legend import Key, Look, wrap
from pipesched.render.palette import DIM, OVER
from pipesched.render.rows import Run
from pipesched.render.schedule_rows import device_row, lane_rows, rows_of
from pipesched.render.strip import memory_strip, peak_text
from pipesched.render.timescale import TimeScale, Window, fit, operation_times, quantum, zoomed

AXIS_EVERY = 16  # devices between two axes


class Gantt:
    """A schedule as a chart.

    `window` (ticks) and `zoom` choose the part to draw: 1/zoom of the window, from its start. `memory` adds a strip
    under each device (None: when there is a budget). `label` is one of labels.LABELS. Charts drawn in `company` share
    one layout, and the one that ends with a legend (`show_legend`) explains them all.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        window: Window | None = None,
        zoom: float = 1,
        label: str = "auto",
        memory: bool | None = None,
        ascii_only: bool = False,
        company: Sequence[Schedule] = (),
        show_legend: bool = True,
    ) -> None:
        self.schedule = schedule
        self.window = zoomed(window or Window(0, max(schedule.last_end, default=0)), zoom)
        self.label = label
        self.memory = schedule.problem.memory.budget is not None if memory is None else memory
        self.ascii_only = ascii_only
        self.company = company or (schedule,)
        self.show_legend = show_legend

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """As wide as it may be; at least the names and a few columns."""
        return Measurement(min(24, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines of segments, none wider than the options allow."""
        layout = self._layout(console, options)
        cells: Cells
        if layout.colour:
            cells = ColourCells(self.schedule, self.label, self._narrowest(layout.scale))
        else:
            cells = LetterCells(self.schedule, self.label, layout.ascii_only)
        look = Look()
        for device in range(self.schedule.problem.devices):
            if device % AXIS_EVERY == 0:
                yield from axis(layout, self.schedule.problem.costs.scale)
            row = device_row(self.schedule, device)
            runs = row.runs(layout.scale)
            look.add(row, runs, layout.scale)
            yield from self._device(device, runs, cells, layout)
            for name, lane in lane_rows(self.schedule, device):
                runs = lane.runs(layout.scale)
                look.add(lane, runs, layout.scale)
                yield from self._lane(name, runs, cells, layout)
        if self.show_legend:
            self._look_at_the_others(look, layout.scale)
            key = Key(self.company, layout.scale, self.memory, layout.colour, layout.ascii_only)
            for items in wrap(key.items(look), options.max_width):
                yield from line(items)

    def _look_at_the_others(self, look: Look, scale: TimeScale) -> None:
        for other in self.company:
            for row in rows_of(other) if other is not self.schedule else ():
                look.add(row, row.runs(scale), scale)

    def _layout(self, console: Console, options: ConsoleOptions) -> Layout:
        width, devices = options.max_width, self.schedule.problem.devices
        ascii_only = self.ascii_only or options.ascii_only
        gutter = len(f"device {devices - 1} " if width >= WIDE else f"d{devices - 1} ")
        gutter = max(gutter, len("mem ") if self.memory or any(one.plan.lanes for one in self.company) else 0)
        tail = len(" idle") if width >= WIDE else 0
        if self.memory:
            peaks = (peak_text(one, device) for one in self.company for device in range(devices))
            tail = max(tail, max(map(len, peaks)) + 1)
        scale = fit(self.window, quantum(self.company), max(width - gutter - tail, 1))
        return Layout(gutter, scale, tail, has_colour(console, ascii_only), ascii_only)

    def _narrowest(self, scale: TimeScale) -> int:
        """How many columns the shortest operation gets."""
        times = [time for time in operation_times(self.schedule) if time]
        return min(times, default=0) * scale.columns // max(scale.window.end - scale.window.start, 1)

    def _device(self, device: int, runs: list[Run], cells: Cells, layout: Layout) -> Iterator[Segment]:
        """The lines of one device, and the strip of its memory."""
        over = device in self.schedule.over_budget
        name = f"device {device}" if layout.gutter > len(f"device {device}") else f"d{device}"
        head = Segment(name.ljust(layout.gutter), OVER if over else None)
        share = Segment(self._idle_share(device).rjust(layout.tail), DIM) if layout.tail >= len(" idle") else None
        for place, cell_line in enumerate(cells.lines(runs)):
            if place:
                yield from line([Segment(" " * layout.gutter), *cell_line])
            else:
                yield from line([head, *cell_line, *([share] if share else [])])
        if self.memory:
            strip = memory_strip(
                self.schedule, device, layout.scale, colour=layout.colour, ascii_only=layout.ascii_only
            )
            peak = Segment(peak_text(self.schedule, device).rjust(layout.tail), OVER if over else DIM)
            yield from line([Segment("mem".ljust(layout.gutter), DIM), *strip, peak])

    def _lane(self, name: str, runs: list[Run], cells: Cells, layout: Layout) -> Iterator[Segment]:
        """The lines of a transfer lane."""
        of_two = self.schedule.problem.lanes == "pair"
        for place, segments in enumerate(cells.lines(runs, of_two=of_two)):
            head = Segment(name.ljust(layout.gutter), DIM) if place == 0 else Segment(" " * layout.gutter)
            yield from line([head, *segments])

    def _idle_share(self, device: int) -> str:
        whole = self.schedule.makespan
        return f"{self.schedule.idle[device] / whole:.0%}" if whole else "0%"

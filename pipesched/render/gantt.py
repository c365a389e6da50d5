"""The chart: a row for each device, time to the right, an axis above, as a Rich renderable that adapts to its width.

With colours a slot is filled with its microbatch's hue. Without them, or in ASCII, a device takes a line of kinds, a
line of microbatches and, with several chunks, a line of chunks. Where several slots share columns, their kinds take
turns. Network lanes stand below their device, and transfer lanes, or these below the second of the two that share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import gcd
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from pipesched.checks import require_flag, require_sequence, require_type, require_whole
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.period import SteadyState, has_chunks, steady_state
from pipesched.pipeline.quantities import Number, in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.cells import (
    Cells,
    Item,
    LegendKey,
    Look,
    cells_of,
    drawn_lanes,
    full_scale,
    is_by_kind,
    is_narrow,
    memory_strip,
    peak_text,
    wrap,
)
from pipesched.render.marks import MEASURED_MEMORY, MarkLines, Spelling, as_parameters, counted
from pipesched.render.palette import DIM, OVER, break_mark
from pipesched.render.scene import (
    QUEUE,
    TimeScale,
    Window,
    device_row,
    fit,
    fit_parts,
    in_all,
    number,
    quantum,
    rows_of,
)
from pipesched.render.view import MOST_DEVICES, WIDE, LineFrame, View, axis, has_colour, line
from pipesched.results.outcome import Outcome

OFTEN = 4  # times a period must come, and
HELPS = Fraction(2, 3)  # of a timeline may be left of it, for schedules of one chunk to be folded without being asked
NOTHING = "nothing repeats often enough to be folded: drawn whole"


class Fold(NamedTuple):
    """What a chart leaves out of a steady state: `periods` periods, all but the first (and one, if nothing follows)."""

    steady: SteadyState
    periods: int

    @property
    def period(self) -> Window:
        """The period that is drawn."""
        return Window(self.steady.start, self.steady.start + self.steady.ticks)

    @property
    def gap(self) -> Window:
        """The time that is left out."""
        return Window(self.period.end, self.period.end + self.periods * self.steady.ticks)

    def parts(self, window: Window) -> list[Window]:
        """Return what is left of a window that holds the gap."""
        return [Window(window.start, self.gap.start), Window(self.gap.end, window.end)]

    def text(self, schedule: Schedule) -> str:
        """Return what is left out in words: `20 periods of 90 left out: 1200..3000`."""
        unit, label = schedule.problem.ticks.per_unit, schedule.problem.time_unit
        ticks, start, end = (number(in_units(time, unit)) for time in (self.steady.ticks, *self.gap))
        others = f"; of them {counted(self.steady.others, 'slot')} run otherwise" if self.steady.others else ""
        return f"{counted(self.periods, 'period')} of {ticks} {label}".rstrip() + f" left out: {start}..{end}{others}"


def fold_of(schedule: Schedule) -> Fold | None:
    """Return the fold of a schedule that has a steady state, or nearly."""
    steady = steady_state(schedule, nearly=True)
    if steady is None:
        return None
    is_last = steady.start + steady.repeats * steady.ticks >= schedule.last_ticks
    periods = steady.repeats - 1 - is_last
    fold = Fold(steady, periods)
    gap, starts, ends = fold.gap, schedule.start_ticks, schedule.end_ticks
    beside = range(schedule.plan.index.passes, len(starts))  # of what a step has beside its passes all is drawn
    is_hidden = any(starts[number] < gap.end and ends[number] > gap.start for number in beside)
    return fold if periods and not is_hidden else None


def helps(schedule: Schedule, fold: Fold, folded: Sequence[TimeScale], whole: Sequence[TimeScale]) -> bool:
    """Return whether slots get wider by a fold; with one chunk also whether enough of the timeline is left out."""
    narrow, wide = (in_all(scales) for scales in (whole, folded))
    before, after = (scale.window.end - scale.window.start for scale in (narrow, wide))
    is_enough = has_chunks(schedule) or (fold.steady.repeats >= OFTEN and after <= HELPS * before)
    return is_enough and wide.columns * before > narrow.columns * after


AXIS_EVERY = 16  # devices between two axes


class Gantt(Displayable):
    """A schedule, or the schedule of an outcome, as a chart.

    `start` and `end` (in the user's time unit) and `zoom` choose the part to draw: 1/zoom of the window, from its
    start. `label` is one of view.LABELS; `memory` adds a strip under each device (None: when there is a budget).
    `rows` are the devices to draw (None: of more than 64 the first and the last 32; "all"). `fold` leaves out what
    repeats: of the steady state one period is drawn. None means where slots are narrower than two columns and it helps;
    not in a part, with `until`, or of charts together. Charts of the schedules in `together` share one layout, up to
    the tick `until` (or each folded by itself), so their ticks are equally long. The legend of a chart (`show_legend`)
    explains them all. `marks` adds a line of marks below each device; `spell` spells parameters in texts. Raises
    ConfigError, about the argument at fault.
    """

    def __init__(
        self,
        schedule: Schedule | Outcome,
        *,
        start: Number | None = None,
        end: Number | None = None,
        zoom: float = 1,
        label: str = "auto",
        memory: bool | None = None,
        rows: Sequence[int] | str | None = None,
        fold: bool | None = None,
        ascii_only: bool = False,
        together: Sequence[Schedule | Outcome] = (),
        until: int | None = None,
        show_legend: bool = True,
        marks: MarkLines | None = None,
        spell: Spelling = as_parameters,
    ) -> None:
        self.schedule = schedule.schedule if isinstance(schedule, Outcome) else schedule
        require_type(self.schedule, Schedule, "a Schedule or an Outcome", "schedule")
        view = View(start, end, zoom, label, memory, rows=rows, fold=fold)
        self.ascii_only = require_flag(ascii_only, "ascii_only")
        members = []
        for member in require_sequence(together, "together"):
            members.append(member.schedule if isinstance(member, Outcome) else member)
            require_type(members[-1], Schedule, "Schedules or Outcomes", "together")
        if {member.problem.ticks.per_unit for member in members} - {self.schedule.problem.ticks.per_unit}:
            raise ConfigError("must be schedules whose ticks are as long as those of schedule", "together")
        self.together: Sequence[Schedule] = members or (self.schedule,)
        longest = max(member.last_ticks for member in self.together)
        last = longest if until is None else require_whole(until, "until", least=int(longest > 0))
        self.window, self.label = view.window(self.schedule, last), label
        self.may_fold = fold is not False and view.part is None and until is None
        self.must_fold = bool(fold)
        self.memory, self.devices = view.shows_memory(self.schedule), view.devices(self.schedule)
        left_out = view.left_out(self.schedule)
        self.left_out = spell(f"{counted(left_out, 'device')} left out; `rows` all draws them") if left_out else ""
        self.show_legend = require_flag(show_legend, "show_legend")
        self.marks = marks

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(24, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        layout = self._layout(console, options)
        by_kind = layout.few_colours or is_by_kind(self.together, layout.scales)
        underlined = self.marks.underlined if self.marks else frozenset()
        cells = cells_of(self.schedule, self.label, layout, by_kind=by_kind, underlined=underlined)
        look = Look()
        marked = self._fold.period if self._fold and len(layout.scales) > 1 else None
        for position, device in enumerate(self.devices):
            if self.left_out and position == MOST_DEVICES // 2:
                yield from line(Segment.adjust_line_length([Segment(self.left_out, DIM)], options.max_width, pad=False))
            if position % AXIS_EVERY == 0:
                yield from axis(layout, self.schedule.problem.ticks.per_unit, marked)
            yield from self._device(device, cells, layout, look)
        for items in wrap(self._left_out(layout), options.max_width):
            yield from line(items)
        if self.show_legend:
            for other in (other for other in self.together if other is not self.schedule):
                scales = self._folded(other, _columns(layout, options)) if self.must_fold else layout.scales
                for row in rows_of(other):
                    look.add(row, row.runs(*scales), *scales)
            key = LegendKey(self.together, layout, memory=self.memory, by_kind=by_kind)
            marks = self.marks.legend(colour=layout.colour) if self.marks else ()
            for items in wrap(chain(key.items(look), marks), options.max_width):
                yield from line(items)

    def _left_out(self, layout: LineFrame) -> Iterator[Item]:
        """Yield what a fold leaves out, or that there is none though one was asked for."""
        if self._fold and len(layout.scales) > 1:
            yield [Segment("= one period" if layout.ascii_only else "═ one period", DIM)]
            yield [break_mark(ascii_only=layout.ascii_only), Segment(f" {self._fold.text(self.schedule)}", DIM)]
        elif self.must_fold and not self._fold:
            yield [Segment(NOTHING, DIM)]

    @cached_property
    def _fold(self) -> Fold | None:
        return fold_of(self.schedule)

    @cached_property
    def _parts(self) -> dict[int, list[Window]]:
        """The parts of each schedule in `together`, by its identity, that a folded chart shows."""
        parts = {}
        for member in (self.schedule, *self.together):
            fold = self._fold if member is self.schedule else fold_of(member)
            parts[id(member)] = fold.parts(Window(0, member.last_ticks)) if fold else [self.window]
        return parts

    def _folded(self, schedule: Schedule, columns: int) -> Sequence[TimeScale]:
        """Return the scales of a folded chart, whose ticks are as long as those of the others in `together`."""
        every = chain.from_iterable(chain.from_iterable(self._parts.values()))
        most = max(sum(end - start for start, end in windows) for windows in self._parts.values())
        breaks = max(map(len, self._parts.values())) - 1
        return fit_parts(self._parts[id(schedule)], gcd(quantum(self.together), *every), columns - breaks, most)

    def _layout(self, console: Console, options: ConsoleOptions) -> LineFrame:
        width, problem = options.max_width, self.schedule.problem
        ascii_only = self.ascii_only or options.ascii_only
        word = "device " if width >= WIDE else "d"
        gutter = max(len(problem.device_name(device, word)) for device in range(problem.devices)) + 1
        if self.memory or self.marks or any(member.plan.lanes or member.plan.network for member in self.together):
            gutter = max(gutter, len("mem "))
        if any(member.plan.messages for member in self.together):
            gutter = max(gutter, len(f"{QUEUE} {problem.devices - 1} "))
        tail = len(" idle") if width >= WIDE else 0
        if self.memory:
            peaks = (peak_text(member, device) for member in self.together for device in range(member.problem.devices))
            tail = max(tail, max(map(len, peaks)) + 1)
        colour = has_colour(console, ascii_only)
        few_colours = colour and console.color_system in ("standard", "windows")
        layout = LineFrame(gutter, [], tail, colour, ascii_only, few_colours)
        return layout._replace(scales=self._scales(_columns(layout, options)))

    def _scales(self, columns: int) -> Sequence[TimeScale]:
        """Return the scale of the chart, or several where it is folded."""
        whole = [fit(self.window, quantum(self.together), columns)]
        if self.must_fold:
            return self._folded(self.schedule, columns)
        if not self.may_fold or len(self.together) > 1 or not is_narrow(self.together, whole) or not self._fold:
            return whole
        folded = self._folded(self.schedule, columns)
        return folded if helps(self.schedule, self._fold, folded, whole) else whole

    def _device(self, device: int, cells: Cells, layout: LineFrame, look: Look) -> Iterator[Segment]:
        """Yield the lines of a device, its marks, its memory and its lanes; `look` is told what they contain."""
        row = device_row(self.schedule, device)
        runs = row.runs(*layout.scales)
        look.add(row, runs, *layout.scales)
        over = device in self.schedule.over_budget
        name = self.schedule.problem.device_name(device)
        if layout.gutter <= len(name):
            name = self.schedule.problem.device_name(device, "d")
        head = Segment(name.ljust(layout.gutter), OVER if over else None)
        whole = self.schedule.makespan_ticks
        idle = f"{self.schedule.idle_ticks[device] / whole:.0%}" if whole else "0%"
        share = [Segment(idle.rjust(layout.tail), DIM)] if layout.tail >= len(" idle") else []
        first, *others = cells.lines(runs)
        yield from line([head, *first, *share])
        for cell_line in others:
            yield from line([Segment(" " * layout.gutter), *cell_line])
        if self.marks:
            yield from line([Segment(self.marks.name.ljust(layout.gutter), DIM), *self.marks.line(device, layout)])
        if self.memory:
            if self.schedule.own_lengths and device == self.devices[0]:
                columns = sum(scale.columns for scale in layout.scales)
                yield from line([Segment(" " * layout.gutter), Segment(MEASURED_MEMORY[:columns], DIM)])
            strip = memory_strip(self.schedule, device, layout, full_scale(self.together))
            peak = Segment(peak_text(self.schedule, device).rjust(layout.tail), OVER if over else DIM)
            yield from line([Segment("mem".ljust(layout.gutter), DIM), *strip, peak])
        for name, lane, runs, lines in drawn_lanes(self.schedule, device, cells, layout):
            look.add(lane, runs, *layout.scales)
            for place, segments in enumerate(lines):
                head = Segment(" " * layout.gutter) if place else Segment(name.ljust(layout.gutter), DIM)
                yield from line([head, *segments])


def _columns(layout: LineFrame, options: ConsoleOptions) -> int:
    """Return the columns that a line has for time."""
    return max(options.max_width - layout.gutter - layout.tail, 2)

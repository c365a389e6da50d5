"""The part of a schedule that a chart or a figure shows, and its look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment

from pipesched.checks import require_flag, require_name, require_number, require_type, require_whole, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.quantities import (
    Number,
    first_entries,
    in_units,
    is_several,
    no_number,
    plain,
    to_fraction,
)
from pipesched.render.palette import BREAK_MARKS, DIM
from pipesched.render.scene import TimeScale, Window, in_all, number, round_number

PAGE = 7.0  # inches: the text of a page; a column of a two-column paper is half of it
NARROWEST_PAGE, WIDEST_PAGE = 2, 40
FONT, SMALLEST_FONT, LARGEST_FONT = 7.0, 5, 24  # points
LABELS = ("auto", "microbatch", "op", "stage", "none")  # of slots
LEGENDS = ("below", "right", "none")
MOST_TITLE, MOST_WORD = 200, 20  # letters
MOST_ROWS = 100_000
MOST_DEVICES = 64  # of more, a chart draws the first and the last ones
ALL = "all"


@dataclass(frozen=True)
class View:
    """The part of the timeline to draw, and its look.

    `start` and `end` (in the user's time unit; None: all) and `zoom` choose the part: 1/zoom of the window, from its
    start. `label` is one of LABELS, `memory` the strip under each device (None: when there is a budget). `rows`
    are the devices to draw (None: of more than MOST_DEVICES the first and the last ones; "all"). `fold` says whether a
    chart in a terminal leaves out what repeats (None: where slots are narrow and it helps; never in a part). `charts`
    is the number of schedules in the figure of a comparison (None: all of few, of many the best; "all"; 0: bars of the
    metrics of all). `show` is the measure in that of a sweep.

    A figure is `inches` wide, with text of `font_size` points, a `title` (None: what it shows; "": none) and a legend
    in one of the places LEGENDS. Its microbatches count from `first_microbatch`, and its devices are named after
    `device_name`. Raises ConfigError, about the field at fault.
    """

    start: Number | None = None
    end: Number | None = None
    zoom: float = 1
    label: str = "auto"
    memory: bool | None = None
    inches: float = PAGE
    rows: Sequence[int] | str | None = None
    fold: bool | None = None
    charts: int | str | None = None
    show: str = "bubble"
    title: str | None = None
    font_size: float = FONT
    legend: str = "below"
    first_microbatch: int = 0
    device_name: str = "device"

    def __post_init__(self) -> None:
        ends = [_time(value, key) for key, value in (("start", self.start), ("end", self.end)) if value is not None]
        if len(ends) > 1 and ends[0] >= ends[1]:
            raise ConfigError(f"must be later than `start` ({shown(self.start)}), not {shown(self.end)}", "end")
        require_number(self.zoom, "zoom", least=1)
        require_name(LABELS, self.label, "label", "label")
        if self.memory is not None:
            require_flag(self.memory, "memory")
        require_number(self.inches, "inches", least=NARROWEST_PAGE, most=WIDEST_PAGE)
        require_number(self.font_size, "font_size", least=SMALLEST_FONT, most=LARGEST_FONT)
        require_name(LEGENDS, self.legend, "legend", "legend")
        require_whole(self.first_microbatch, "first_microbatch", least=0, most=1)
        for key, text, most in (("title", self.title or "", MOST_TITLE), ("device_name", self.device_name, MOST_WORD)):
            if len(require_type(text, str, "a text", key)) > most:
                raise ConfigError(f"must have at most {most} letters, not {len(text)}", key)
        if self.fold is not None:
            require_flag(self.fold, "fold")
        if isinstance(self.charts, str) and self.charts != "all":
            raise ConfigError(f"must be a number, or all, not {shown(self.charts)}", "charts")
        if self.charts is not None and not isinstance(self.charts, str):
            require_whole(self.charts, "charts", least=0)
        part = self.part
        if self.fold and part:
            raise ConfigError(f"cannot fold a part of the timeline; give either it or `{part}`", "fold")
        if self.rows is not None:
            object.__setattr__(self, "rows", _rows(self.rows))

    @property
    def part(self) -> str | None:
        """The field that chooses a part of the timeline, the first of several; None for all of it."""
        given = {"start": self.start is not None, "end": self.end is not None, "zoom": self.zoom != 1}
        return next((key for key, is_given in given.items() if is_given), None)

    def window(self, schedule: Schedule, until: int | None = None) -> Window:
        """Return the part to draw, up to the tick `until` (default: its end). Raises ConfigError if it is empty."""
        scale, last = schedule.problem.ticks.per_unit, schedule.last_ticks if until is None else until
        first = 0 if self.start is None else max(round(_time(self.start, "start") * scale), 0)
        end = last if self.end is None else min(round(_time(self.end, "end") * scale), last)
        if first >= end and last:
            key = "end" if self.start is None else "start"
            raise ConfigError(f"nothing to draw there; the schedule runs from 0 to {in_units(last, scale)}", key)
        return Window(first, first + max(int((end - first) / self.zoom), min(1, end - first)))

    def devices(self, schedule: Schedule) -> Sequence[int]:
        """Return the devices to draw. Raises ConfigError for one that is not there."""
        count = schedule.problem.devices
        if self.rows is None and count > MOST_DEVICES:
            return [*range(MOST_DEVICES // 2), *range(count - MOST_DEVICES // 2, count)]
        if self.rows is None or isinstance(self.rows, str):
            return range(count)
        for entry, device in enumerate(self.rows):
            if device >= count:
                raise ConfigError(f"device {device} is out of range; devices are 0 to {count - 1}", "rows", entry=entry)
        return sorted(set(self.rows))

    def shows_memory(self, schedule: Schedule) -> bool:
        """Return whether there is a strip of memory under each device."""
        return schedule.problem.memory.budget is not None if self.memory is None else self.memory


def _rows(rows: Any) -> tuple[int, ...] | str:
    """Return the devices to draw. Raises ConfigError."""
    if isinstance(rows, str) and rows == ALL:
        return rows
    if not is_several(rows):
        raise ConfigError(f"must be a list of devices, or {ALL}, not {shown(rows)}", "rows")
    listed = first_entries(rows, MOST_ROWS)
    if len(listed) > MOST_ROWS:
        raise ConfigError(f"must list at most {MOST_ROWS:,} devices", "rows")
    return tuple(require_whole(device, "rows", entry=entry) for entry, device in enumerate(listed))


def _time(value: Number, key: str) -> Fraction:
    """Return a time in the user's unit as a fraction. Raises ConfigError."""
    try:
        return to_fraction(value)
    except ValueError as error:
        raise ConfigError(no_number(value, error), key) from None


NEWLINE = Segment.line()
WIDE = 70  # columns from which names are written out and the idle share stands at the end


class Widely:
    """What takes all of the width that there is, and at least 20 columns or what `_narrowest` says."""

    _narrowest = 20

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(self._narrowest, options.max_width), options.max_width)


class LineFrame(NamedTuple):
    """The parts of a line: the gutter with the names, the columns of time, the tail with idle shares and peaks.

    Where time is left out there are several scales, with a column for the break between two.
    """

    gutter: int
    scales: Sequence[TimeScale]
    tail: int
    colour: bool
    ascii_only: bool
    few_colours: bool = False  # 16 of them, or less


def has_colour(console: Console, ascii_only: bool) -> bool:
    """Return whether cells are filled with colour; else letters spell them out."""
    return not (ascii_only or console.no_color or console.color_system is None)


def axis(layout: LineFrame, ticks_a_unit: int, marked: Window | None = None) -> Iterator[Segment]:
    """Yield the line of round times above their columns, then a line of marks.

    The times on both sides of a break are given too; `marked` is a time that a double line shows.
    """
    (begin, finish), columns = in_all(layout.scales)
    widest = len(number(in_units(finish, ticks_a_unit))) + 3  # with what keeps labels apart
    step = round_number(max(Fraction(widest * (finish - begin), columns), Fraction(1)) / ticks_a_unit) * ticks_a_unit
    pause = BREAK_MARKS[layout.ascii_only].text
    glyphs = "-+=" if layout.ascii_only else "─┬═"
    labels = marks = " " * layout.gutter
    for position, scale in enumerate(layout.scales):
        texts: dict[int, str] = {}  # first those of the ends at which time is left out, where they fit
        start, end = (number(in_units(time, ticks_a_unit)) for time in scale.window)
        if position and len(start) <= scale.columns:
            texts[0] = start
        if scale is not layout.scales[-1] and len(end) + (len(start) + 1) * (position > 0) <= scale.columns:
            texts[scale.columns - len(end)] = end
        multiples = range(ceil(scale.window.start / step), floor(scale.window.end / step) + 1)
        for tick in (count * step for count in multiples):
            column, text = scale.column(floor(tick)), number(plain(tick / ticks_a_unit))
            if all(column + len(text) < other or column > other + len(texts[other]) for other in texts):
                texts[column] = text
        rule, written = [glyphs[0]] * scale.columns, ""
        if marked is not None and scale.window.start <= marked.start < scale.window.end:
            for column in range(scale.column(marked.start), min(scale.column_before(marked.end) + 1, scale.columns)):
                rule[column] = glyphs[2]
        for column, text in sorted(texts.items()):
            if column + len(text) <= scale.columns:  # others would be cut
                written = written.ljust(column) + text
                rule[column] = glyphs[1]
        labels += (" " if position else "") + written.ljust(scale.columns)
        marks += (pause if position else "") + "".join(rule)
    share = "idle".rjust(layout.tail) if layout.tail >= len(" idle") else ""
    yield from (Segment(labels + share, DIM), NEWLINE, Segment(marks, DIM), NEWLINE)

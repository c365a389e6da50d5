"""A `View`: the part of a schedule that a chart or a figure shows, and its look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pipesched.checks import require_flag, require_name, require_number, require_type, require_whole, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.problem.quantities import Number, first_entries, in_units, is_several, no_number, to_fraction
from pipesched.render.scene import Window

PAGE = 7.0  # inches: the text of a page; a column of a two-column paper is half of it
NARROWEST_PAGE, WIDEST_PAGE = 2, 40
FONT, SMALLEST_FONT, LARGEST_FONT = 7.0, 5, 24  # points
LABELS = ("auto", "microbatch", "op", "stage", "none")  # of slots
LEGENDS = ("below", "right", "none")
MOST_TITLE, MOST_WORD = 200, 20  # letters
MOST_ROWS = 100_000
MOST_DEVICES = 64  # of more, a chart draws the first and the last ones
ALL = "all"


@dataclass(frozen=True, repr=False)
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
        given = {"start": self.start is not None, "end": self.end is not None, "zoom": self.zoom != 1}
        for part in (key for key, is_given in given.items() if is_given and self.fold):
            raise ConfigError(f"cannot fold a part of the timeline; give either it or `{part}`", "fold")
        if self.rows is not None:
            object.__setattr__(self, "rows", _rows(self.rows))

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
        return schedule.problem.memory.budget is not None if self.memory is None else self.memory


def _rows(rows: Any) -> tuple[int, ...] | str:
    if isinstance(rows, str) and rows == ALL:
        return rows
    if not is_several(rows):
        raise ConfigError(f"must be a list of devices, or {ALL}, not {shown(rows)}", "rows")
    listed = first_entries(rows, MOST_ROWS)
    if len(listed) > MOST_ROWS:
        raise ConfigError(f"must list at most {MOST_ROWS:,} devices", "rows")
    return tuple(require_whole(device, "rows", entry=entry) for entry, device in enumerate(listed))


def _time(value: Number, key: str) -> Fraction:
    try:
        return to_fraction(value)
    except ValueError as error:
        raise ConfigError(no_number(value, error), key) from None

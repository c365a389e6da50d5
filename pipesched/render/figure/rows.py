"""The layout of a chart: from the top down each device's slots, its memory, and its lanes.

The unit of widths is the user's time unit, and that of heights the height of a device's slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.pipeline.ops import Op
from pipesched.pipeline.schedule import Schedule
from pipesched.render.labels import counted
from pipesched.render.rows import NETWORK_LANE, Row, device_row, lane_rows
from pipesched.render.timescale import Window
from pipesched.render.view import MOST_DEVICES, View

BAR, STRIP, GAP = 1.0, 0.7, 0.22  # heights: of the slots of a device, of its memory, and what is left below
LANE, LANE_GAP = 0.55, 0.1  # of a transfer lane, and what is left above it
BAR_INCHES = 0.19  # height of the slots, where a page is long enough
Polygon = list[tuple[float, float]]


class Bar(NamedTuple):
    """An operation as a rectangle."""

    op: Op
    left: float
    right: float
    top: float
    bottom: float

    @property
    def width(self) -> float:
        """The duration of the operation, in the user's time unit."""
        return self.right - self.left

    @property
    def corners(self) -> Polygon:
        """The corners of the rectangle."""
        return rectangle(self.left, self.right, self.top, self.bottom)


def rectangle(left: float, right: float, top: float, bottom: float) -> Polygon:
    """Return the corners of a rectangle."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


class ChartRow(NamedTuple):
    """A row of a chart: its slots, its upper edge and its height."""

    name: str
    slots: Row
    top: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle line."""
        return self.top + self.height / 2


class ChartRows(NamedTuple):
    """All rows of a chart, and the height of the whole."""

    devices: Sequence[ChartRow]
    lanes: Sequence[ChartRow]
    height: float
    left_out: tuple[float, str] | None = None  # where devices are left out, and how many


def layout(schedule: Schedule, view: View) -> ChartRows:
    """Return all rows with their positions; a lane stands below its last user."""
    problem, top = schedule.problem, 0.0
    devices, lanes = [], []
    count, left_out = view.left_out(schedule), None
    for position, device in enumerate(view.devices(schedule)):
        if count and position == MOST_DEVICES // 2:
            left_out = top + BAR / 2 - GAP / 2, f"{counted(count, 'device')} left out"
            top += BAR
        devices.append(ChartRow(problem.device_name(device), device_row(schedule, device), top, BAR))
        top += BAR + (STRIP if view.shows_memory(schedule) else 0)
        users = problem.devices_of_lanes(problem.lane_pair(device))
        shared = f" {users[0]}-{users[-1]}" if len(users) > 1 else ""
        for name, slots in lane_rows(schedule, device):
            lanes.append(ChartRow(name if name == NETWORK_LANE else name + shared, slots, top + LANE_GAP, LANE))
            top += LANE_GAP + LANE
        top += GAP
    return ChartRows(devices, lanes, top, left_out)


def bars(schedule: Schedule, row: ChartRow, window: Window) -> Iterator[Bar]:
    """Yield every operation of a row that takes time within the window; of a pair both, half as high."""
    plan, unit = schedule.plan, schedule.problem.ticks.per_unit
    for entry, start, end in zip(row.slots.order, row.slots.starts, row.slots.ends, strict=True):
        if start == end or end <= window.start or start >= window.end:
            continue
        left, right, paired = start / unit, end / unit, plan.paired(entry)
        bottom = row.top + row.height
        middle = bottom if paired is None else row.middle
        yield Bar(plan.index.op(entry), left, right, row.top, middle)
        if paired is not None:
            yield Bar(paired, left, right, middle, bottom)

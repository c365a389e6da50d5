"""Where things stand in a chart: from the top down each device's slots, its memory, and its transfer lanes.

Across, the unit is the user's time unit; downwards, the height of a device's slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipesched.pipeline.ops import Op
from pipesched.pipeline.schedule import Schedule
from pipesched.render.rows import Row
from pipesched.render.schedule_rows import device_row, lane_rows
from pipesched.render.timescale import Window
from pipesched.render.view import View

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
        """How long it takes."""
        return self.right - self.left

    @property
    def corners(self) -> Polygon:
        """The rectangle."""
        return rectangle(self.left, self.right, self.top, self.bottom)


def rectangle(left: float, right: float, top: float, bottom: float) -> Polygon:
    """The corners of a rectangle."""
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def shows_memory(schedule: Schedule, view: View) -> bool:
    """Whether there is a strip of memory under each device."""
    return schedule.problem.memory.budget is not None if view.memory is None else view.memory


class Place(NamedTuple):
    """A row of a chart: its slots, and where it stands."""

    name: str
    row: Row
    top: float
    height: float

    @property
    def middle(self) -> float:
        """Half way down."""
        return self.top + self.height / 2


class Layout(NamedTuple):
    """All rows of a chart, and the height of the whole."""

    devices: Sequence[Place]
    lanes: Sequence[Place]
    height: float


def layout(schedule: Schedule, view: View) -> Layout:
    """Where every row stands; below a device that uses a lane last stands the lane."""
    problem, top = schedule.problem, 0.0
    devices, lanes = [], []
    for device in range(problem.devices):
        devices.append(Place(f"device {device}", device_row(schedule, device), top, BAR))
        top += BAR + (STRIP if shows_memory(schedule, view) else 0)
        users = problem.sharing(problem.lane(device))
        shared = f" {users[0]}-{users[-1]}" if len(users) > 1 else ""
        for name, row in lane_rows(schedule, device):
            lanes.append(Place(name + shared, row, top + LANE_GAP, LANE))
            top += LANE_GAP + LANE
        top += GAP
    return Layout(devices, lanes, top)


def bars(schedule: Schedule, place: Place, window: Window) -> Iterator[Bar]:
    """Every operation of a row that takes time within the window; of a pair both, half as high."""
    plan, unit = schedule.plan, schedule.problem.costs.scale
    for entry, start, end in zip(place.row.order, place.row.starts, place.row.ends, strict=True):
        if start == end or end <= window.start or start >= window.end:
            continue
        left, right, paired = start / unit, end / unit, plan.paired(entry)
        bottom = place.top + place.height
        middle = bottom if paired is None else place.middle
        yield Bar(plan.index.op(entry), left, right, place.top, middle)
        if paired is not None:
            yield Bar(paired, left, right, middle, bottom)

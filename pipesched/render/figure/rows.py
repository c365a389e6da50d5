"""Where things stand in a chart: a row a device from the top down, its slots, and below them its memory.

Across, the unit is the user's time unit; downwards, the height of a device's slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipesched.pipeline.ops import Op
from pipesched.pipeline.schedule import Schedule
from pipesched.render.timescale import Window
from pipesched.render.view import View

BAR, STRIP, GAP = 1.0, 0.7, 0.22  # heights: of the slots of a device, of its memory, and what is left below
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


def pitch(memory: bool) -> float:
    """From one device to the next."""
    return BAR + GAP + (STRIP if memory else 0)


def bars(schedule: Schedule, window: Window, each: float) -> Iterator[Bar]:
    """Every operation that takes time within the window, devices `each` apart; of a pair both, half as high."""
    plan, unit = schedule.plan, schedule.problem.costs.scale
    for device, order in enumerate(plan.orders):
        top = device * each
        times = zip(schedule.slot_starts[device], schedule.slot_ends[device], strict=True)
        for entry, (start, end) in zip(order, times, strict=True):
            if start == end or end <= window.start or start >= window.end:
                continue
            left, right, paired = start / unit, end / unit, plan.paired(entry)
            middle = top + (BAR if paired is None else BAR / 2)
            yield Bar(plan.index.op(entry), left, right, top, middle)
            if paired is not None:
                yield Bar(paired, left, right, middle, top + BAR)

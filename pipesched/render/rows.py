"""The columns of a row of a chart. Slots are looked up by time, so that a long row costs no more than its columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipesched.core.integers import ceil_div
from pipesched.pipeline.kinds import LANES
from pipesched.pipeline.metrics import picker
from pipesched.pipeline.schedule import Schedule
from pipesched.render.timescale import TimeScale, in_all

FULL = 4
MOST_SEEN = 12  # slots of a shared column that tell of which kinds it is


class Run(NamedTuple):
    """Neighbouring columns that show the same slot (None: idle); `busy` is the part of them that is worked, of FULL.

    `slots` are those that fall into a shared column, of many every so manieth.
    """

    width: int
    slot: int | None
    busy: int = FULL
    shared: bool = False  # several slots fall into the column; `slot` is one of them
    slots: Sequence[int] = ()
    is_break: bool = False  # time is left out here


class Row:
    """The slots of one row in their order, each with its start and its end, ready to be looked up by time."""

    def __init__(self, order: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> None:
        self.order, self.starts, self.ends = order, starts, ends

    def slot_at(self, tick: int) -> int | None:
        """Return the slot that runs at `tick`, None if the row is idle then."""
        position = bisect_right(self.starts, tick) - 1
        return self.order[position] if position >= 0 and tick < self.ends[position] else None

    def runs(self, *scales: TimeScale) -> list[Run]:
        """Return what the columns show, left to right: slots if they fill a column on average, else how busy it is.

        A column that shows a break stands between two scales.
        """
        whole = in_all(scales)
        worked = sum(self._worked(*scale.window) for scale in scales)
        slots = sum(last - first for first, last in map(self._within, scales))
        crowded = worked * whole.columns < slots * (whole.window.end - whole.window.start)
        runs: list[Run] = []
        for scale in scales:
            runs += [Run(1, None, is_break=True)] if runs else []
            runs += self._shares(scale) if crowded else self._slots(scale)
        return runs

    def hidden(self, runs: Sequence[Run], *scales: TimeScale) -> int:
        """Return how many slots that take time are too short for a column of their own in `runs`."""
        if runs[0].shared:
            return 0
        lasting = 0
        for first, last in map(self._within, scales):
            times = zip(self.starts[first:last], self.ends[first:last], strict=True)
            lasting += sum(start < end for start, end in times)
        return lasting - sum(run.slot is not None for run in runs)

    def _within(self, scale: TimeScale) -> tuple[int, int]:
        """Return the positions of the first slot in the window of a scale, and of the first one behind it."""
        return bisect_right(self.ends, scale.window.start), bisect_left(self.starts, scale.window.end)

    def _slots(self, scale: TimeScale) -> Iterator[Run]:
        start, shown = 0, self.slot_at(scale.middle(0))
        for column in range(1, scale.columns):
            slot = self.slot_at(scale.middle(column))
            if slot != shown:
                yield Run(column - start, shown)
                start, shown = column, slot
        yield Run(scale.columns - start, shown)

    def _shares(self, scale: TimeScale) -> Iterator[Run]:
        """Yield a run for each column, with the slot in its middle or the last one before."""
        edges, middles = borders(scale)
        for column, (left, right) in enumerate(pairwise(edges)):
            worked = self._worked(left, right)
            busy = ceil_div(FULL * worked, right - left) if worked else 0  # rounded up: what is shown idle is idle
            busy -= busy == FULL and worked < right - left  # and what is shown full is full
            position = bisect_right(self.starts, middles[column]) - 1
            first, last = bisect_right(self.ends, left), bisect_left(self.starts, right)
            slots = self.order[first : last : ceil_div(last - first, MOST_SEEN)] if first < last else ()
            yield Run(1, self.order[max(position, 0)] if busy else None, busy, True, slots)

    def _worked(self, left: int, right: int) -> int:
        """Return how long the row works between two ticks."""
        first, last = bisect_right(self.ends, left), bisect_left(self.starts, right)
        if first >= last:
            return 0
        whole = sum(self.ends[first:last]) - sum(self.starts[first:last])
        return whole - max(left - self.starts[first], 0) - max(self.ends[last - 1] - right, 0)


@lru_cache(maxsize=4)
def borders(scale: TimeScale) -> tuple[list[int], list[int]]:
    """Return the ticks at the edges of the columns of a scale, and those in their middles; all rows share them."""
    columns = range(scale.columns)
    return [*map(scale.edge, columns), scale.window.end], [*map(scale.middle, columns)]


def device_row(schedule: Schedule, device: int) -> Row:
    """Return the row of a device."""
    return Row(schedule.plan.orders[device], schedule.slot_start_ticks[device], schedule.slot_end_ticks[device])


def lane_rows(schedule: Schedule, device: int) -> Iterator[tuple[str, Row]]:
    """Yield name and row of each transfer lane below a device: its own ones, or below the second device the pair's."""
    problem = schedule.problem
    pair = problem.lane_pair(device)
    if not schedule.plan.lanes or device != problem.devices_of_lanes(pair)[-1]:
        return
    for lane, order in zip(LANES, schedule.plan.lanes[pair], strict=True):
        if order:
            pick = picker(order)
            yield lane.value, Row(order, pick(schedule.start_ticks), pick(schedule.end_ticks))


def rows_of(schedule: Schedule) -> Iterator[Row]:
    """Yield every row of a chart."""
    for device in range(schedule.problem.devices):
        yield device_row(schedule, device)
        yield from (row for _, row in lane_rows(schedule, device))

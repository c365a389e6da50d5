"""The rows of a schedule's chart: its devices, and the transfer lanes below them."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.pipeline.kinds import LANES
from pipesched.pipeline.metrics import picker
from pipesched.pipeline.schedule import Schedule
from pipesched.render.rows import Row


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

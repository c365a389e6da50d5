"""The rows of a schedule's chart: its devices, and the transfer lanes below them."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.pipeline.schedule import Schedule, picker
from pipesched.render.rows import Row


def device_row(schedule: Schedule, device: int) -> Row:
    """The slots of a device."""
    return Row(schedule.plan.orders[device], schedule.slot_starts[device], schedule.slot_ends[device])


def lane_rows(schedule: Schedule, device: int) -> Iterator[tuple[str, Row]]:
    """The transfer lanes to draw below a device, with their names: its own, or after the second device the pair's."""
    problem = schedule.problem
    lane = problem.lane(device)
    if not schedule.plan.lanes or (device + 1 < problem.devices and problem.lane(device + 1) == lane):
        return
    for name, order in zip(("D2H", "H2D"), schedule.plan.lanes[lane], strict=True):
        if order:
            pick = picker(order)
            yield name, Row(order, pick(schedule.starts), pick(schedule.ends))


def rows_of(schedule: Schedule) -> Iterator[Row]:
    """Every row of a chart."""
    for device in range(schedule.problem.devices):
        yield device_row(schedule, device)
        yield from (row for _, row in lane_rows(schedule, device))

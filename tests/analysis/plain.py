"""A plain retiming of a schedule, sample by sample, by the arcs of the second replay, without vectors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pipesched import Schedule
from tests.oracle.reasons import PlainSchedule, retimed

Factor = Callable[[str, int | None], Any]  # of a slot by its text, on a device (None: on a lane)


def makespan(found: PlainSchedule, factor: Factor) -> Any:
    """The makespan, in the user's unit, when each slot takes its cost times its factor."""
    lengths: dict[str, Any] = {
        slot: found.lengths[slot] * factor(slot, device if device < found.devices else None)
        for device, row in enumerate(found.rows)
        for slot in row
    }
    _, end = retimed(found.rows, found.arcs, lengths, {})
    return max(end[slot] for slot in found.on_device) / found.problem.ticks.per_unit


def straggler(schedule: Schedule, slow: int, slowness: Fraction) -> Fraction:
    """The makespan, in the user's unit, when one device takes so many times as long."""
    found = PlainSchedule(schedule)
    return Fraction(makespan(found, lambda _, device: slowness if device == slow else Fraction(1)))

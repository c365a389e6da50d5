"""The strip under a device: its activation memory over time, with the peak and the budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.segment import Segment

from pipesched.core.integers import ceil_div
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.palette import DIM, OVER
from pipesched.render.timescale import TimeScale, number

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"


def memory_strip(schedule: Schedule, device: int, scale: TimeScale, *, colour: bool, ascii_only: bool) -> list[Segment]:
    """Return a mark for each column: the level as a share of the full scale; `!` or red where it is over the budget."""
    levels = column_levels(schedule.memory_steps(device), scale)
    capacity = schedule.problem.capacity_grains[device]
    return level_marks(levels, full_scale(schedule), capacity, colour=colour, ascii_only=ascii_only)


def level_marks(
    levels: Sequence[int], full: int, capacity: int | None = None, *, colour: bool, ascii_only: bool
) -> list[Segment]:
    """Return a mark for each level as a share of `full`; those over `capacity` are red, or `!` without colours."""
    marks = ASCII_LEVELS if ascii_only else BLOCKS
    segments = []
    for level in levels:
        over = capacity is not None and level > capacity
        mark = marks[ceil_div(min(level, full) * (len(marks) - 1), full)] if full else marks[0]
        segments.append(Segment("!" if over and not colour else mark, OVER if over else DIM))
    return segments


def column_levels(steps: Iterable[tuple[int, int]], scale: TimeScale) -> list[int]:
    """Return the highest level within each column; `steps` are the (tick, level) pairs at which the level changes."""
    levels = [0] * scale.columns
    for (time, level), (until, _) in pairwise([*steps, (scale.window.end, 0)]):
        if until <= scale.window.start or time >= scale.window.end or until == time:
            continue
        first = scale.column(max(time, scale.window.start))
        last = min(scale.column_before(until), scale.columns - 1)
        for column in range(first, last + 1):
            if levels[column] < level:
                levels[column] = level
    return levels


def full_scale(schedule: Schedule) -> int:
    """Return the grains of the highest mark: the largest capacity for activations, or without a budget the peak.

    So charts of the same problem under a budget share one scale.
    """
    capacities = [capacity for capacity in schedule.problem.capacity_grains if capacity is not None and capacity > 0]
    return max(capacities or schedule.peak_grains)


def peak_text(schedule: Schedule, device: int) -> str:
    """Return the peak of a device's activations with its capacity, if it has one: `4/6`."""
    scale, capacity = schedule.problem.grains.per_unit, schedule.problem.capacity_grains[device]
    peak = number(schedule.peak_memory[device])
    return peak if capacity is None else f"{peak}/{number(in_units(capacity, scale))}"

"""The strip under a device: its activation memory over time, with the peak and the budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.segment import Segment

from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.palette import DIM, OVER
from pipesched.render.timescale import TimeScale, number

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"


def memory_strip(schedule: Schedule, device: int, scale: TimeScale, *, colour: bool, ascii_only: bool) -> list[Segment]:
    """One column a level, as a share of the chart's full scale; levels over the budget stand out (`!` in letters)."""
    levels = column_levels(schedule.memory_steps(device), scale)
    room = schedule.problem.room()[device]
    return level_marks(levels, full_scale(schedule), room, colour=colour, ascii_only=ascii_only)


def level_marks(
    levels: Sequence[int], full: int, room: int | None = None, *, colour: bool, ascii_only: bool
) -> list[Segment]:
    """A mark for each level as a share of `full`; those over `room` stand out."""
    marks = ASCII_LEVELS if ascii_only else BLOCKS
    segments = []
    for level in levels:
        over = room is not None and level > room
        mark = marks[-(-min(level, full) * (len(marks) - 1) // full)] if full else marks[0]
        segments.append(Segment("!" if over and not colour else mark, OVER if over else DIM))
    return segments


def column_levels(steps: Iterable[tuple[int, int]], scale: TimeScale) -> list[int]:
    """The highest level within each column; `steps` are the (tick, level) pairs at which the level changes."""
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
    """What the highest mark stands for, in grains: the largest room for activations, or without a budget the peak.

    So charts of the same problem under a budget share one scale.
    """
    rooms = [room for room in schedule.problem.room() if room is not None and room > 0]
    return max(rooms or schedule.peak_memory)


def peak_text(schedule: Schedule, device: int) -> str:
    """Peak and limit of a device's activations, for instance `4/6`."""
    scale, room = schedule.problem.memory.scale, schedule.problem.room()[device]
    peak = number(in_units(schedule.peak_memory[device], scale))
    return peak if room is None else f"{peak}/{number(in_units(room, scale))}"

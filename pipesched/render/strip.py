"""The strip under a device: its memory over time, from its static memory up, with the peak and the budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.segment import Segment

from pipesched.core.integers import ceil_div
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule
from pipesched.render.palette import DIM, OVER, break_mark
from pipesched.render.timescale import TimeScale, number

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"


def memory_strip(
    schedule: Schedule, device: int, scales: Sequence[TimeScale], full: int, *, colour: bool, ascii_only: bool
) -> list[Segment]:
    """Return a mark for each column, and one for each break: the activations as a share of `full` grains.

    The mark is `!`, or red, where they are over what the budget leaves beside static memory.
    """
    steps, capacity = list(schedule.memory_steps(device)), schedule.problem.capacity_grains[device]
    marks: list[Segment] = []
    for scale in scales:
        marks += [break_mark(ascii_only=ascii_only)] if marks else []
        marks += level_marks(column_levels(steps, scale), full, capacity, colour=colour, ascii_only=ascii_only)
    return marks


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


def full_scale(schedules: Iterable[Schedule]) -> int:
    """Return the grains of activations of the highest mark: the largest peak of all, at most the largest capacity.

    So charts that are drawn together share a scale on which the shape of their strips shows.
    """
    peaks, capacities = [0], []
    for schedule in schedules:
        peaks += schedule.peak_grains
        capacities += [capacity for capacity in schedule.problem.capacity_grains if capacity is not None]
    most = max(capacities, default=0)
    return min(max(peaks), most) if most > 0 else max(peaks)


def peak_text(schedule: Schedule, device: int) -> str:
    """Return the most that a device holds, static memory included, with its budget, if it has one: `4/6`."""
    budget = schedule.problem.memory.budget
    held = number(schedule.memory[device])
    return held if budget is None else f"{held}/{number(plain(budget[device]))}"

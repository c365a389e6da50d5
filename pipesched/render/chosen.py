"""Which of the schedules of a comparison are drawn as charts, up to which time, and which of their devices."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.render.timescale import number
from pipesched.results.comparison import Comparison
from pipesched.results.outcome import Outcome

FEW = 4  # algorithms that are all drawn; of more, the best ones
BEST = 3
LONGEST = 2  # times the best makespan: what is longer is cut there
MANY_DEVICES, SHOWN_DEVICES = 16, 8


def are_few(comparison: Comparison) -> bool:
    """Return whether all that applies is drawn by default."""
    return len([entry for entry in comparison if entry.applicable]) <= FEW


def drawn(comparison: Comparison, wanted: int | str | None) -> list[Outcome]:
    """Return the schedules to draw: `wanted` of them, the best first; of few ("all": of many) all in their order."""
    if wanted == "all" or (wanted is None and are_few(comparison)):
        return [entry.outcome for entry in comparison if entry.outcome]
    ranked = [entry.outcome for entry in comparison.ranked() if entry.outcome]
    return ranked[: BEST if wanted is None else int(wanted)]


def edge(together: Sequence[Schedule], comparison: Comparison, end: object = None) -> int:
    """Return the tick at which charts end: the last end of all, but at most LONGEST times that of the best.

    Where an `end` is asked for it is the last of all. Ticks of charts that are drawn together are of one length, since
    their problems are the same model.
    """
    best = comparison.best
    ends = [schedule.last_ticks for schedule in together]
    if best is None or best.outcome is None or end is not None:
        return max(ends)
    return min(max(ends), LONGEST * best.outcome.schedule.last_ticks)


def some_devices(devices: int, many: int = MANY_DEVICES) -> list[int] | None:
    """Return a few of more than `many` devices, evenly spread, with the first and the last; None for all of fewer."""
    if devices <= many:
        return None
    return [number * (devices - 1) // (SHOWN_DEVICES - 1) for number in range(SHOWN_DEVICES)]


def not_drawn(schedule: Schedule, until: int | None, rows: Sequence[int] | str | None) -> list[str]:
    """Return in words which parts of a schedule are not drawn; `until` is the tick at which it may be cut."""
    end, scale = schedule.last_ticks, schedule.problem.ticks.per_unit
    remarks = []
    if until is not None and end > until:
        remarks.append(f"cut at {number(in_units(until, scale))}, ends at {number(in_units(end, scale))}")
    shown = schedule.problem.devices if rows is None or isinstance(rows, str) else len(set(rows))
    if shown < schedule.problem.devices:
        remarks.append(f"{shown} of {schedule.problem.devices} devices")
    return remarks

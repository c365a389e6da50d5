"""A plain retiming of a schedule, sample by sample, by the rules that `tests.replay` restates, without vectors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pipesched.pipeline.schedule import Schedule
from tests.replay import inputs, length, name, parts

Factor = Callable[[str, int | None], Any]  # of a slot by its text, on a device (None: on a lane)


def machines_of(schedule: Schedule) -> list[tuple[int | None, list[str]]]:
    """What each device runs, and each lane (whose device is None), in order."""
    plan, index = schedule.plan, schedule.plan.index
    rows: list[tuple[int | None, list[str]]] = [
        (device, [str(slot) for slot in plan.slots(device)]) for device in range(schedule.problem.devices)
    ]
    return rows + [(None, [str(index.op(number)) for number in lane]) for pair in plan.lanes for lane in pair]


def makespan(schedule: Schedule, factor: Factor) -> Any:
    """The makespan, in ticks, when each slot takes its cost times its factor."""
    problem, index = schedule.problem, schedule.plan.index
    rows = machines_of(schedule)
    waits: dict[str, list[str]] = {}
    for before, after in schedule.plan.waits:
        waits.setdefault(str(index.op(after)), []).append(str(index.op(before)))
    planned = {op for _, slots in rows for slot in slots for op in parts(slot)}
    end: dict[str, Any] = {}
    clock: list[Any] = [0] * len(rows)
    coming = [list(slots) for _, slots in rows]
    while any(coming):
        for number, (device, _) in enumerate(rows):
            slots = coming[number]
            while slots:
                ready: list[Any] = [clock[number]]
                for op in parts(slots[0]):
                    needed = [({name(one) for one in some}, lag) for some, lag in inputs(problem, op, planned)]
                    needed += [({before}, 0) for before in waits.get(name(op), ())]
                    for alternatives, lag in needed:
                        there = [end[one] + lag for one in alternatives if one in end]
                        ready.append(there[0] if there else None)
                if None in ready:
                    break
                slot = slots.pop(0)
                clock[number] = max(ready) + length(problem, slot) * factor(slot, device)
                end.update(dict.fromkeys(map(name, parts(slot)), clock[number]))
    return max(clock[: problem.devices])


def straggler(schedule: Schedule, slow: int, slowness: Fraction) -> Fraction:
    """The makespan, in the user's unit, when one device takes so many times as long."""
    ticks = makespan(schedule, lambda _, device: slowness if device == slow else Fraction(1))
    return Fraction(ticks) / schedule.problem.ticks.per_unit

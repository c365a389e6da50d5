"""What devices hold at most, for the check: restated from the rules of memory, the problem and the times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain, compress, product
from operator import add, neg, sub
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.pipeline.check_step_memory import kept_of, step_changes
from pipesched.pipeline.check_times import CheckedTimes, device_of, halves
from pipesched.pipeline.quantities import plain, to_fraction
from pipesched.pipeline.schedule import Schedule

Changes = tuple[Sequence[int], Sequence[int]]  # times in ticks, and what is taken then (less than 0: freed) in grains


class HeldUnits(NamedTuple):
    """What some units of a stage hold, in grains: the activation, what I leaves of it, what F leaves where R follows.

    `cached` are the gradients of keys and values, which the last slice's backward takes of all slices before it.
    """

    whole: Sequence[int]
    retained: Sequence[int]
    kept: Sequence[int]
    cached: Sequence[int]  # empty: there are none


Sizes = Callable[[HeldUnits], Iterable[int]]
TAKEN: Mapping[str, Sizes] = {  # as an operation starts
    "F": lambda held: held.whole,
    "R": lambda held: map(sub, held.whole, held.kept),
    "L": lambda held: held.whole,
    "I": lambda held: (max(left - size, 0) for size, left in zip(held.whole, held.retained, strict=True)),
}
FREED: Mapping[str, Sizes] = {  # as it ends
    "O": lambda held: held.whole,
    "B": lambda held: _with(held.whole, held.cached),
    "I": lambda held: _with((max(size - left, 0) for size, left in zip(*held[:2], strict=True)), held.cached),
    "W": lambda held: held.retained,
}


def _with(sizes: Iterable[int], more: Sequence[int]) -> Iterable[int]:
    return map(add, sizes, more) if more else sizes


def replayed_peaks(schedule: Schedule) -> list[int]:
    """Return the largest activation memory of each device, in grains; at one time, frees count before takes."""
    problem, times = schedule.problem, CheckedTimes(schedule.problem)
    changes: list[list[Changes]] = [[] for _ in range(problem.devices)]
    starts = schedule.start_ticks if min(schedule.start_ticks, default=0) < 0 else ()
    for stage, units in product(range(problem.stages), halves(schedule)):
        look()
        changes[device_of(schedule, stage, units)] += _changes(schedule, times, stage, units, starts)
    for device, columns in step_changes(schedule) if problem.has_step else ():
        changes[device].append(columns)
    return [*map(_highest, changes)]


def _highest(columns: Sequence[Changes]) -> int:
    """Return the highest level that changes lead to, each column of which only takes or only frees."""
    frees_first = sorted(columns, key=lambda column: max(column[1], default=0) > 0)
    times, sizes = ([*chain.from_iterable(part)] for part in zip(*frees_first, strict=True))
    order = sorted(range(len(times)), key=times.__getitem__)  # at one time as they are listed
    return max(accumulate(map(sizes.__getitem__, order)), default=0)


def _changes(
    schedule: Schedule, times: CheckedTimes, stage: int, units: range, planned: Sequence[int]
) -> Iterator[Changes]:
    """Yield what some units of a stage take and free, row by row.

    An operation that is not `planned` has a number below 0 there; where it is empty all are.
    """
    problem, index = schedule.problem, schedule.plan.index
    memory = problem.memory
    starts, ends = schedule.start_ticks, schedule.end_ticks
    rows = {kind: index.row(kind, stage)[units.start : units.stop] for kind in index.letters}
    wholes, helds, kepts, cached = (
        times.held(stage, share)[units.start : units.stop]
        for share in (1, memory.retain[stage], memory.checkpoint[stage], memory.kv)
    )
    if problem.mode == "forward":
        yield _of_planned(planned, rows["F"], starts, wholes)
        yield _of_planned(planned, rows["F"], ends, _freed_by_forwards(wholes, cached, index.slices))
        return
    sliced = index.slices > 1 and any(cached)
    held = HeldUnits(wholes, helds, kepts, _but_last(cached, index.slices) if sliced else ())
    for kind, row in rows.items():
        if kind in TAKEN:
            yield _of_planned(planned, row, starts, TAKEN[kind](held))
        if kind in FREED:
            yield _of_planned(planned, row, ends, map(neg, FREED[kind](held)))
        if kind in "BI" and sliced:
            yield _of_planned(planned, row[index.slices - 1 :: index.slices], starts, _sums(held.cached, index.slices))
    if "R" in rows:
        yield _of_planned(planned, rows["R"], ends, map(sub, kepts, wholes), rows["F"])


def _of_planned(
    planned: Sequence[int], row: range, when: Sequence[int], sizes: Iterable[int], timed: range | None = None
) -> Changes:
    """Return the changes of a row at the times of another one, or of its own; of operations that are planned."""
    at = row if timed is None else timed
    times = when[at.start : at.stop : at.step]
    if not planned:
        return times, sizes if isinstance(sizes, list) else [*sizes]
    is_planned = [number >= 0 for number in planned[row.start : row.stop : row.step]]
    return [*compress(times, is_planned)], [*compress(sizes, is_planned)]


def _freed_by_forwards(wholes: Sequence[int], cached: Sequence[int], slices: int) -> Sequence[int]:
    """Return what forwards alone free: all but keys and values, which the last slice of their microbatch frees."""
    freed = [*map(sub, cached, wholes)]
    for last, kept in zip(range(slices - 1, len(freed), slices), _sums(cached, slices), strict=True):
        freed[last] -= kept
    return freed


def _sums(sizes: Sequence[int], slices: int) -> list[int]:
    """Return the sum over the slices of each microbatch."""
    return [sum(sizes[first : first + slices]) for first in range(0, len(sizes), slices)]


def _but_last(cached: Sequence[int], slices: int) -> list[int]:
    """Return the same of all slices, nothing of the last one."""
    others = [*cached]
    others[slices - 1 :: slices] = [0] * (len(cached) // slices)
    return others


def excesses(schedule: Schedule) -> list[dict[str, int | float]]:
    """Return each device that exceeds its budget, and what it holds: its peak, computed anew, and static memory."""
    memory, placement = schedule.problem.memory, schedule.problem.settled_placement
    if memory.budget is None:
        return []
    held = [Fraction(peak, schedule.problem.grains.per_unit) for peak in replayed_peaks(schedule)]
    for stage, (size, device) in enumerate(zip(memory.static, placement.devices, strict=True)):
        for there in (device, placement.last - device) if placement.mirrored else (device,):
            held[there] += to_fraction(size) + kept_of(schedule.problem, stage)
    for item in schedule.problem.side:
        for device in item.devices:
            held[device] += to_fraction(item.static)
    rows = enumerate(zip(held, map(to_fraction, memory.budget), strict=True))
    return [{"device": at, "memory": plain(most), "budget": plain(limit)} for at, (most, limit) in rows if most > limit]

"""What devices hold at most, for the check: restated from the rules of memory, the problem and the times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product

from pipesched.core.clock import look
from pipesched.pipeline.check_times import CheckedTimes, device_of, halves
from pipesched.pipeline.schedule import Schedule


def replayed_peaks(schedule: Schedule) -> list[int]:
    """Return the largest activation memory of each device, in grains; at one time, frees count before takes."""
    problem, times = schedule.problem, CheckedTimes(schedule.problem)
    changes: list[list[tuple[int, int]]] = [[] for _ in range(problem.devices)]
    for stage, units in product(range(problem.stages), halves(schedule)):
        look()
        changes[device_of(schedule, stage, units)] += _changes(schedule, times, stage, units)
    return [max(accumulate(change for _, change in sorted(events)), default=0) for events in changes]


def _changes(schedule: Schedule, times: CheckedTimes, stage: int, units: range) -> Iterator[tuple[int, int]]:
    """Yield what some units of a stage take and free, as (time, change) in ticks and grains."""
    problem, index = schedule.problem, schedule.plan.index
    memory = problem.memory
    starts, ends = schedule.start_ticks, schedule.end_ticks
    rows = {kind: index.row(kind, stage)[units.start : units.stop] for kind in index.letters}
    wholes, helds, kepts, cached = (
        times.held(stage, share)[units.start : units.stop]
        for share in (1, memory.retain[stage], memory.checkpoint[stage], memory.kv)
    )
    for position, (whole, held, kept) in enumerate(zip(wholes, helds, kepts, strict=True)):
        for kind, when, change in (
            ("F", starts, whole),
            ("R", starts, whole - kept),
            ("O", ends, -whole),
            ("L", starts, whole),
            ("B", ends, -whole),
            ("I", starts, max(held - whole, 0)),
            ("I", ends, min(held - whole, 0)),
            ("W", ends, -held),
        ):
            if kind in rows and change and starts[rows[kind][position]] >= 0:
                yield when[rows[kind][position]], change
        if "R" in rows and starts[rows["R"][position]] >= 0:
            yield ends[rows["F"][position]], kept - whole
    if problem.mode == "forward":
        yield from _forward_frees(ends, rows["F"], wholes, cached, index.slices)
    elif any(cached) and index.slices > 1:
        yield from _cached_gradients(schedule, rows, cached)


def _forward_frees(
    ends: Sequence[int], forwards: range, wholes: Sequence[int], cached: Sequence[int], slices: int
) -> Iterator[tuple[int, int]]:
    """Yield what forwards alone free: all but keys and values, which the last slice of their microbatch frees."""
    for position, number in enumerate(forwards):
        yield ends[number], cached[position] - wholes[position]
        if position % slices == slices - 1:
            yield ends[number], -sum(cached[position - slices + 1 : position + 1])


def _cached_gradients(
    schedule: Schedule, rows: Mapping[str, range], cached: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the gradients of keys and values: taken as the last slice's backward starts, freed as each other ends."""
    slices = schedule.plan.index.slices
    for kind in (kind for kind in "BI" if kind in rows):
        for position, number in enumerate(rows[kind]):
            if schedule.start_ticks[number] < 0:
                continue
            if position % slices == slices - 1:
                yield schedule.start_ticks[number], sum(cached[position - slices + 1 : position])
            else:
                yield schedule.end_ticks[number], -cached[position]

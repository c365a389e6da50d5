"""What devices hold at most, for the check: restated from the rules of memory, the problem and the times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress, product
from operator import add, neg, sub

from pipesched.core.clock import look
from pipesched.pipeline.check_times import CheckedTimes, device_of, halves
from pipesched.pipeline.schedule import Schedule

Changes = tuple[Sequence[int], Sequence[int]]  # times in ticks, and what is taken then (less than 0: freed) in grains


def replayed_peaks(schedule: Schedule) -> list[int]:
    """Return the largest activation memory of each device, in grains; at one time, frees count before takes."""
    problem, times = schedule.problem, CheckedTimes(schedule.problem)
    changes: list[list[Changes]] = [[] for _ in range(problem.devices)]
    for stage, units in product(range(problem.stages), halves(schedule)):
        look()
        changes[device_of(schedule, stage, units)] += _changes(schedule, times, stage, units)
    return [*map(_highest, changes)]


def _highest(columns: Sequence[Changes]) -> int:
    """Return the highest level that changes lead to, each column of which only takes or only frees."""
    frees_first = sorted(columns, key=lambda column: max(column[1], default=0) > 0)
    times, sizes = ([*chain.from_iterable(part)] for part in zip(*frees_first, strict=True))
    order = sorted(range(len(times)), key=times.__getitem__)  # at one time as they are listed
    return max(accumulate(map(sizes.__getitem__, order)), default=0)


def _changes(schedule: Schedule, times: CheckedTimes, stage: int, units: range) -> Iterator[Changes]:
    """Yield what some units of a stage take and free, row by row."""
    problem, index = schedule.problem, schedule.plan.index
    memory = problem.memory
    starts, ends = schedule.start_ticks, schedule.end_ticks
    rows = {kind: index.row(kind, stage)[units.start : units.stop] for kind in index.letters}
    wholes, helds, kepts, cached = (
        times.held(stage, share)[units.start : units.stop]
        for share in (1, memory.retain[stage], memory.checkpoint[stage], memory.kv)
    )
    left = [*map(sub, helds, wholes)]
    cached_gradients = problem.mode != "forward" and index.slices > 1 and any(cached)
    others = _but_last(cached, index.slices) if cached_gradients else [0] * len(wholes)
    for kind, when, sizes in (
        ("F", starts, wholes),
        ("R", starts, map(sub, wholes, kepts)),
        ("O", ends, map(neg, wholes)),
        ("L", starts, wholes),
        ("B", ends, map(neg, map(add, wholes, others))),
        ("I", starts, (max(more, 0) for more in left)),
        ("I", ends, (min(less, 0) - other for less, other in zip(left, others, strict=True))),
        ("W", ends, map(neg, helds)),
    ):
        if kind in rows:
            yield _of_planned(starts, rows[kind], when, sizes)
    if "R" in rows:
        yield _of_planned(starts, rows["R"], ends, map(sub, kepts, wholes), rows["F"])
    if problem.mode == "forward":
        yield _forward_frees(ends, rows["F"], wholes, cached, index.slices)
    for kind in (kind for kind in "BI" if cached_gradients and kind in rows):
        last, count = rows[kind][index.slices - 1 :: index.slices], index.slices
        yield _of_planned(starts, last, starts, [sum(others[at : at + count]) for at in range(0, len(others), count)])


def _of_planned(
    starts: Sequence[int], row: range, when: Sequence[int], sizes: Iterable[int], timed: range | None = None
) -> Changes:
    """Return the changes of a row at the times of another one, or of its own; of operations that the plan has."""
    own, at = starts[row.start : row.stop : row.step], row if timed is None else timed
    columns = (when[at.start : at.stop : at.step], [*sizes])
    if min(own) >= 0:
        return columns
    is_planned = [start >= 0 for start in own]
    return [*compress(columns[0], is_planned)], [*compress(columns[1], is_planned)]


def _forward_frees(
    ends: Sequence[int], forwards: range, wholes: Sequence[int], cached: Sequence[int], slices: int
) -> Changes:
    """Return what forwards alone free: all but keys and values, which the last slice of their microbatch frees."""
    freed = [*map(sub, cached, wholes)]
    for last in range(slices - 1, len(freed), slices):
        freed[last] -= sum(cached[last - slices + 1 : last + 1])
    return ends[forwards.start : forwards.stop], freed


def _but_last(cached: Sequence[int], slices: int) -> list[int]:
    """Return the gradients of keys and values: as the last slice's backward starts they are taken of each other one."""
    others = [*cached]
    others[slices - 1 :: slices] = [0] * (len(cached) // slices)
    return others

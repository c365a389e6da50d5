"""Idle time by classes: each tick in which a device idles has one reason, and one task that is the culprit.

The rules stand in docs/explanation/idle-time.md. Linear in tasks, but for the walks back from what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks


class Idle(str, Enum):
    """The classes of idle time; the values are the keys of the JSON document."""

    WARM_UP = "warm_up"
    WAIT = "wait"
    TRANSFER = "transfer"
    ORDER = "order"
    MEMORY = "memory"
    DRAIN = "drain"
    LATE = "late"
    MESSAGE = "message"
    RUNTIME = "runtime"

    def __str__(self) -> str:
        return self.value


LATE_PARTS = (Idle.MESSAGE, Idle.RUNTIME)  # of what was measured: instead of late


def classes(*, measured: bool = False) -> list[Idle]:
    """Return the classes that add up to the idle time of a device, where that was measured and where it was not."""
    return [idle for idle in Idle if idle not in ((Idle.LATE,) if measured else LATE_PARTS)]


class Gap(NamedTuple):
    """Idle time of a device, in ticks, of one class.

    `culprit` is the task that it waits for, or that could have run; `waiting` is the next task of the device, NOTHING
    behind the last one.
    """

    device: int
    start: int
    end: int
    idle: Idle
    culprit: int
    waiting: int


class Piece(NamedTuple):
    """A part of a gap, before its class has a device: from, to, class (None: a device runs the culprit), culprit."""

    start: int
    end: int
    idle: Idle | None
    culprit: int


Fits = Callable[[int, int], bool]  # whether a task may start at a time, as far as the memory of its device goes


def idle_gaps(tasks: TimedTasks, takes: Sequence[int], fits: Fits) -> Iterator[Gap]:
    """Yield the idle time of every device by class and culprit, by device and start; equal neighbours are joined.

    `takes` says what each task takes at its start; `fits` is asked only for one that takes something.
    """
    for device, order in enumerate(tasks.orders[: tasks.devices]):
        yield from _joined(_gaps_of(tasks, device, order, takes, fits))


def _gaps_of(tasks: TimedTasks, device: int, order: Sequence[int], takes: Sequence[int], fits: Fits) -> Iterator[Gap]:
    """Yield the idle time of a device in order of time."""
    candidates = _candidates(tasks, order, takes)
    clock = 0
    for position, task in enumerate(order):
        start = tasks.starts[task]
        if start > clock:
            walked = Idle.WAIT if position else Idle.WARM_UP
            pieces = _pieces(tasks, task, clock, start, candidates[position + 1], fits)
            for piece in sorted(pieces):
                yield Gap(device, piece.start, piece.end, piece.idle or walked, piece.culprit, task)
        clock = max(clock, tasks.ends[task])
    for piece in sorted(_last_walk(tasks, clock)):
        yield Gap(device, piece.start, piece.end, piece.idle or Idle.DRAIN, piece.culprit, NOTHING)


class GapCandidate(NamedTuple):
    """A task that might run in a gap: when its inputs are there, where it stands, and whether it takes memory."""

    ready: int
    position: int
    task: int
    takes: bool


Candidates = tuple["GapCandidate | None", "GapCandidate | None"]  # one that takes memory, one that takes none


def _candidates(tasks: TimedTasks, order: Sequence[int], takes: Sequence[int]) -> list[Candidates]:
    """Return for each position the candidates from there on: of each sort the least ready, of several the earliest."""
    best: list[GapCandidate | None] = [None, None]
    found: list[Candidates] = [(None, None)] * (len(order) + 2)
    for position in reversed(range(len(order))):
        task = order[position]
        ready = max((tasks.ends[arc.before] + arc.lag for arc in tasks.inputs[task]), default=0)
        sort = 0 if takes[task] else 1
        here = GapCandidate(max(ready, 0), position, task, bool(takes[task]))
        other = best[sort]
        best[sort] = here if other is None else min(here, other)
        found[position] = (best[0], best[1])
    return found


def _pieces(tasks: TimedTasks, task: int, start: int, end: int, candidates: Candidates, fits: Fits) -> Iterator[Piece]:
    """Yield the pieces of the gap before a task: late, order, memory, and what the walk finds in the rest."""
    yield from _late(tasks, task, start, end)
    end = min(end, max(tasks.allowed[task], start))
    early = [candidate for candidate in candidates if candidate is not None and max(start, candidate.ready) < end]
    fitting = [one for one in early if not one.takes or fits(one.task, max(start, one.ready))]
    if fitting:
        best = min(fitting)
        begin = max(start, best.ready)
        yield Piece(begin, end, Idle.ORDER, best.task)
        end = begin
    for candidate in early:
        begin = max(start, candidate.ready)
        if candidate not in fitting and begin < end:
            yield Piece(begin, end, Idle.MEMORY, candidate.task)
            end = begin
    if start < end:
        yield from _walk(tasks, task, tasks.allowed[task], start, end)


def _last_walk(tasks: TimedTasks, start: int) -> Iterator[Piece]:
    """Yield what the walk back from the makespan finds from a time on; it begins with the last delivery."""
    last, makespan = tasks.last, tasks.makespan
    if last == NOTHING:
        return
    yield from _within(tasks.ends[last], makespan, Idle.TRANSFER, last, start, makespan)
    yield from _walk(tasks, last, min(tasks.ends[last], makespan), start, makespan, own=True)


def _walk(tasks: TimedTasks, task: int, time: int, start: int, end: int, *, own: bool = False) -> Iterator[Piece]:
    """Yield what the walk back from a task finds between two times; `time` is where the walk stands.

    With `own` the time of the task itself counts, else the walk begins with what held it back.
    """
    while time > start and task != NOTHING:
        if own:
            is_lane = tasks.machine[task] >= tasks.devices
            yield from _within(tasks.starts[task], time, Idle.TRANSFER if is_lane else None, task, start, end)
            yield from _late(tasks, task, start, end)
            time = tasks.allowed[task]
        arc = tasks.tight[task]
        if arc is None:
            return
        left = time - max(arc.lag, 0)  # a lag below 0 leaves the time to the task before
        yield from _within(left, time, Idle.TRANSFER, arc.before, start, end)
        time, task, own = left, arc.before, True


def _late(tasks: TimedTasks, task: int, start: int, end: int) -> Iterator[Piece]:
    """Yield the time by which a task is late, as far as it lies between two times.

    Where it was measured that is message up to when its message was there, and runtime from then on.
    """
    allowed, begin = tasks.allowed[task], tasks.starts[task]
    if not tasks.arrived:
        yield from _within(allowed, begin, Idle.LATE, task, start, end)
        return
    there = min(max(tasks.arrived[task], allowed), begin)
    yield from _within(allowed, there, Idle.MESSAGE, task, start, end)
    yield from _within(there, begin, Idle.RUNTIME, task, start, end)


def _within(first: int, last: int, idle: Idle | None, culprit: int, start: int, end: int) -> Iterator[Piece]:
    """Yield the part of a piece that lies between two times, if there is one."""
    first, last = max(first, start), min(last, end)
    if first < last:
        yield Piece(first, last, idle, culprit)


def _joined(gaps: Iterator[Gap]) -> list[Gap]:
    """Return the gaps of a device with touching ones of the same class, culprit and waiting task as one."""
    joined: list[Gap] = []
    for gap in gaps:
        if joined and (joined[-1].end, *joined[-1][3:]) == (gap.start, *gap[3:]):
            joined[-1] = joined[-1]._replace(end=gap.end)
        else:
            joined.append(gap)
    return joined

"""The check of messages in queues: which there are, and when each is on its way, restated from the rules.

A message is made by the end of its operation, and starts at the moment at which it stands at the head of every queue
that it is in: nobody delays it. It lasts its latency, and what needs it starts no earlier than it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

from pipesched.core.arrays import Ints, column, np
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import NOTHING_BEFORE, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import to_fraction


class Due(NamedTuple):
    """Messages that are due, as columns: what makes and what needs each, from where to where, and how long it takes."""

    number: Ints
    source: Ints
    target: Ints
    sender: Ints
    receiver: Ints
    lasts: Ints


class TablesOfTimes(Protocol):
    """What this check reads of the tables of a schedule."""

    problem: Problem
    plan: Plan
    index: OpIndex
    start: Ints
    end: Ints
    orders: list[Ints]

    @property
    def runs_on(self) -> Ints:
        """The device of each slot; -1 for what is none."""

    @property
    def due(self) -> Due:
        """The messages that the operations of the plan need."""

    def time(self, ticks: int) -> str:
        """Return ticks in the user's unit, as text."""


def due_messages(tables: TablesOfTimes) -> Due:
    """Return all messages that the operations of a plan need."""
    every = Due(*map(np.concatenate, zip(*_of_passes(tables), *_of_side_work(tables), strict=True)))
    crosses = every.sender != every.receiver
    return every if crosses.all() else Due(*(values[crosses] for values in every))


def _of_passes(tables: TablesOfTimes) -> Iterator[Due]:
    """Yield the messages of all boundaries: outputs, and gradients, whose numbers are those of the sending stage."""
    index, model = tables.index, tables.problem.model
    operations = np.arange(index.passes).reshape(len(index.letters), index.stages, index.units)
    ways = [("SEND_F", operations[index.letters.index("F")], model.there, 0, 1)]
    if index.of_kind("SEND_B"):
        ways.append(("SEND_B", _gradients(tables, operations), model.back, 1, 0))
    for kind, made, lasts, at, to in ways:
        rows = index.of_kind(kind)
        stages = np.flatnonzero(list(map(len, index.rows(kind)))) - at  # of the boundaries
        parts = (made[stages + at], made[stages + to], model.where[stages + at], model.where[stages + to])
        yield Due(np.arange(rows.start, rows.stop), *(part.ravel() for part in (*parts, lasts[stages])))


def _gradients(tables: TablesOfTimes, operations: Ints) -> Ints:
    """Return for each stage and unit the B or the I, which one the plan has."""
    rows = [operations[tables.index.letters.index(kind)] for kind in "BI" if kind in tables.index.letters]
    found: Ints = rows[0] if len(rows) == 1 else np.where(tables.end[rows[0]] >= 0, rows[0], rows[1])
    return found


def _of_side_work(tables: TablesOfTimes) -> Iterator[Due]:
    index, runs_on = tables.index, tables.runs_on
    operations = np.arange(index.passes).reshape(len(index.letters), index.stages, index.units)
    for side, item in enumerate(tables.problem.side):
        outputs, grads = (column(index.row(kind, side)) for kind in ("SEND_E", "SEND_G"))
        own, back = (column(index.row(kind, side)) for kind in "EG")
        lasts = np.full(len(own), tables.problem.step_ticks.side_p2p[side])
        used = column(index.row("F", item.into))[:: index.slices]
        yield Due(outputs, own, used, runs_on[own], runs_on[used], lasts)
        if len(back):
            made = _gradients(tables, operations)[item.into, :: index.slices]
            yield Due(grads, made, back, runs_on[used], runs_on[back], lasts)


def incomplete_messages(tables: TablesOfTimes) -> Iterator[str]:
    """Yield ends of messages that are missing, stand twice, out of place or where none is due."""
    known, plan, index = tables.problem.messages, tables.plan, tables.index
    if known is None:
        if plan.messages:
            yield "the plan has queues of messages; those of the problem are free"
        return
    if len(plan.messages) != tables.problem.devices:
        yield f"the plan has messages of {len(plan.messages)} devices; the problem has {tables.problem.devices}"
        return
    yield from _misplaced_ends(tables)
    place = np.full(index.size + 1, -2)
    place[NOTHING_BEFORE] = -1
    for device, (program, order) in enumerate(zip(plan.messages, tables.orders, strict=True)):
        place[order] = np.arange(len(order))
        behind = place[program.after]
        place[order] = -2
        if len(behind) and behind[0] >= -1 and (behind[1:] >= behind[:-1]).all():
            continue
        for at in np.flatnonzero((behind == -2) | (behind < np.append(-1, behind[:-1]))).tolist():
            name = index.end(int(program.number[at]), int(program.sends[at]))
            yield f"{name} on device {device} stands behind no slot of it, or goes back behind an earlier message"
    for number in tables.due.number[tables.start[tables.due.number] < 0].tolist():
        yield f"{index.op(number)} starts before time 0"


def _misplaced_ends(tables: TablesOfTimes) -> Iterator[str]:
    """Yield ends of messages that are missing, stand twice, or on a device where none is due."""
    index, programs, due = tables.index, tables.plan.messages, tables.due
    first, width = index.first_message, index.size - index.first_message
    homes, stands = np.full(2 * width, -1, dtype=np.int32), np.zeros(2 * width, dtype=bool)
    homes[due.number - first], homes[due.number - first + width] = due.receiver, due.sender
    ends = [one.number - first + one.sends * width for one in programs]
    for device, row in enumerate(ends):
        stands[row] = True
        for at in row[homes[row] != device].tolist():
            yield f"{index.end(at % width + first, at // width)} on device {device} is none of the plan's"
    if not sum(map(len, ends)) == 2 * len(due.number) == np.count_nonzero(stands):
        count = np.bincount(np.concatenate(ends), minlength=2 * width)
        for at in np.flatnonzero((count != 1) & (homes >= 0)).tolist():
            what = f"stands {count[at]} times" if count[at] else "is missing"
            yield f"{index.end(at % width + first, at // width)} {what} on device {homes[at]}"


def wrong_messages(tables: TablesOfTimes) -> Iterator[str]:
    """Yield messages at other times than when they stand at the heads of their queues, and what does not wait."""
    if tables.problem.messages is None:
        return
    due, start, end, index = tables.due, tables.start, tables.end, tables.index
    begins, delivered = start[due.number], end[due.number]
    lasts = delivered - begins
    for at in np.flatnonzero(lasts != due.lasts).tolist():
        yield f"{index.op(int(due.number[at]))} lasts {tables.time(lasts[at])}, not {tables.time(due.lasts[at])}"
    ready = np.zeros(index.size, dtype=end.dtype)
    ready[due.number] = end[due.source]
    for row in _rows(tables, due):
        before, after = row[:-1], row[1:]
        ready[after] = np.maximum(ready[after], end[before])  # each stands in a row once
        if tables.problem.messages.queue == "device":
            is_late = (after < index.first_message) & (before >= index.first_message) & (start[after] < end[before])
            for at in np.flatnonzero(is_late).tolist():
                first, then = (index.op(int(row[at])) for row in (before, after))
                yield f"{then} starts before {first} has ended on the same device"
    for at in np.flatnonzero(begins != ready[due.number]).tolist():
        number = int(due.number[at])
        what = f"{index.op(number)} starts at {tables.time(begins[at])}, not at {tables.time(ready[number])}"
        yield f"{what}, when it is made and at the head of its queues"
    for at in np.flatnonzero(start[due.target] < delivered).tolist():
        one, number = int(due.target[at]), int(due.number[at])
        what = f"{index.op(one)} starts at {tables.time(start[one])}, before {index.op(number)} is delivered"
        yield f"{what} at {tables.time(delivered[at])}"


def _rows(tables: TablesOfTimes, due: Due) -> Iterator[Ints]:
    """Yield what goes one after another, in order: of an edge in that of its sender, else in that of each device."""
    assert tables.problem.messages is not None
    queue, size = tables.problem.messages.queue, tables.index.size
    sender, receiver = np.full(size, -1), np.full(size, -1)
    sender[due.number], receiver[due.number] = due.sender, due.receiver
    for device, (program, order) in enumerate(zip(tables.plan.messages, tables.orders, strict=True)):
        numbers = program.number
        others = np.where(sender[numbers] == device, receiver[numbers], sender[numbers])
        if queue == "edge":
            numbers, others = numbers[sender[numbers] == device], others[sender[numbers] == device]
        if queue in ("edge", "pair"):
            yield from (numbers[others == other] for other in {*others.tolist()})
        elif queue == "rank":
            yield numbers
        else:
            place = np.full(size + 1, -1)
            place[order] = np.arange(len(order))
            yield np.insert(numbers, np.searchsorted(place[program.after], np.arange(len(order))), order)


def buffer_changes(tables: TablesOfTimes) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield what receive buffers take and free, as device, time and size: of messages between stages alone.

    Each is taken at time 0, or where messages occupy devices as what stands before it there ends.
    """
    problem, index = tables.problem, tables.index
    if problem.messages is None or not problem.memory.receive:
        return
    due = tables.due
    issued = np.zeros(index.size, dtype=tables.end.dtype)
    if problem.messages.queue == "device":
        receiver = dict(zip(due.number.tolist(), due.receiver.tolist(), strict=True))
        for device, row in enumerate(_rows(tables, due)):
            for before, after in pairwise(row.tolist()):
                if receiver.get(after) == device:
                    issued[after] = tables.end[before]
    each = to_fraction(problem.memory.receive) * problem.grains.per_unit
    factors = [1] * problem.microbatches if problem.sizes is None else map(to_fraction, problem.sizes.message)
    sizes = column([int(each * factor * to_fraction(share)) for factor in factors for share in problem.slices.tokens])
    own = np.maximum(due.source, due.target) < index.passes
    there, size = due.receiver[own], sizes[due.target[own] % index.units]
    yield there, issued[due.number[own]], size
    yield there, tables.end[due.target[own]], -size

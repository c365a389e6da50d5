"""Chrome's trace event format: a schedule for Perfetto (ui.perfetto.dev) and chrome://tracing. Write only.

`document` makes it: threads, slots, flows, counters. A slot is what a device runs at a time, an operation or a pair.
Threads are devices and, below them, their network and transfer lanes. Complete events (X) are slots and what lanes
move; counters (C) are the memory of a device that comes and goes. Each activation or gradient that travels, to another
device or to host memory and back, is a flow: an arrow from an event "s" to an event "f". A viewer binds those two to
the slice around them, so they stand a tenth of a slot inside, where no neighbour touches.
Field by field: "Trace TraceEvent Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import SideItem
from pipesched.pipeline.problem.kinds import ALL_KINDS, GRADIENT_LETTERS, KINDS, Resource, Scope
from pipesched.pipeline.problem.ops import Op, Pair, Slot
from pipesched.pipeline.problem.quantities import TIME, in_units
from pipesched.render.scene import NETWORK_LANE, lane_rows
from pipesched.results.outcome import Outcome
from pipesched.schedulers.registry import called

PROCESS = 1  # viewers keep process and thread 0 for the idle task
COLOURS = {  # a kind's name among the viewer's reserved colours; Perfetto colours by the name without its digits
    "F": "rail_response", "B": "rail_idle", "I": "thread_state_iowait", "W": "rail_load", "R": "rail_animation",
    "O": "background_memory_dump", "L": "light_memory_dump", "F&B": "detailed_memory_dump",
    "UNSHARD": "yellow", "REDUCE_GRAD": "terrible", "REDUCE_TIED": "bad", "OPTIMIZER": "grey",
    "E": "good", "G": "olive", **{f"{end}_{what}": "cq_build_running" for end in ("SEND", "RECV") for what in "FBEG"},
}  # fmt: skip
OTHER = "generic_work"
ACTIVATION, GRADIENT, OFFLOAD, HOSTED, LOAD = "activation", "gradient", "offload", "in host memory", "load"
FLOWS = {ACTIVATION: "p2p", GRADIENT: "p2p", OFFLOAD: "host", HOSTED: "host", LOAD: "host"}
UNNAMED = Fraction(1000)  # a unit without a known label is drawn as a millisecond
TraceEvent = dict[str, Any]
Microseconds = Callable[[int | Fraction], int | float]  # of ticks
Thread = tuple[str, Sequence[int]]  # a row of the viewer: its name, and the numbers of the operations that it runs


class Slice(NamedTuple):
    """One slot, transfer or network operation on a thread, in ticks."""

    slot: Slot
    thread: int
    start: int
    end: int


def document(outcome: Outcome) -> dict[str, Any]:
    """Return the trace in its object form, with events in the order of their times, in microseconds."""
    problem = outcome.schedule.problem
    known = TIME.unit_of(problem.time_unit)
    unit = UNNAMED if known is None else TIME.units[known] / TIME.units["us"]

    def at(ticks: int | Fraction) -> int | float:
        time = ticks * unit / problem.ticks.per_unit  # exact until it becomes a float
        return in_units(time.numerator, time.denominator)

    schedule, slices = outcome.schedule, list[Slice]()
    names = [_metadata("process_name", 0, {"name": f"{called(outcome.algorithm)}  {problem.name}".rstrip()})]
    for number, (name, order) in enumerate(_threads(schedule), 1):  # viewers keep thread 0 for the idle task
        names.append(_metadata("thread_name", number, {"name": name}))
        names.append(_metadata("thread_sort_index", number, {"sort_index": number - 1}))
        for task in order:
            times = schedule.start_ticks[task], schedule.end_ticks[task]
            slices.append(Slice(schedule.plan.slot(task), number, *times))
    events = [_slot_event(piece, at) for piece in slices]
    events += _flows(slices, at, problem.side)
    digits = len(str(problem.devices - 1))
    for device in range(problem.devices):
        for level, steps in groupby(schedule.memory_steps(device), key=itemgetter(1)):
            name = f"memory of device {device:0{digits}}"  # viewers sort counters by name
            held = {problem.memory.unit or "memory": in_units(level, problem.grains.per_unit)}
            events.append({"name": name, "ph": "C", "ts": at(next(steps)[0]), "pid": PROCESS, "args": held})
    events.sort(key=lambda event: event["ts"])  # stable: a slice stands before what binds to it
    return {
        "traceEvents": [*names, *events],
        "displayTimeUnit": "ms",
        "otherData": {
            "algorithm": outcome.algorithm,
            "time_unit": problem.time_unit,
            "microseconds_per_time_unit": in_units(unit.numerator, unit.denominator),
            "memory_unit": problem.memory.unit,
        },
    }


def _threads(schedule: Schedule) -> Iterator[Thread]:
    """Yield the devices, each followed by its network lane, its messages and its transfer lanes."""
    for device, order in enumerate(schedule.plan.orders):
        yield schedule.problem.device_name(device), order
        for name, row in lane_rows(schedule, device):
            yield f"device {device} {'network' if name == NETWORK_LANE else name}", row.order


def _metadata(name: str, thread: int, args: dict[str, Any]) -> TraceEvent:
    return {"name": name, "ph": "M", "pid": PROCESS, "tid": thread, "args": args}


def _slot_event(piece: Slice, at: Microseconds) -> TraceEvent:
    forward, backward = piece.slot if isinstance(piece.slot, Pair) else (piece.slot, None)
    kind = forward.kind if backward is None else "F&B"
    args = {"op": str(piece.slot), "kind": kind, **_unit(forward, "")}
    if backward is not None:
        args |= _unit(backward, "backward_")
    return {
        "name": str(piece.slot),
        "cat": kind,
        "ph": "X",
        "ts": at(piece.start),
        "dur": at(piece.end - piece.start),
        "pid": PROCESS,
        "tid": piece.thread,
        "cname": COLOURS.get(kind, OTHER),
        "args": args,
    }


def _unit(op: Op, prefix: str) -> dict[str, int]:
    """Return what an operation is of: stage (or item of side work), microbatch (or turn of a gather), and slice."""
    scope = ALL_KINDS[op.kind].scope
    where = "side" if scope is Scope.SIDE else "stage"
    number = {} if op.number is None else {"turn" if scope is Scope.TURN else "microbatch": op.number}
    of = {where: op.stage, **number, **({"slice": op.slice} if op.is_sliced else {})}
    return {f"{prefix}{key}": number for key, number in of.items()}


def _flows(slices: list[Slice], at: Microseconds, side: Sequence[SideItem]) -> Iterator[TraceEvent]:
    """Yield an arrow from each operation to each one on another device or lane that waits for its result."""
    by_op = {op: piece for piece in slices for op in (piece.slot if isinstance(piece.slot, Pair) else (piece.slot,))}
    arrows = (
        (flow, by_op[op], by_op[target])
        for op in by_op
        for flow, target in _receivers(op, side)
        if target in by_op and by_op[op].thread != by_op[target].thread
    )
    for number, (flow, sender, receiver) in enumerate(arrows):
        shared = {"name": flow, "cat": FLOWS[flow], "id": number, "pid": PROCESS}
        departure = sender.end - Fraction(sender.end - sender.start, 10)
        arrival = receiver.start + Fraction(receiver.end - receiver.start, 10)
        yield {**shared, "ph": "s", "ts": at(departure), "tid": sender.thread}
        yield {**shared, "ph": "f", "bp": "e", "ts": at(arrival), "tid": receiver.thread}


def _receivers(op: Op, side: Sequence[SideItem]) -> Iterator[tuple[str, Op]]:
    """Yield what may wait for an operation, and what travels to it: the other way round, `needs` of each kind."""
    for letter, kind in KINDS.items():
        for need in kind.needs:
            if need.letter == op.kind and op.stage >= need.stage and not need.slice and need.join is None:
                flow = GRADIENT if op.kind in GRADIENT_LETTERS else ACTIVATION
                if KINDS[op.kind].is_transfer:
                    flow = HOSTED if kind.is_transfer else LOAD
                flow = OFFLOAD if kind.resource is Resource.D2H else flow
                yield flow, op._replace(stage=op.stage - need.stage, kind=letter)
    if op.kind == "E":  # side work, an encoder say, feeds the stage `into`, whose gradient comes back as G
        yield ACTIVATION, op._replace(stage=side[op.stage].into, kind="F")
    if op.kind in GRADIENT_LETTERS:
        items = (number for number, item in enumerate(side) if item.into == op.stage)
        yield from ((GRADIENT, op._replace(stage=number, kind="G", slice=0)) for number in items)

"""Chrome's trace event format: a schedule for Perfetto (ui.perfetto.dev) and chrome://tracing. Write only.

Threads are devices and, below them, their transfer lanes; complete events (X) are slots and transfers; counters (C) are
the activation memory of a device. Each activation or gradient that travels, to another device or to host memory and
back, is a flow: an arrow from an event "s" to an event "f". A viewer binds those two to the slice around them, so they
stand a tenth of a slot inside, where no neighbour touches.
Field by field: "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.outcome import Outcome
from pipesched.pipeline.ops import Op, Pair, Slot
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule

PROCESS = 1  # viewers keep process and thread 0 for the idle task
COLOURS = {  # a kind's name among the viewer's reserved colours; Perfetto colours by the name without its digits
    "F": "rail_response",
    "B": "rail_idle",
    "I": "thread_state_iowait",
    "W": "rail_load",
    "R": "rail_animation",
    "O": "background_memory_dump",
    "L": "light_memory_dump",
    "F&B": "detailed_memory_dump",
}
FLOWS = {"activation": "p2p", "gradient": "p2p", "offload": "host", "in host memory": "host", "load": "host"}
MICROSECONDS = {  # in a time unit, by the labels that people write
    **dict.fromkeys(("s", "sec", "second", "seconds"), Fraction(1_000_000)),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), Fraction(1000)),
    **dict.fromkeys(("us", "µs", "μs", "usec", "microsecond", "microseconds"), Fraction(1)),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), Fraction(1, 1000)),
}
UNNAMED = Fraction(1000)  # a unit without a known label is drawn as a millisecond
Event = dict[str, Any]


class Thread(NamedTuple):
    """A row of the viewer: what it is called, and what it runs, by operation number."""

    name: str
    order: Sequence[int]


class Slice(NamedTuple):
    """One slot or transfer on a thread, in ticks."""

    slot: Slot
    thread: int
    start: int
    end: int


class Clock(NamedTuple):
    """From ticks to microseconds."""

    ticks_per_unit: int
    unit: Fraction

    def at(self, ticks: int | Fraction) -> int | float:
        """The time of a tick in microseconds, exact until it becomes a float."""
        time = ticks * self.unit / self.ticks_per_unit
        return in_units(time.numerator, time.denominator)


def document(outcome: Outcome) -> dict[str, Any]:
    """The trace in its object form, events in the order of their times."""
    problem = outcome.schedule.problem
    unit = MICROSECONDS.get(problem.time_unit.strip().lower(), UNNAMED)
    clock = Clock(problem.costs.scale, unit)
    threads = list(_threads(outcome.schedule))
    slices = list(_slices(outcome.schedule, threads))
    events = [_slot_event(one, clock) for one in slices]
    events += _flows(slices, clock)
    events += _counters(outcome.schedule, clock)
    events.sort(key=lambda event: event["ts"])  # stable: a slice stands before what binds to it
    return {
        "traceEvents": [*_names(outcome, threads), *events],
        "displayTimeUnit": "ms",
        "otherData": {
            "algorithm": outcome.algorithm,
            "time_unit": problem.time_unit,
            "microseconds_per_time_unit": in_units(unit.numerator, unit.denominator),
            "memory_unit": problem.memory.unit,
        },
    }


def _threads(schedule: Schedule) -> Iterator[Thread]:
    """The devices, each with the lanes that it is the last to use below it; a lane that moves nothing is left out."""
    problem, plan = schedule.problem, schedule.plan
    for device, order in enumerate(plan.orders):
        yield Thread(f"device {device}", order)
        users = problem.sharing(problem.lane(device))
        if plan.lanes and device == users[-1]:
            name = f"device {device}" if len(users) == 1 else f"devices {users[0]}-{users[-1]}"
            out, back = plan.lanes[problem.lane(device)]
            yield from (Thread(f"{name} {way}", moved) for way, moved in (("D2H", out), ("H2D", back)) if moved)


def _names(outcome: Outcome, threads: Sequence[Thread]) -> Iterator[Event]:
    """What the process and its threads are called, and in which order they stand."""
    problem = outcome.schedule.problem
    yield _metadata("process_name", 0, {"name": f"{outcome.algorithm}  {problem.name}".rstrip()})
    for place, thread in enumerate(threads):
        yield _metadata("thread_name", place + 1, {"name": thread.name})
        yield _metadata("thread_sort_index", place + 1, {"sort_index": place})


def _metadata(name: str, thread: int, args: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": PROCESS, "tid": thread, "args": args}


def _slices(schedule: Schedule, threads: Sequence[Thread]) -> Iterator[Slice]:
    """Everything that the threads run; viewers keep thread 0 for the idle task."""
    for number, thread in enumerate(threads, 1):
        for task in thread.order:
            yield Slice(schedule.plan.slot(task), number, schedule.starts[task], schedule.ends[task])


def _slot_event(one: Slice, clock: Clock) -> Event:
    forward, backward = one.slot if isinstance(one.slot, Pair) else (one.slot, None)
    kind = forward.kind if backward is None else "F&B"
    args = {"op": str(one.slot), "kind": kind, "stage": forward.stage, "microbatch": forward.microbatch}
    if backward is not None:
        args |= {"backward_stage": backward.stage, "backward_microbatch": backward.microbatch}
    return {
        "name": str(one.slot),
        "cat": kind,
        "ph": "X",
        "ts": clock.at(one.start),
        "dur": clock.at(one.end - one.start),
        "pid": PROCESS,
        "tid": one.thread,
        "cname": COLOURS[kind],
        "args": args,
    }


def _flows(slices: list[Slice], clock: Clock) -> Iterator[Event]:
    """An arrow from each operation to the one on another device or lane that waits for its result."""
    where = {op: one for one in slices for op in (one.slot if isinstance(one.slot, Pair) else (one.slot,))}
    arrows = (
        (flow, where[op], where[target])
        for op in where
        for flow, target in _receivers(op)
        if target in where and where[op].thread != where[target].thread
    )
    for number, (flow, sender, receiver) in enumerate(arrows):
        shared = {"name": flow, "cat": FLOWS[flow], "id": number, "pid": PROCESS}
        leaves, comes = _inside(sender, Fraction(9, 10)), _inside(receiver, Fraction(1, 10))
        yield {**shared, "ph": "s", "ts": clock.at(leaves), "tid": sender.thread}
        yield {**shared, "ph": "f", "bp": "e", "ts": clock.at(comes), "tid": receiver.thread}


def _receivers(op: Op) -> Iterator[tuple[str, Op]]:
    """What may wait for an operation: the neighbour stages (an activation goes to the next, a gradient to the one
    before), and the way of an activation over host memory to its backward.
    """
    stage, kind, microbatch = op
    if kind == "F":
        yield "activation", Op(stage + 1, "F", microbatch)
        yield "offload", Op(stage, "O", microbatch)
    elif kind == "O":
        yield "in host memory", Op(stage, "L", microbatch)
    elif kind == "L":
        yield from (("load", Op(stage, backward, microbatch)) for backward in "BI")
    elif kind in "BI":
        yield from (("gradient", Op(stage - 1, backward, microbatch)) for backward in "BI")


def _inside(one: Slice, part: Fraction) -> Fraction:
    return one.start + (one.end - one.start) * part


def _counters(schedule: Schedule, clock: Clock) -> Iterator[Event]:
    """The activation memory of each device, at each of its changes."""
    memory, digits = schedule.problem.memory, len(str(schedule.problem.devices - 1))
    for device in range(schedule.problem.devices):
        shown = -1
        for time, level in schedule.memory_steps(device):
            if level == shown:
                continue
            shown = level
            yield {
                "name": f"memory of device {device:0{digits}}",  # viewers sort counters by name
                "ph": "C",
                "ts": clock.at(time),
                "pid": PROCESS,
                "args": {memory.unit or "memory": in_units(level, memory.scale)},
            }

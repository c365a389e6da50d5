"""The messages of a measured step: how long they took and stood behind others, and which queue of them fits best.

An end of a message that waits for the other one is longer, so a message lasts as long as the shorter of its ends. It
is there when they ended, in the middle where clocks differ a little. The step is retimed with each queue: operations
and messages last as long as they did, in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipesched.analysis.measured.ranges import PER_UNIT
from pipesched.core.arrays import Ints, np
from pipesched.core.timing import earliest_times
from pipesched.errors import Deadlock, InvalidSchedule
from pipesched.pipeline.lowering import Sent, with_message_tasks
from pipesched.pipeline.message_programs import with_queues
from pipesched.pipeline.ops import Op, other_end
from pipesched.pipeline.plan import NOTHING_BEFORE, MessageProgram, Plan
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import EDGE, FREE, QUEUES, Messages

ALIKE = 1.1  # times the least difference of starts: up to this, ranks that are late explain what queues differ by


class DeviceMessages(NamedTuple):
    """How many `messages` a device sends and receives, and their times in the user's unit.

    `time` is the mean of what they took, `planned` of what the plan says (None without one). `behind` is how long they
    stood in all, from when each was made until it began.
    """

    messages: int
    time: int | float
    planned: int | float | None
    behind: int | float


class QueueFit(NamedTuple):
    """The step retimed with a queue: its makespan, and the mean difference `off` of starts from the measured ones.

    Both are None where messages would wait for each other in a circle.
    """

    queue: str
    makespan: int | float | None
    off: int | float | None


class MeasuredMessages(NamedTuple):
    """The messages of a step by device, the step with each queue, and the queues that fit it best, alike."""

    devices: Sequence[DeviceMessages]
    queues: Sequence[QueueFit]
    fits: Sequence[str]


def messages_of(
    ends: Mapping[Op, tuple[int, int]], first: int, schedule: Schedule, planned: Schedule | None
) -> MeasuredMessages:
    """Return what the ends of messages, when each began and ended, say of a schedule that began at `first`.

    Raises InvalidSchedule where a message was not recorded, or only when it was issued.
    """
    sent, per_unit = Sent(schedule.problem, schedule.plan), schedule.problem.ticks.per_unit
    there, (begin, lasts) = np.flatnonzero(sent.is_run), np.zeros((2, len(sent.is_run)), dtype=np.int64)
    for at in there.tolist():
        op = sent.index.op(at + sent.index.first_message)
        known = [ends[one] for one in (op, other_end(op)) if one in ends]
        if not known or known[-1][1] < known[0][0]:
            why = "{1} ended before {0} began, so was only issued" if known else "the trace lacks {} and {}"
            raise InvalidSchedule(f"messages are not compared: {why.format(op, other_end(op))}")
        lasts[at] = min(end - start for start, end in known) * per_unit // PER_UNIT
        begin[at] = (sum(end for _, end in known) // len(known) - first) * per_unit // PER_UNIT - lasts[at]
    due = None if planned is None else (Sent(planned.problem, planned.plan).length, planned.problem.ticks.per_unit)
    behind = np.maximum(begin - schedule.times.end[sent.source], 0)
    devices, rows, there = [], [], there[np.argsort(begin[there], kind="stable")]
    for device, line in enumerate(schedule.plan.own_lines[: schedule.problem.devices]):
        own = there[(sent.sender[there] == device) | (sent.receiver[there] == device)]
        after = np.append(line, NOTHING_BEFORE)[np.searchsorted(schedule.times.start[line], begin[own]) - 1]
        sends = (sent.sender[own] == device).astype(np.int64)
        rows.append(MessageProgram(own + sent.index.first_message, sends, after, 0 * own))
        took, stood = in_units(int(lasts[own].sum()), len(own) * per_unit), in_units(int(behind[own].sum()), per_unit)
        mean = None if due is None else in_units(int(due[0][own].sum()), len(own) * due[1])
        devices.append(DeviceMessages(len(own), took, mean, stood))
    queues = [_retimed(queue, sent, schedule, sent.programs(rows), begin, lasts) for queue in QUEUES]
    most = ALIKE * min(one.off for one in queues if one.off is not None)
    fits = [one.queue for one in queues if one.off is not None and one.off <= most]
    return MeasuredMessages(devices, queues, fits)


def _retimed(queue: str, sent: Sent, schedule: Schedule, plan: Plan, begin: Ints, lasts: Ints) -> QueueFit:
    issued = with_queues(schedule.problem, Messages(EDGE if queue == FREE else queue))
    graph = with_message_tasks(schedule.graph, issued, plan)
    graph = graph.changed(durations=np.append(schedule.graph.duration, lasts))
    there = np.flatnonzero(sent.is_run) + sent.index.first_message
    try:
        times = earliest_times(graph, [*plan.own_lines, *there[:, None]] if queue == FREE else plan.lines)
    except Deadlock:
        return QueueFit(queue, None, None)
    ran = np.concatenate([*plan.own_lines[: schedule.problem.devices], there])
    off = np.abs(times.start[ran] - np.append(schedule.times.start[: sent.index.first_message], begin)[ran])
    per_unit, slots = schedule.problem.ticks.per_unit, ran[: -len(there)]
    makespan = int(times.end[slots].max() - times.start[slots].min())
    return QueueFit(queue, in_units(makespan, per_unit), in_units(int(off.sum()), len(ran) * per_unit))

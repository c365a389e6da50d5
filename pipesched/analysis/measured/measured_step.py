"""The problem of a measured step, with the medians as costs and the memory of the plan, and its schedule.

In the schedule operations stand at the times, and have the lengths, that they had.

An end of a message that waits for the other one is longer, so a message lasts as long as the shorter of its ends. It
is there when they ended, in the middle where clocks differ a little. The step is retimed with each queue: operations
and messages last as long as they did, in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import gcd
from typing import Any, NamedTuple

from pipesched.analysis.measured.clocks import AlignedStep, Transit, is_transfer
from pipesched.analysis.measured.files import Steps
from pipesched.analysis.measured.ranges import PER_UNIT, ops_of
from pipesched.core.arrays import Ints, np
from pipesched.core.timing import UNTIMED, earliest_times
from pipesched.errors import Deadlock, InvalidSchedule
from pipesched.pipeline.plan.lowering import Sent, with_message_tasks
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, MessageProgram, Plan, plan_from_slots
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import EDGE, FREE, QUEUES, Messages
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.costs import entries_of
from pipesched.pipeline.problem.kinds import KINDS, TRANSFER_LETTERS
from pipesched.pipeline.problem.ops import Op, other_end
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, in_order, typical
from pipesched.pipeline.problem.quantities import Exact, canonical, in_units, plain, ticks_per_unit, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY, TRAIN
from pipesched.results.outcome import Quartiles

LETTER_OF = {kind.cost: letter for letter, kind in KINDS.items()}
TRANSFERS = ("offload", "reload")
Lengths = Mapping[tuple[str, int], Quartiles]  # of the operations of a kind on a stage
Cost = list[Fraction | None]  # of each stage; None where nothing was measured


class MeasuredLatency(NamedTuple):
    """How long messages took at a boundary between stages, in the unit of the trace, from the sender's end on.

    `forward` and `backward` are medians of those whose receiver waited for them from before that end, None where it
    waited for none; together they are `samples`. `p2p` is half of their sum, which no difference of clocks changes, or
    the one there is; 0 where there is none, and instead of less than that.
    """

    boundary: int
    samples: int
    forward: int | float | None
    backward: int | float | None
    p2p: Exact


def latencies(found: Iterable[Transit], boundaries: int) -> list[MeasuredLatency]:
    """Return the latency at each boundary."""
    ticks: dict[tuple[int, bool], list[int]] = {}
    for way, took in found:
        ticks.setdefault(way, []).append(took)
    rows = []
    for boundary in range(boundaries):
        both = [sorted(ticks.get((boundary, forward), ())) for forward in (True, False)]
        medians = [quantile(times, Fraction(1, 2)) / PER_UNIT if times else None for times in both]
        known = [time for time in medians if time is not None]
        p2p = max(sum(known, Fraction(0)) / max(len(known), 1), Fraction(0))
        forward, backward = (None if time is None else plain(time) for time in medians)
        rows.append(MeasuredLatency(boundary, sum(map(len, both)), forward, backward, plain(p2p)))
    return rows


def quantile(ordered: Sequence[int], part: Fraction) -> Fraction:
    """Return the value below which a part of ordered values lies: between two of them linearly."""
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def measured_problem(
    lengths: Lengths,
    steps: Steps,
    placement: Placement,
    unit: str,
    plan: Problem | None,
    of_each: Sequence[Lengths] | None = None,
) -> Problem:
    """Return the problem. What was not measured is that of the plan, else nothing.

    A stage that ran its backward whole has half of it as each half. Where the plan says that microbatches differ,
    `of_each` has the lengths of each of them, and costs are tables; pairs then have none of their own.
    """
    kinds = {letter for letter, _ in lengths}
    if of_each is None or plan is None:
        given: dict[str, Any] = _costs(lengths, kinds, steps.stages, plan)
    else:
        columns = [
            _costs(own, kinds - {"overlap"}, steps.stages, typical(in_order(plan, [microbatch] * plan.microbatches)))
            for microbatch, own in enumerate(of_each)
        ]
        given = {key: [*zip(*(column[key] for column in columns), strict=True)] for key in columns[0]}
    problem = make_problem(
        devices=placement.last + 1,
        stages=steps.stages,
        microbatches=steps.microbatches,
        placement=placement,
        name="" if plan is None else plan.name,
        time_unit=unit,
        mode=FORWARD_ONLY if {*steps.letters} == {"F"} else TRAIN,
        **given,
    )
    if plan is None or plan.stages != steps.stages or plan.devices != problem.devices:
        return problem
    memory = plan.memory
    if plan.sizes is not None:  # what each microbatch leaves
        factors = [*map(to_fraction, plan.sizes.activation)]
        activation: Any = tuple(
            tuple(canonical(size * by) for size, by in zip(entries_of(entry, plan.microbatches), factors, strict=True))
            for entry in memory.activation
        )
        memory = replace(memory, activation=activation)
    return replace(problem, memory=memory, lanes=plan.lanes)


def _costs(lengths: Lengths, kinds: Set[str], stages: int, plan: Problem | None) -> dict[str, list[Fraction]]:
    """Return the costs of the stages by the parameters of make_problem, as medians of lengths; `kinds` ran."""
    medians = {kind: to_fraction(values.median) for kind, values in lengths.items()}

    def measured(cost: str) -> Cost:
        return [medians.get((LETTER_OF.get(cost, cost), stage)) for stage in range(stages)]

    def planned(key: str) -> Sequence[Any] | None:
        return None if plan is None else getattr(plan.costs, key)

    forward, whole = measured("forward"), measured("backward")
    inputs, weights = measured("backward_input"), measured("backward_weight")
    pairs = measured("overlap")
    forwards = _filled(forward, planned("forward"), _halves(pairs))
    given = {
        "forward": forwards,
        "recompute": _filled(measured("recompute"), planned("recompute"), forwards),
        "p2p": [Fraction(0)] * (stages - 1),
    }
    if not kinds.isdisjoint("IW"):
        halves = [None if one is None else one / 2 for one in whole]
        given["backward_input"] = _filled(inputs, None, _filled(halves, planned("backward_input"), []))
        given["backward_weight"] = _filled(weights, None, _filled(halves, planned("backward_weight"), []))
        backwards = [sum(both, Fraction(0)) for both in zip(*[*given.values()][-2:], strict=True)]
        if "B" in kinds:
            given["backward"] = backwards = _filled(whole, None, backwards)
    else:
        given["backward"] = backwards = _filled(whole, planned("backward"), _halves(pairs))
    if "overlap" in kinds:
        given["overlap"] = _filled(pairs, None, [f + b for f, b in zip(forwards, backwards, strict=True)])
    if not kinds.isdisjoint(TRANSFER_LETTERS):
        given |= {key: _filled(measured(key), planned(key), []) for key in TRANSFERS}
    return given


def _filled(
    values: Sequence[Fraction | None], plan: Sequence[Exact] | None, others: Sequence[Fraction]
) -> list[Fraction]:
    """Return values, where there is none the plan's, else the other one, else nothing."""
    spare = [*map(to_fraction, plan)] if plan and len(plan) == len(values) else others or [Fraction(0)] * len(values)
    return [other if value is None else value for value, other in zip(values, spare, strict=True)]


def _halves(pairs: Cost) -> list[Fraction]:
    """Return half of what pairs took, for stages that run nothing alone."""
    return [Fraction(0) if one is None else one / 2 for one in pairs]


def measured_schedule(problem: Problem, step: AlignedStep, resolution: int = 1, others: Iterable[int] = ()) -> Schedule:
    """Return the schedule, from time 0 on, in ticks that are as fine as its times, others and the problem's costs need.

    At least `resolution` of them are a unit.
    """
    ranges = [*chain(*step.ranges)]
    first = min(one.start for one in ranges)
    times = chain.from_iterable((one.start, one.end, *((one.wait.end,) if one.wait else ())) for one in ranges)
    coarsest = gcd(PER_UNIT, *(time - first for time in chain(times, others)))
    scale = ticks_per_unit([Fraction(coarsest, PER_UNIT)])
    problem = replace(problem, costs=replace(problem.costs, resolution=max(scale, resolution)))
    rows = [[one.slot for one in row if not is_transfer(one.slot)] for row in step.ranges]
    moves: list[list[Op]] = []
    if any(is_transfer(one.slot) for one in ranges):
        moves = [[op for one in row if is_transfer(one.slot) for op in ops_of(one.slot)] for row in step.ranges]
    begin = {op: one.start for one in ranges for op in ops_of(one.slot)}
    lanes = [sorted(lane, key=begin.__getitem__) for lane in moves]
    plan = plan_from_slots(rows, problem.stages, problem.microbatches, lanes)
    starts, ends, arrived = ([UNTIMED] * plan.index.size for _ in range(3))
    for one in ranges:
        for op in ops_of(one.slot):
            number = plan.index.number(op)
            starts[number] = (one.start - first) * problem.ticks.per_unit // PER_UNIT
            ends[number] = (one.end - first) * problem.ticks.per_unit // PER_UNIT
            if one.wait is not None:
                arrived[number] = max(one.wait.end - first, 0) * problem.ticks.per_unit // PER_UNIT
    return Schedule(problem, plan, starts, ends, own_lengths=True, arrival_ticks=arrived)


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

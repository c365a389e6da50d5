"""A measured timeline: the typical step of a run as a schedule, and its costs as a config.

`read_traces`, behind `Timeline`, is where one begins. `files` and `clocks` read the steps on one clock. From the median
step `measured_problem` makes a problem of median costs, with the memory of the plan. `measured_schedule` has operations
at the times that they had. `latencies` and `messages_of` tell of messages. `config_text`, last, writes the problem.

A message is recorded as its SEND and its RECV. The one that waits for the other is longer, so a message lasts as long
as the shorter, and ends when both do, in the mean where clocks differ. `_retimed` times the step with each queue:
operations and messages last as long as they did, in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import gcd
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.analysis.explain import Explanation, explain
from pipesched.analysis.measured.clocks import Aligned, AlignedStep, Transit, aligned, is_transfer, transits
from pipesched.analysis.measured.files import Steps, placement_of, read_run, steps_of
from pipesched.analysis.measured.ranges import PER_UNIT, Machine, ops_of
from pipesched.checks import require_type
from pipesched.core.arrays import Ints, np
from pipesched.core.timing import UNTIMED, earliest_times
from pipesched.display import HasPage, from_file
from pipesched.errors import ConfigError, Deadlock, InvalidSchedule
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.lowering import Sent, with_message_tasks
from pipesched.pipeline.plan.message_programs import with_queues
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, MessageProgram, Plan, plan_from_slots
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step import EDGE, FREE, QUEUES, Messages
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.costs import PER_STAGE, STEP_TIMES, Costs, Memory, entries_of
from pipesched.pipeline.problem.kinds import KINDS, LETTERS, TRANSFER_LETTERS
from pipesched.pipeline.problem.ops import Op, other_end
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, differs, in_order, typical
from pipesched.pipeline.problem.quantities import TIME, Exact, canonical, in_units, plain, ticks_per_unit, to_fraction
from pipesched.pipeline.problem.units import FORWARD_ONLY, TRAIN
from pipesched.results.outcome import MEASURED, Outcome, Quartiles
from pipesched.text.writer import ConfigText, ConfigWriter, quoted

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
        given: dict[str, Any] = _costs_of(lengths, kinds, steps.stages, plan)
    else:
        columns = [
            _costs_of(own, kinds - {"overlap"}, steps.stages, typical(in_order(plan, [microbatch] * plan.microbatches)))
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


def _costs_of(lengths: Lengths, kinds: Set[str], stages: int, plan: Problem | None) -> dict[str, list[Fraction]]:
    """Return the costs of the stages by the parameters of make_problem, as medians of lengths; `kinds` ran."""
    medians = {kind: to_fraction(values.median) for kind, values in lengths.items()}

    def measured(cost: str) -> Cost:
        return [medians.get((LETTER_OF.get(cost, cost), stage)) for stage in range(stages)]

    def planned(key: str) -> Sequence[Any] | None:
        return None if plan is None else getattr(plan.costs, key)

    forward, whole = measured("forward"), measured("backward")
    inputs, weights = measured("backward_input"), measured("backward_weight")
    pairs = measured("overlap")
    of_pairs = [Fraction(0) if one is None else one / 2 for one in pairs]  # for stages that run nothing alone
    forwards = _filled(forward, planned("forward"), of_pairs)
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
        given["backward"] = backwards = _filled(whole, planned("backward"), of_pairs)
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
    moving = step.ranges if any(is_transfer(one.slot) for one in ranges) else ()
    lanes = [[op for one in row if is_transfer(one.slot) for op in ops_of(one.slot)] for row in moving]
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
    for at in there.tolist():  # each ends in the mean of its two ends, and lasts as long as the shorter one
        op = sent.index.op(at + sent.index.first_message)
        known = [ends[one] for one in (op, other_end(op)) if one in ends]
        if not known or known[-1][1] < known[0][0]:
            why = "{1} ended before {0} began, so was only issued" if known else "the trace lacks {} and {}"
            raise InvalidSchedule(f"messages are not compared: {why.format(op, other_end(op))}")
        lasts[at] = min(end - start for start, end in known) * per_unit // PER_UNIT
        begin[at] = (sum(end for _, end in known) // len(known) - first) * per_unit // PER_UNIT - lasts[at]
    due = None if planned is None else (Sent(planned.problem, planned.plan).length, planned.problem.ticks.per_unit)
    behind = np.maximum(begin - schedule.times.end[sent.source], 0)  # since what made it had ended
    devices, rows, there = [], [], there[np.argsort(begin[there], kind="stable")]
    for device, line in enumerate(schedule.plan.own_lines[: schedule.problem.devices]):
        own = there[(sent.sender[there] == device) | (sent.receiver[there] == device)]
        last_begun = np.searchsorted(schedule.times.start[line], begin[own]) - 1  # -1 where none had: the entry behind
        after = np.append(line, NOTHING_BEFORE)[last_begun]  # the slot behind which each is issued
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
    """Time the step anew, its messages as tasks in `queue`; those of FREE each stand in a line of their own."""
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


OVERLAP = "overlap"  # the kind of a pair


class MeasuredCost(NamedTuple):
    """How long the operations of a kind took on a stage, in the unit of the trace.

    `kind` is a letter, or "overlap" of pairs, by the stage of their forward. `samples` operations were measured; `q1`,
    `median` and `q3` are their quartiles. `planned` is the cost of the plan, None without one. `always_waited`: none of
    them was seen to find its inputs there, so where waiting ends and work begins rests on the clocks alone.
    """

    stage: int
    kind: str
    samples: int
    q1: int | float
    median: int | float
    q3: int | float
    planned: int | float | None = None
    always_waited: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(HasPage):
    """What the ranks of a run recorded, on one clock.

    `outcome` is the step of median makespan out of `steps`, of which the first is left out, unless it is the only one.
    It is a schedule whose operations last as long as they did. Its problem has the median of each kind as costs, and no
    latency: what messages took is idle time in it, and in `p2p` by boundaries. `offsets` is the clock of each rank less
    that of the first, in the unit of the trace. `plan` is the schedule that was planned, in the same unit, if there is
    one. `machine` says how many ranks ran on how many cores, where the traces say it; `messages` is None without any.
    """

    outcome: Outcome
    offsets: Sequence[int | float]
    costs: Sequence[MeasuredCost]
    steps: int
    step: str
    source: str
    plan: Outcome | None = None
    notes: Sequence[str] = ()
    p2p: Sequence[MeasuredLatency] = ()
    machine: Machine | None = None
    messages: MeasuredMessages | None = None

    def __repr__(self) -> str:
        return f"Timeline({self.source}, {self.steps} steps, makespan {self.makespan} {self.problem.time_unit})"

    @property
    def schedule(self) -> Schedule:
        """The schedule of the step."""
        return self.outcome.schedule

    @property
    def problem(self) -> Problem:
        """The problem with measured costs."""
        return self.outcome.problem

    @property
    def makespan(self) -> int | float:
        """Last end minus first start of the step."""
        return self.outcome.schedule.makespan

    @cached_property
    def explanation(self) -> Explanation:
        """Why the step took as long as it did. Raises InvalidSchedule for one that breaks a rule."""
        if self.plan is None:
            return explain(self.outcome)
        ticks, mean = self.plan.problem.ticks, self.plan.problem.ticks.mean
        both_ways = zip(mean["p2p"], mean["p2p_back"], strict=True)
        hops = [plain(Fraction(sum(both), 2 * ticks.per_unit)) for both in both_ways]
        return replace(explain(self.outcome), planned_p2p=hops)

    @property
    def outcomes(self) -> list[tuple[str, Outcome]]:
        """What was planned, where that is known, and what was measured, each with a title."""
        planned = [] if self.plan is None else [(f"planned: {self.plan.algorithm}", self.plan)]
        return [*planned, (MEASURED, self.outcome)]


timeline_outcomes = attrgetter("outcomes")


def read_traces(
    files: Sequence[str | Path],
    *,
    plan: Outcome | Schedule | str | Path | None = None,
    placement: Placement | Sequence[int] | str | None = None,
    problem: Problem | None = None,
    ranges: Mapping[str, str] | str | None = None,
) -> Timeline:
    """Read the traces of a run, one file a rank in any order, and bring them on one clock.

    Args:
        files: Traces of torch.profiler, Megatron's OpenTelemetry spans (OTLP JSON), exports of Nsight Systems
            (SQLite), or Primus's `pp_rank_R.json`; or one Chrome trace of a schedule. The content tells which.
        plan: The schedule that was planned, or the name of its file, to compare with.
        placement: Which stages the chunks of a rank are: for Primus's files, which do not say it. Default: those
            of the plan, else stage = chunk x P + rank.
        problem: The costs of the plan, where its file is a CSV.
        ranges: What ranges with names of their own are, one stage a rank: `{"forward_step": "F", "backward_step":
            "B"}`, or that as a text; `*` stands for any letters. Microbatches are counted.

    Raises:
        ConfigError: For files that are no traces, a rank that is missing or there twice, and a plan of another step.
        InvalidSchedule: Where no clocks of the ranks fit the messages between them: `violations` are those that
            contradict each other.
    """
    given = None if plan is None else from_file(plan, problem, "plan")
    if isinstance(given, Schedule):
        given = Outcome(given.name, given)
    elif given is not None:
        require_type(given, Outcome, "an Outcome, a Schedule or None", "plan")
    source, ranks = read_run(files, placement, None if given is None else given.problem, ranges)  # what was recorded
    steps = steps_of(ranks)
    where = placement_of(steps, len(ranks), None if given is None else given.problem.placement)
    found = aligned(source, ranks, steps)
    step = found.typical
    lengths = _quartiles(found)
    planned = None if given is None else in_unit(given, source.unit)
    base = None if planned is None else planned.problem
    if planned is not None:
        require_same_step(planned, steps, where)
    of_each = None
    if base is not None and differs(base):
        of_each = [_quartiles(found, microbatch) for microbatch in range(steps.microbatches)]
    measured = measured_problem(lengths, steps, where, source.unit, base, of_each)
    ends = dict[Any, tuple[int, int]]()
    for rank, ahead in zip(ranks, step.ahead, strict=True):  # by how much its clock is
        ends |= {one.slot: (one.start - ahead, one.end - ahead) for one in rank.ends.get(step.name, ())}
    schedule = measured_schedule(measured, step, 1 if base is None else base.ticks.per_unit, chain(*ends.values()))
    if planned is not None:  # in the ticks of the measured step, as one chart shows both
        finer = replace(planned.problem.costs, resolution=schedule.problem.ticks.per_unit)
        problem = replace(planned.problem, costs=finer)
        planned = Outcome(planned.algorithm, _of_problem(planned.schedule, problem, Fraction(1)))
    is_first = steps.only and not source.one_clock
    notes = ["only one step was recorded; the first one of a run takes longer than those behind it"] * is_first
    if of_each is not None and not any(rank.apart for rank in ranks):  # ranges hold their waiting for messages
        notes.append("clocks are told by equal times of a kind, and microbatches differ: waiting and clocks are rough")
    messages = None
    if ends and where.last:
        first = min(one.start for one in chain(*step.ranges))
        try:
            messages = messages_of(ends, first, schedule, None if planned is None else planned.schedule)
        except InvalidSchedule as error:
            notes.append(str(error))
    outcome, costs = Outcome(MEASURED, schedule), [*_costs(lengths, found, base)]
    offsets = [plain(Fraction(ahead, PER_UNIT)) for ahead in step.ahead]
    p2p = latencies(transits(found, steps), steps.stages - 1)
    machine = next((rank.machine for rank in ranks if rank.machine is not None), None)
    named = len(found.steps), step.name, source.name
    return Timeline(outcome, offsets, costs, *named, planned, notes, p2p, machine, messages)


def _quartiles(found: Aligned, microbatch: int | None = None) -> dict[tuple[str, int], Quartiles]:
    """Return the quartiles of each kind: between two lengths linearly, the ends included (numpy's default)."""
    ordered = {kind: sorted(values) for kind, values in found.lengths(microbatch).items()}
    parts = [Fraction(part, 4) for part in (1, 2, 3)]
    return {
        kind: Quartiles(*(plain(quantile(each, part) / PER_UNIT) for part in parts)) for kind, each in ordered.items()
    }


def _costs(lengths: dict[tuple[str, int], Quartiles], found: Aligned, plan: Problem | None) -> Iterator[MeasuredCost]:
    order, measured = (*LETTERS, OVERLAP), found.lengths()
    waited = {kind[:2] for kind in found.waited}
    for letter, stage in sorted(lengths, key=lambda kind: (kind[1], order.index(kind[0]))):
        values = lengths[letter, stage]
        cost = None if plan is None else _planned(plan, letter, stage)
        yield MeasuredCost(stage, letter, len(measured[letter, stage]), *values, cost, (letter, stage) in waited)


def _planned(plan: Problem, letter: str, stage: int) -> int | float | None:
    """Return what a kind of operation lasts in a plan, the median of microbatches; None for transfers that it lacks."""
    ticks, cost = plan.ticks, OVERLAP if letter == OVERLAP else KINDS[letter].cost
    if cost not in ticks.rows:
        both = ticks.mean["forward"][stage] + ticks.mean["backward"][stage]
        return in_units(both, ticks.per_unit) if letter == OVERLAP else None
    row = sorted(ticks.rows[cost][stage] if plan.has_units else ticks.rows[cost][stage][:1])
    return plain(quantile(row, Fraction(1, 2)) / ticks.per_unit)


def in_unit(plan: Outcome, unit: str) -> Outcome:
    """Return a planned schedule with its times in `unit`; one without a known unit counts as being in it already.

    Raises InvalidSchedule for one that breaks a rule.
    """
    schedule, problem = checked(plan.schedule), plan.problem
    own = TIME.unit_of(problem.time_unit)
    measured = TIME.unit_of(unit)
    factor = Fraction(1) if own is None or measured is None else TIME.units[own] / TIME.units[measured]
    links = problem.links and tuple(_times(row, factor) for row in problem.links)
    slices = replace(problem.slices, overhead=_times([problem.slices.overhead], factor)[0])
    costs = problem.costs
    columns = {key: getattr(costs, key) for key in (*PER_STAGE, "p2p", *STEP_TIMES)}
    times: dict[str, Any] = {key: column and _times(column, factor) for key, column in columns.items()}
    tied = None if costs.tied is None else _times([costs.tied], factor)[0]
    costs = Costs(**times, split=costs.split, tied=tied)
    side = []
    for item in problem.side:
        forward, backward = _times(item.forward, factor), item.backward and _times(item.backward, factor)
        side.append(replace(item, forward=forward, backward=backward, p2p=_times([item.p2p], factor)[0]))
    scaled = replace(problem, costs=costs, links=links, slices=slices, time_unit=unit, side=tuple(side))
    return Outcome(plan.algorithm, _of_problem(schedule, scaled, factor))


def _of_problem(schedule: Schedule, problem: Problem, factor: Fraction) -> Schedule:
    """Return a schedule of the same problem in other units, of which `factor` are one of before."""
    more = factor * problem.ticks.per_unit / schedule.problem.ticks.per_unit
    if more.denominator != 1:
        resolution = problem.ticks.per_unit * ticks_per_unit([more])
        problem = replace(problem, costs=replace(problem.costs, resolution=resolution))
        more = factor * problem.ticks.per_unit / schedule.problem.ticks.per_unit
    scaled = [
        [time if time == UNTIMED else int(time * more) for time in ticks]
        for ticks in (schedule.start_ticks, schedule.end_ticks)
    ]
    problem = replace(problem, layers=None, cutter=None)
    return Schedule(problem, schedule.plan, *scaled, own_lengths=schedule.own_lengths)


def require_same_step(plan: Outcome, steps: Steps, placement: Placement) -> None:
    """Raise ConfigError for a plan of other sizes, or with stages on other devices, than what was measured."""
    problem = plan.problem
    sizes = {"devices": placement.last + 1, "stages": steps.stages, "microbatches": steps.microbatches}
    for key, size in sizes.items():
        if getattr(problem, key) != size:
            raise ConfigError(f"has {getattr(problem, key)} {key}, but the traces have {size}", "plan")
    if problem.slices.count > 1:
        raise ConfigError(f"has {problem.slices.count} slices a microbatch, but the traces have whole ones", "plan")
    if (problem.mode == FORWARD_ONLY) != ({*steps.letters} == {"F"}):
        alone, whole = "forwards alone", "backwards too"
        planned, ran = (alone, whole) if problem.mode == FORWARD_ONLY else (whole, alone)
        raise ConfigError(f"has {planned}, but the traces have {ran}", "plan")
    if problem.settled_placement != placement:
        devices = [list(one.devices) for one in (problem.settled_placement, placement)]
        raise ConfigError(f"has its stages on devices {devices[0]}, but they ran on {devices[1]}", "plan")


def _times(values: Sequence[Any], factor: Fraction) -> tuple[Any, ...]:
    return tuple(
        _times(value, factor) if isinstance(value, tuple) else canonical(to_fraction(value) * factor)
        for value in values
    )


def config_text(timeline: Timeline) -> ConfigText:
    """Return the config: medians as costs and latencies, and memory as the plan had it."""
    config, costs = ConfigWriter(), replace(timeline.problem.costs, p2p=tuple(one.p2p for one in timeline.p2p))
    problem = replace(timeline.problem, costs=costs)
    config.remark(f"Measured by {timeline.source}: medians of {timeline.steps} steps.")
    if problem.name:
        config.put("name", quoted(problem.name))
    for key in ("devices", "stages", "microbatches"):
        config.put(key, getattr(problem, key))
    config.put("placement", f"{problem.settled_placement.written}")
    config.put("time_unit", problem.time_unit)

    def columns(values: Costs | Memory, *keys: str) -> None:
        for key in keys:
            if getattr(values, key) is not None:
                config.numbers(key, getattr(values, key) or (0,))  # of one stage there is no latency

    with config.section("costs"):
        columns(costs, "forward", *costs.given_backward, "recompute", "overlap", "p2p", "offload", "reload")
    if timeline.plan is None:
        config.remark("Traces say nothing of memory; `memory` is still to be given.")
    else:
        with config.section("memory"):
            config.put("unit", quoted(problem.memory.unit))
            if problem.memory.kv:
                config.numbers("kv", [problem.memory.kv])
            columns(problem.memory, "activation", "retain", "checkpoint", "static", "budget")
    return config.text

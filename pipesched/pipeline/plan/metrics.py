"""The metrics of a schedule, one property each of `ScheduleMetrics`, with its formula.

Before it stand what a device holds beside activations (`Residency`), and what the step costs (`StepTimes`).
They are in the user's units. Those that end in `_ticks` or `_grains` are the integers inside: `problem.ticks.per_unit`
ticks are one of the user's time units, `problem.grains.per_unit` grains one of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from operator import add, sub
from typing import Any, NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, Times
from pipesched.pipeline.plan.lowering import Sent, lower_plan, merged
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, SIDE_KINDS, Plan, Together, lane_of, require_device
from pipesched.pipeline.plan.step import GRADIENTS, ON_DEVICE, WEIGHTS
from pipesched.pipeline.plan.step_plan import stages_along
from pipesched.pipeline.problem.kinds import KINDS
from pipesched.pipeline.problem.model import received
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import in_units, whole

WHOLE_WEIGHTS, WHOLE_GRADIENTS, SIDE, RECEIVED = "weights", "gradients", "side", "received"


class Residency(NamedTuple):
    """What a device holds of a class from a start to an end, in ticks and grains."""

    device: int
    what: str
    start: int
    end: int
    grains: int


def _received(problem: Problem, plan: Plan, ends: Sequence[int]) -> Iterator[Residency]:
    """Yield buffers of messages between stages, from the issue of RECV to the end of what needs them."""
    # all are issued at once; where messages occupy devices, behind the end of what stands before them
    if not (problem.memory.receive and plan.messages):
        return
    sent, index = Sent(problem, plan), plan.index
    sizes = whole(received(problem.memory, problem.units), problem.grains.per_unit)
    for device, program in enumerate(plan.messages):
        row = merged(plan, device) if problem.messages and problem.messages.queue == ON_DEVICE else program.number
        issued = dict(pairwise(row.tolist())) if row is not program.number else {}
        issued = {number: ends[before] for before, number in issued.items()}
        for number in program.number[program.sends == 0].tolist():
            at, op = number - index.first_message, index.op(number)
            if max(sent.source[at], sent.target[at]) < index.passes:
                size = sizes[op.microbatch * index.slices + op.slice]
                yield Residency(device, RECEIVED, issued.get(number, 0), ends[sent.target[at]], size)


def _gradients(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Residency]:
    """Yield whole gradients, from the start of the first B or W to the end of the reduction."""
    index, there, sizes = plan.index, problem.settled_placement.devices, problem.step_grains.gradients
    kinds = [kind for kind in "BW" if kind in index.letters]
    each = problem.sharding.reduces_each
    for stage, reductions in enumerate(index.rows("REDUCE_GRAD")):
        rows = [index.row(kind, stage) for kind in kinds]
        parts = [row[part :: index.slices] for row in rows for part in range(index.slices)]
        needed = zip(*parts, strict=True) if each else [[*chain(*rows)]] * len(reductions)
        for numbers, reduction in zip(needed, reductions, strict=False):
            first = min((starts[number] for number in numbers if starts[number] >= 0), default=0)
            yield Residency(there[stage], WHOLE_GRADIENTS, first, ends[reduction], sizes[stage])


def _side(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Residency]:
    """Yield activations of side work, and its outputs and their gradients on the device of the stage they go into."""
    index, grains, there = plan.index, problem.step_grains, problem.settled_placement.devices
    runs_on = {number: device for device, row in enumerate(plan.step_slots) for _, number in row}
    for number, item in enumerate(problem.side):
        forwards = index.row("E", number)
        backwards = index.row("G", number) if item.backward is not None else ()
        into, output, held = there[item.into], grains.side_output[number], grains.side_activation[number]
        used = index.row("F", item.into)[:: index.slices]
        for forward, last, use in zip(forwards, backwards or forwards, used, strict=False):
            yield Residency(runs_on.get(forward, into), SIDE, starts[forward], ends[last], held)
            yield Residency(into, SIDE, ends[forward], starts[use], output)
        rows = [index.row(kind, item.into)[part :: index.slices] for kind in index.gradients
                for part in range(index.slices)]  # fmt: skip
        for last, needed in zip(backwards, zip(*rows, strict=True), strict=False):  # gradients of all slices
            yield Residency(into, SIDE, max(map(ends.__getitem__, needed)), starts[last], output)


PARTS = {"gather": "UNSHARD", "reduce": "REDUCE_GRAD", "tied": "REDUCE_TIED", "optimizer": "OPTIMIZER"}
NETWORK = ("gather", "reduce", "tied")


class StepTimes:
    """What of a schedule's makespan the step costs beside its passes; times are in the user's unit.

    Each number is the makespan less that of the same plan with some durations 0; they need not add up. `exposed` names
    the operations of network lanes that cannot end later without a later makespan.
    """

    def __init__(self, schedule: ScheduleMetrics) -> None:
        self._schedule, self._lasts, self._plan = schedule, schedule.graph.durations, schedule.plan
        own = Times([*schedule.start_ticks], [*schedule.end_ticks])
        self._times: dict[tuple[str, ...], Times] = {(): own}  # by the parts that last no time
        self._numbers = {part: self._plan.index.of_kind(kind) for part, kind in PARTS.items()}

    def __repr__(self) -> str:
        shown = ", ".join(self.exposed) or "nothing"
        return f"StepTimes(pipeline {self.pipeline}, network {self.network}, exposed {shown})"

    def _units(self, ticks: int) -> int | float:
        return in_units(ticks, self._schedule.problem.ticks.per_unit)

    @cached_property
    def _replay(self) -> Retiming:
        return Retiming(self._schedule.graph, self._plan.lines)

    def _times_without(self, parts: tuple[str, ...]) -> Times:
        """Return when all runs where these parts last no time: as with all but the last, until that would begin."""
        if parts not in self._times:
            before, durations = self._times_without(parts[:-1]), [*self._lasts]
            for number in chain.from_iterable(self._numbers[part] for part in parts):
                durations[number] = 0
            since = min(before.starts[number] for number in self._numbers[parts[-1]])
            self._times[parts] = self._replay.changed(before, durations, since)
        return self._times[parts]

    def exposed_ticks(self, *parts: str) -> int:
        """Return how much shorter the step is where these parts last no time."""
        lasting = tuple(part for part in PARTS if part in parts and any(self._lasts[n] for n in self._numbers[part]))
        if not lasting:
            return 0
        ends = self._times_without(lasting).ends
        return self._schedule.makespan_ticks - max(ends[line[-1]] for line in self._plan.machines if len(line))

    @cached_property
    def pipeline(self) -> int | float:
        """The makespan of the passes and side work alone."""
        return self._units(self._schedule.makespan_ticks - self.exposed_ticks(*PARTS))

    @cached_property
    def network(self) -> int | float:
        """What gathers and reductions cost together."""
        return self._units(self.exposed_ticks(*NETWORK))

    def cost(self, part: str) -> int | float:
        """Return what one of "gather", "reduce", "tied" and "optimizer" costs alone."""
        return self._units(self.exposed_ticks(part))

    def time(self, part: str) -> list[int | float]:
        """Return how long each network lane, or for "optimizer" each device, is busy with one of these."""
        rows: Sequence[Iterable[int]] = self._plan.orders if part == "optimizer" else self._plan.network_lanes
        return [self._units(sum(self._lasts[one] for one in row if one in self._numbers[part])) for row in rows]

    @cached_property
    def _exposed(self) -> list[int]:
        critical, tied = self._replay.critical(self._times[()]), self._numbers["tied"]
        is_tied = any(critical[number] for number in tied)  # one operation on two lanes
        lanes = chain.from_iterable(self._plan.network_lanes)
        return [one for one in lanes if self._lasts[one] and (critical[one] or (is_tied and one in tied))]

    @cached_property
    def exposed(self) -> list[str]:
        """The operations of network lanes without slack that last some time, device by device in the lanes' order."""
        return [*map(str, map(self._plan.index.op, self._exposed))]

    def exposed_of(self, part: str) -> list[int]:
        """Return the numbers of those of one of "gather", "reduce" and "tied"."""
        return [number for number in self._exposed if number in self._numbers[part]]

    def hidden_on(self, part: str) -> list[int]:
        """Return the devices on whose lanes one of "gather", "reduce" and "tied" lasts, and none of it is exposed."""
        exposed, own = {*self._exposed}, {number for number in self._numbers[part] if self._lasts[number]}
        rows = map(own.intersection, self._plan.network_lanes)
        return [device for device, row in enumerate(rows) if row and exposed.isdisjoint(row)]

    @cached_property
    def document(self) -> dict[str, Any]:
        """All of it, by the names of the JSON document."""
        parts = {part: {"time": self.time(part), "exposed": self.cost(part)} for part in PARTS}
        return {"pipeline": self.pipeline, "network": self.network, **parts, "exposed": self.exposed}


def span_ticks(schedule: ScheduleMetrics) -> int:
    """Return the smallest time after which the next step may follow as the same picture.

    The largest (last end - first start) over devices, over network lanes, and over stages. The gathers at the head of a
    lane count as late as they may stand without moving a slot or the network operation behind them.
    """
    late, durations = dict(_late_heads(schedule)), schedule.graph.durations

    def times(number: int) -> tuple[int, int]:
        start = late.get(number, schedule.start_ticks[number])
        return start, start + durations[number] if number in late else schedule.end_ticks[number]

    spans: list[int] = [*map(sub, schedule.last_end_ticks, schedule.first_start_ticks)]
    spans += [times(lane[-1])[1] - times(lane[0])[0] for lane in schedule.plan.network_lanes if lane]
    plan, index, there = schedule.plan, schedule.plan.index, schedule.problem.settled_placement.devices
    kinds = [rows.kind for rows in index.scoped if rows.kind not in (*SIDE_KINDS, "RESHARD")]
    for device, order in enumerate(plan.orders):
        firsts, lasts = (stages_along(one, plan.pairs, index, there.count(device)) for one in (order, reversed(order)))
        for stage in firsts.keys() & lasts.keys():  # a plan with passes on other devices than theirs lacks some
            beside = (number for kind in kinds for number in index.row(kind, stage))
            starts, ends = zip(*map(times, (firsts[stage], lasts[stage], *beside)), strict=True)
            spans.append(max(ends) - min(start for start in starts if start >= 0))
    return max(spans)


def _late_heads(schedule: ScheduleMetrics) -> list[tuple[int, int]]:
    """Return the starts of the gathers at the heads of lanes where each stands as late as it may."""
    graph, index = schedule.graph, schedule.plan.index
    gathers = index.of_kind("UNSHARD")
    late: dict[int, int] = {}
    for program in schedule.plan.network:
        lane = lane_of(program, index)
        issued = dict(program)
        heads = [number for number in lane if number in gathers and issued[number] == NOTHING_BEFORE]
        # up to the first other operation of the lane
        heads = heads[: next((place for place, (a, b) in enumerate(zip(heads, lane, strict=False)) if a != b), None)]
        behind = lane[len(heads) : len(heads) + 1]
        limit = schedule.start_ticks[behind[0]] if behind else None
        for number in reversed(heads):
            ready = [schedule.start_ticks[after] - lag for after, lag in graph.successors[number]]
            most = min([*ready, *(() if limit is None else (limit,))], default=schedule.end_ticks[number])
            limit = late[number] = most - graph.durations[number]
    return [*late.items()]


ACTIVATIONS = "activations"
HELD = (ACTIVATIONS, WHOLE_WEIGHTS, WHOLE_GRADIENTS, SIDE)  # the classes of what comes and goes
Units = int | float  # in the user's unit


class ScheduleMetrics:
    """What a schedule measures: time, idle time and memory of its devices, from its plan and its times."""

    problem: Problem
    plan: Plan
    start_ticks: Sequence[int]
    end_ticks: Sequence[int]
    own_lengths: bool

    @cached_property
    def times(self) -> Times:
        """The times, as arrays."""
        return Times(self.start_ticks, self.end_ticks)

    @cached_property
    def graph(self) -> TaskGraph:
        """The task graph of the plan; with own lengths these are the durations."""
        graph = lower_plan(self.problem, self.plan)
        if not self.own_lengths:
            return graph
        lengths = [0] * len(graph.durations)
        for number in chain(*self.plan.machines):
            lengths[number] = self.end_ticks[number] - self.start_ticks[number]
        return graph.changed(durations=lengths)

    def _slots(self) -> dict[str, Any]:
        lines, times = self.plan.own_lines[: len(self.plan.orders)], self.times
        return {
            "slot_start_ticks": [tuple(times.start[line].tolist()) for line in lines],
            "slot_end_ticks": [tuple(times.end[line].tolist()) for line in lines],
        }

    slot_start_ticks = Together[list[tuple[int, ...]]](_slots, "The starts of the slots of each device, in order.")
    slot_end_ticks = Together[list[tuple[int, ...]]](_slots, "The ends of the slots of each device, in order.")

    def _extent(self) -> dict[str, Any]:
        plan, times = self.plan, self.times
        lines = [line if len(line) else None for line in plan.own_lines[: len(plan.orders)]]
        starts = [0 if line is None else int(times.start[line[0]]) for line in lines]
        ends = [0 if line is None else int(times.end[line[-1]]) for line in lines]
        lanes = [lane for lane in plan.network_lanes if lane] if plan.network else []
        first = min([*starts, *(self.start_ticks[lane[0]] for lane in lanes)])
        last = max([*ends, *(self.end_ticks[lane[-1]] for lane in lanes)])
        return {
            "first_start_ticks": starts,
            "last_end_ticks": ends,
            "last_ticks": last,
            "makespan_ticks": last - first,
            "makespan": in_units(last - first, self.problem.ticks.per_unit),
        }

    first_start_ticks = Together[list[int]](_extent, "The start of each device's first slot (0 for one without work).")
    last_end_ticks = Together[list[int]](_extent, "The end of each device's last slot (0 for a device without work).")
    last_ticks = Together[int](_extent, "The end of all that runs on devices and network lanes.")
    makespan_ticks = Together[int](_extent, "Last end minus first start, over all devices and network lanes.")
    makespan = Together[Units](_extent, "Last end minus first start, over all devices, in the user's time unit.")

    @cached_property
    def step(self) -> StepTimes | None:
        """What the step costs beside its passes; None where the problem has no step."""
        return StepTimes(self) if self.problem.has_step else None

    def _work(self) -> dict[str, Any]:
        plan, lengths, makespan = self.plan, self.times.end - self.times.start, self.makespan_ticks
        lines = plan.own_lines[: len(plan.orders)]
        busy = useful = [int(lengths[line].sum()) for line in lines]
        again = [plan.index.of_kind(one) for one in plan.index.letters if not KINDS[one].in_ideal]  # every R
        count = sum(int(((line >= row.start) & (line < row.stop)).sum()) for row in again for line in lines)
        if count:
            extra = np.zeros_like(self.graph.duration)
            for row in again:
                extra[row.start : row.stop] = self.graph.duration[row.start : row.stop]
            useful = [time - int(extra[line].sum()) for time, line in zip(busy, lines, strict=True)]
        return {
            "busy_ticks": busy,
            "idle_ticks": [makespan - time for time in busy],
            "useful_ticks": useful,
            "ideal_ticks": max(useful),
            "bottleneck": useful.index(max(useful)),
            "recomputed": count,
        }

    busy_ticks = Together[list[int]](_work, "The time that each device works.")
    idle_ticks = Together[list[int]](_work, "The time within the makespan that each device does not work.")
    useful_ticks = Together[list[int]](_work, "The useful work of each device: its busy time without recomputing.")
    ideal_ticks = Together[int](_work, "The largest useful work of a device.")
    bottleneck = Together[int](_work, "The device with the most useful work, the first of several.")
    recomputed = Together[int](_work, "The number of activations that are recomputed.")

    def _figures(self) -> dict[str, Any]:
        problem, makespan, ideal, ends = self.problem, self.makespan_ticks, self.ideal_ticks, self.last_end_ticks
        span = span_ticks(self) if problem.has_step else max(map(sub, ends, self.first_start_ticks))
        per_unit, all_time, useful = problem.ticks.per_unit, problem.devices * makespan, sum(self.useful_ticks)
        round_time = None
        if problem.rounds > 1:
            row, count = self.plan.index.row("F", problem.stages - 1), problem.batches
            first, last = (
                max(self.end_ticks[one] for one in part)
                for part in (row[:count], row[problem.microbatches - count : problem.microbatches])
            )
            round_time = in_units(last - first, per_unit * (problem.rounds - 1))
        return {
            "span_ticks": span,
            "span": in_units(span, per_unit),
            "busy": [in_units(time, per_unit) for time in self.busy_ticks],
            "idle": [in_units(time, per_unit) for time in self.idle_ticks],
            "useful": [in_units(time, per_unit) for time in self.useful_ticks],
            "ideal": in_units(ideal, per_unit),
            "balanced": in_units(useful, problem.devices * per_unit),
            "bubble": sum(self.idle_ticks) / all_time if makespan else 0.0,
            "imbalance": (problem.devices * ideal - useful) / all_time if makespan else 0.0,
            "utilization": useful / all_time if makespan else 0.0,
            "bubble_over_ideal": (makespan - ideal) / ideal if ideal else 0.0,
            "bubble_span": (span - ideal) / span if span else 0.0,
            "round_time": round_time,
            "throughput": None if round_time is None else problem.batches / round_time if round_time else 0.0,
        }

    span_ticks = Together[int](_figures, "The same as `span`, which with a step is over network lanes and stages too.")
    # in the user's time unit
    span = Together[Units](
        _figures, "The largest (last end - own first start) of a device: a step's time if they tile."
    )
    busy = Together[list[Units]](_figures, "The time that each device works.")
    idle = Together[list[Units]](_figures, "The time within the makespan that each device does not work.")
    useful = Together[list[Units]](_figures, "The useful work of each device: its busy time without recomputing.")
    ideal = Together[Units](_figures, "The largest useful work of a device.")
    balanced = Together[Units](_figures, "The mean useful work of a device: the time of a step without any waiting.")
    round_time = Together[Units | None](_figures, "The mean time from end to end of rounds; None where there is one.")
    # ratios
    bubble = Together[float](_figures, "Idle device-time / (devices x makespan). 1F1B, equal stages: (P-1)/(M+P-1).")
    imbalance = Together[float](_figures, "What of it uneven work makes: (P x ideal - useful work) / (P x makespan).")
    utilization = Together[float](_figures, "Useful work / (devices x makespan): 1 - bubble, less recomputation.")
    bubble_over_ideal = Together[float](_figures, "(makespan - ideal) / ideal: Megatron's figure.")
    bubble_span = Together[float](_figures, "1 - ideal / span: Zero Bubble's figure.")
    throughput = Together[float | None](_figures, "Microbatches in flight / time of a round, None of one round.")

    @property
    def joined(self) -> int:
        """The number of backwards that run whole, as B."""
        return self.plan.count("B")

    @property
    def offloaded(self) -> int:
        """The number of activations that are offloaded."""
        return sum(len(pair.offloads) for pair in self.plan.lanes)

    def _memory(self) -> dict[str, Any]:
        """Make peaks: what is freed at a time counts before what is taken then."""
        problem, graph, devices = self.problem, self.graph, range(self.problem.devices)
        beside = self._beside if self.plan.index.scoped or self.plan.messages else ()
        if self.plan.lanes or not graph.duration.all():
            # Transfers take and free at any time, and slots of no length several times at one instant.
            own = [max(level for _, level in self._levels(tasks, ())) for tasks in self._tasks_on]
        else:  # the peak is at some start
            lines = self.plan.own_lines[: len(devices)]
            levels = (np.cumsum(graph.take[line] - graph.give[line]) + graph.give[line] for line in lines)
            own = [int(level.max(initial=0)) for level in levels]
        peaks = [max(level for _, level in self.memory_steps(device)) for device in devices] if beside else own
        held = [*map(add, peaks, problem.static_grains)]
        over = [device for device, (peak, most) in enumerate(zip(peaks, problem.capacity_grains, strict=True))
                if most is not None and peak > most]  # fmt: skip
        return {
            "_peak_activations": own,
            "peak_grains": peaks,
            "memory_grains": held,
            "peak_memory": [in_units(peak, problem.grains.per_unit) for peak in peaks],
            "memory": [in_units(size, problem.grains.per_unit) for size in held],
            "over_budget": over,
            "fits": not over,
        }

    _peak_activations = Together[list[int]](_memory, "The largest memory of activations alone, in grains.")
    peak_grains = Together[list[int]](_memory, "The largest memory of each device over time, in grains; not static.")
    memory_grains = Together[list[int]](_memory, "What each device holds at most: its peak and its static memory.")
    over_budget = Together[list[int]](_memory, "The devices whose peak and static memory exceed their budget.")
    fits = Together[bool](_memory, "Whether every device's memory stays within its budget (true without one).")

    # in the user's memory unit
    peak_memory = Together[list[Units]](_memory, "The largest memory of each device over time, without its static one.")
    memory = Together[list[Units]](_memory, "What each device holds at most: its peak and its static memory.")

    @cached_property
    def _beside(self) -> list[Residency]:
        """What comes and goes beside activations; trials of passes alone have nothing."""
        problem, plan, found = self.problem, self.plan, list[Residency]()
        if plan.index.scoped or plan.messages:
            starts, ends = self.start_ticks, self.end_ticks
            if problem.sharding.divides(WEIGHTS):  # they are whole from the start of UNSHARD to RESHARD, each turn
                there, sizes = problem.settled_placement.devices, problem.step_grains.weights
                for stage, turns in enumerate(zip(*map(plan.index.rows, ("UNSHARD", "RESHARD")), strict=True)):
                    spans = ((starts[gather], starts[free]) for gather, free in zip(*turns, strict=True))
                    found += [Residency(there[stage], WHOLE_WEIGHTS, *span, sizes[stage]) for span in spans]
            found += _gradients(problem, plan, starts, ends) if problem.sharding.divides(GRADIENTS) else ()
            found += [*_side(problem, plan, starts, ends), *_received(problem, plan, ends)]
        return found

    @property
    def held(self) -> tuple[str, ...]:
        """The classes of what may come and go: those of HELD where there is a step, and what is received."""
        classes = HELD if self.problem.has_step else (ACTIVATIONS,)
        return (*classes, RECEIVED) if self.problem.memory.receive and self.plan.messages else classes

    def peak_of(self, what: str) -> list[int | float]:
        """Return the largest memory of one class (see `held`) on each device."""
        return [in_units(peak, self.problem.grains.per_unit) for peak in self.peak_grains_of(what)]

    def peak_grains_of(self, what: str) -> list[int]:
        """Return the same in grains."""
        if what == ACTIVATIONS:
            return self._peak_activations
        nothing, devices = column(()), range(self.problem.devices)
        rows = [[stay for stay in self._beside if (stay.device, stay.what) == (device, what)] for device in devices]
        return [max(level for _, level in self._levels(nothing, row)) for row in rows]

    def memory_steps(self, device: int, without: str = "") -> Iterator[tuple[int, int]]:
        """Return the memory of a device over time that is not static: (tick, grains from then on), ticks rising.

        `without`: a class of HELD that does not count, but not activations. Raises ConfigError for a device that the
        problem does not have.
        """
        device = require_device(device, self.problem.devices)
        beside = [stay for stay in self._beside if stay.device == device and stay.what != without]
        return self._levels(self._tasks_on[device], beside)

    @cached_property
    def _tasks_on(self) -> list[Ints]:
        lines = self.plan.own_lines[: len(self.plan.orders)]
        moves = column(chain.from_iterable(chain.from_iterable(self.plan.lanes)))
        return [np.append(line, moves[self.graph.pool[moves] == device]) for device, line in enumerate(lines)]

    def _levels(self, tasks: Ints, beside: Sequence[Residency]) -> Iterator[tuple[int, int]]:
        """Yield what tasks and others hold together from each time on: (tick, grains), from 0 on."""
        starts, ends, grains = (column(getattr(stay, key) for stay in beside) for key in ("start", "end", "grains"))
        times = np.concatenate([self.times.start[tasks], self.times.end[tasks], starts, ends])
        changes = np.concatenate([self.graph.take[tasks], -self.graph.give[tasks], grains, -grains])
        order = np.argsort(times, kind="stable")
        rising, levels = times[order], np.cumsum(changes[order])
        lasts = np.append(rising[1:] != rising[:-1], True)[: len(rising)]  # what happens at a time counts together
        if not len(rising) or rising[0]:
            yield 0, 0
        yield from zip(rising[lasts].tolist(), levels[lasts].tolist(), strict=True)

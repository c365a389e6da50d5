"""Schedules: a problem, a plan, and times, made by `schedule_plan`. Their metrics are properties, in metrics.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

from pipesched.checks import require_flag, require_sequence, require_type, shown
from pipesched.core.arrays import column, np
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times, earliest_times
from pipesched.display import HasPage
from pipesched.errors import ConfigError, Deadlock, InvalidSchedule
from pipesched.pipeline.check.check_step import checked_programs, misplaced_step, unfit_step
from pipesched.pipeline.plan.lowering import lower_plan, times_in_turn, with_message_tasks
from pipesched.pipeline.plan.message_programs import with_messages, with_queues, without_messages
from pipesched.pipeline.plan.metrics import ScheduleMetrics
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan, mismatch, require_device, settled
from pipesched.pipeline.plan.step import AUTO, Messages
from pipesched.pipeline.plan.step_plan import reshard_times, with_step
from pipesched.pipeline.problem.costs import fields_of
from pipesched.pipeline.problem.ops import Op, Slot
from pipesched.pipeline.problem.problem import Problem, require_problem
from pipesched.pipeline.problem.quantities import in_units


class TimedSlot(NamedTuple):
    """A slot with its start and its end, in the user's time unit."""

    slot: Slot
    start: int | float
    end: int | float


class TimedOp(NamedTuple):
    """An operation of a network lane with its start and its end, in the user's time unit.

    `after` is the slot of its device behind whose end it is issued, None where it is issued at once.
    """

    op: Op
    start: int | float
    end: int | float
    after: Slot | None


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(ScheduleMetrics, HasPage):
    """A plan of a problem with times: `start_ticks` and `end_ticks` are by operation number (-1: it does not run).

    The backward of a pair has the times of the pair. `schedule_plan` makes a schedule whose operations run as early as
    they can. With `own_lengths` operations last what their times say, as in a measured step, not what the problem's
    costs do. `arrival_ticks` is then when the message from another device was there that each one waited for (-1: it
    waited for none), or empty where nobody recorded that. Raises ConfigError when plan and times are not for the
    problem, and for a time that is no int. Whether the times are legal is for `check` to say.
    """

    problem: Problem
    plan: Plan
    start_ticks: Sequence[int]
    end_ticks: Sequence[int]
    own_lengths: bool = field(default=False, kw_only=True)
    arrival_ticks: Sequence[int] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        require_problem(self.problem)
        wrong = mismatch(self.problem, require_type(self.plan, Plan, "a Plan", "plan"))
        if wrong:
            raise ConfigError(wrong, "plan")
        for key in ("start_ticks", "end_ticks", "arrival_ticks"):
            given, due = len(require_sequence(getattr(self, key), key)), self.plan.index.size
            if given != due and (given or key != "arrival_ticks"):
                raise ConfigError(f"needs a time for each of the {due} operations; this has {given}", key)
            object.__setattr__(self, key, _ints(getattr(self, key), key))
        require_flag(self.own_lengths, "own_lengths")

    def __getattr__(self, name: str) -> Any:
        """Make the lists of times that `timed_schedule` has left as arrays."""
        if name not in ("start_ticks", "end_ticks") or "times" not in vars(self):
            raise AttributeError(name)
        starts, ends = self.times.start.tolist(), self.times.end.tolist()
        vars(self).update(start_ticks=starts, end_ticks=ends)
        return starts if name == "start_ticks" else ends

    def __repr__(self) -> str:
        sizes = f"{self.problem.devices} devices, {self.problem.microbatches} microbatches"
        return f"Schedule({sizes}, makespan {self.makespan})"

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

    @property
    def name(self) -> str:
        """The name of its plan, or "plan"."""
        return self.plan.name or "plan"

    @property
    def lengths(self) -> Sequence[int] | None:
        """The lengths of operations in ticks, by their numbers (a pair's that of its forward), where they are own."""
        return self.graph.durations if self.own_lengths else None

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The microbatches in the order in which they are fed: by the start of their first forward on stage 0.

        Where they enter at both ends of the pipeline, those of the first device come first.
        """
        index, starts = self.plan.index, self.start_ticks
        firsts, places = index.row("F", 0)[:: index.slices], np.full(index.size, -1)
        for line in self.plan.own_lines[: len(self.plan.orders)]:
            places[line] = np.arange(len(line))
        placement, count = self.problem.settled_placement, index.microbatches

        def fed(microbatch: int) -> tuple[bool, int, int]:
            first = firsts[microbatch]
            return placement.is_second(microbatch, count), starts[first], int(places[first])

        return tuple(sorted(range(count), key=fed))

    def timeline(self, device: int) -> list[TimedSlot]:
        """Return the slots of a device in order, with their starts and ends in the user's time unit.

        Raises ConfigError for a device that the problem does not have.
        """
        device = require_device(device, self.problem.devices)
        times = zip(self.slot_start_ticks[device], self.slot_end_ticks[device], strict=True)
        per_unit = self.problem.ticks.per_unit
        return [
            TimedSlot(slot, *(in_units(tick, per_unit) for tick in both))
            for slot, both in zip(self.plan.slots(device), times, strict=True)
        ]

    @property
    def network(self) -> list[list[TimedOp]]:
        """What the network lane of each device moves, in the order of its program; no lanes without a step."""
        plan, per_unit = self.plan, self.problem.ticks.per_unit

        def timed(number: int, after: int) -> TimedOp:
            start, end = (in_units(ticks[number], per_unit) for ticks in (self.start_ticks, self.end_ticks))
            return TimedOp(plan.index.op(number), start, end, None if after == NOTHING_BEFORE else plan.slot(after))

        return [[timed(*entry) for entry in program] for program in plan.network]


def schedule_plan(problem: Problem, plan: Plan, lengths: Sequence[int] | None = None) -> Schedule:
    """Return `plan` with every slot as early as its order and dependencies allow.

    Args:
        problem: A placement that it leaves open is that of the plan.
        plan: The orders of the devices, and of the lanes.
        lengths: In ticks, by the numbers of operations (`Schedule.lengths` of a measured one): slots last so long,
            instead of what the costs say.

    Raises:
        Deadlock: With the cycle of operations.
        InvalidSchedule: When an operation waits for one that the plan lacks, and for a step beside the passes that is
            not that of the problem: an operation is missing or on another device, or a program is wrong.
        ConfigError: For a plan of another problem.
    """
    other = mismatch(require_problem(problem), require_type(plan, Plan, "a Plan (of pipesched.plan, say)", "plan"))
    if other:
        raise ConfigError(other, "plan")
    problem = settled(problem, plan) if problem.placement is None else problem
    if problem.shard is not None and problem.shard.ahead == AUTO:
        return best_ahead(problem, lambda one: schedule_plan(one, plan))
    is_given = bool(plan.network or plan.index.scoped)
    plan = with_step(problem, plan) if problem.has_step else plan
    if is_given:
        wrong = [*unfit_step(problem, plan)]
        if not wrong:
            programs = checked_programs(problem, plan)
            wrong = [*misplaced_step(problem, plan), *chain.from_iterable(one.wrong for one in programs)]
        if wrong:
            raise InvalidSchedule("the plan breaks the rules of its problem: " + "; ".join(wrong[:3]), wrong)
    if problem.messages is None and not plan.index.sent:
        return timed_plan(problem, plan, lengths)
    try:
        chosen = with_messages(problem, plan)
    except InvalidSchedule:
        timed_plan(with_queues(problem, None), without_messages(plan))  # which says the circle
        raise
    return timed_plan(*chosen, lengths)


def queued(schedule: Schedule, messages: Messages) -> Schedule:
    """Return a schedule of free messages with its operations in the same orders, and its messages in queues.

    Raises Deadlock where they wait for each other in a circle, and ConfigError as `with_messages` does.
    """
    return timed_plan(*with_messages(with_queues(schedule.problem, messages), schedule.plan), free=schedule.graph)


def requeued(schedule: Schedule, queue: str) -> Schedule:
    """Return a schedule whose messages queue with the same ones, in the same orders, in other queues."""
    known = schedule.problem.messages
    changed = with_queues(schedule.problem, Messages(queue, None if known is None else known.order))
    return timed_plan(changed, schedule.plan, schedule.lengths)


def timed_plan(
    problem: Problem, plan: Plan, lengths: Sequence[int] | None = None, *, free: TaskGraph | None = None
) -> Schedule:
    """Return a plan that is complete as it stands with every slot as early as possible. Raises as `schedule_plan`.

    `free` is its graph without its messages, where that is there already.
    """
    own = None
    if lengths is not None:
        ticks, size = _ints(require_sequence(lengths, "lengths"), "lengths"), plan.index.size
        if len(ticks) != size:
            raise ConfigError(f"needs a length for each of the {size} operations; this has {len(ticks)}", "lengths")
        if min(ticks, default=0) < 0:
            raise ConfigError(f"must be at least 0, not {min(ticks)}", "lengths", entry=ticks.index(min(ticks)))
        own = column(ticks)
    graph = lower_plan(problem, without_messages(plan) if plan.messages else plan) if free is None else free
    times = times_in_turn(graph, problem, plan, own) if plan.messages else None
    try:
        if times is None:
            graph = with_message_tasks(graph, problem, plan) if plan.messages else graph
            graph = graph if own is None else graph.changed(durations=own)
            times = earliest_times(graph, plan.lines)
    except Deadlock as error:
        raise Deadlock(_explain(error, plan), error.cycle, error.awaited) from None
    except InvalidSchedule:
        raise InvalidSchedule(_unplanned(graph, plan)) from None
    if plan.pairs or plan.network:
        starts, ends = times
        for forward, backward in plan.pairs.items():
            starts[backward], ends[backward] = starts[forward], ends[forward]
        for number, time in reshard_times(plan, ends):
            starts[number] = ends[number] = time
        times = Times(starts, ends)
    whole = graph if len(graph) == plan.index.size else None
    return timed_schedule(problem, plan, times, whole, own_lengths=lengths is not None)


def best_ahead(problem: Problem, timed: Callable[[Problem], Schedule]) -> Schedule:
    """Return the schedule with the number of stages ahead, the same for all devices, that is the shortest that fits.

    Where none fits it is that of the least largest memory; of equals the smallest number. `timed` makes the schedules.
    """
    there = problem.settled_placement.devices
    most = max(there.count(device) for device in range(problem.devices))
    found = [timed(replace(problem, shard=replace(problem.sharding, ahead=ahead))) for ahead in range(1, most + 1)]
    return min(found, key=lambda one: (not one.fits, one.makespan_ticks if one.fits else max(one.memory_grains)))


def timed_schedule(
    problem: Problem, plan: Plan, times: Times, graph: TaskGraph | None, *, own_lengths: bool = False
) -> Schedule:
    """Return a Schedule that need not lower its plan again if `graph` is its task graph; times are in ticks.

    Nothing is checked: problem, plan and times are those that the graph was made of, and that it gave.
    """
    schedule = object.__new__(Schedule)
    vars(schedule).update(problem=problem, plan=plan, times=times, own_lengths=own_lengths)
    vars(schedule).update({} if graph is None else {"graph": graph})
    return schedule


def _ints(times: Sequence[int], key: str) -> Sequence[int]:
    """Return times as ints, the list itself where they are. Raises ConfigError, about `key`, for what is no int."""
    if set(map(type, times)) <= {int}:
        return times
    for entry, time in enumerate(times):
        if isinstance(time, bool) or not isinstance(time, Integral):
            raise ConfigError(f"must be a whole number of ticks, not {shown(time)}", key, entry=entry)
    return [*map(int, times)]


def _machine_name(machine: int, plan: Plan) -> str:
    """Return the name of what runs one operation at a time, by its place among Plan.machines."""
    lane = machine - len(plan.orders)
    if lane < 0:
        return f"device {machine}"
    network = lane - 2 * len(plan.lanes)
    return f"lane {lane // 2}" if network < 0 else f"the network lane of device {network}"


def _unplanned(graph: TaskGraph, plan: Plan) -> str:
    """Return a sentence about an operation that stands twice, or waits for one that the plan lacks."""
    for number, times in Counter(chain(*(line.tolist() for line in plan.lines))).items():
        if times > 1:
            return f"{plan.index.op(number)} stands twice in the plan"
    machine = {task: number for number, order in enumerate(plan.lines) for task in order.tolist()}
    for before, after, _ in graph.edges:
        if after in machine and before not in machine:
            here, there = plan.index.op(after), plan.index.op(before)
            return f"{here} on {_machine_name(machine[after], plan)} waits for {there}, which the plan lacks"
    raise AssertionError("some operation waits for one that no order holds")


def _explain(error: Deadlock, plan: Plan) -> str:
    """Return the cycle of a deadlock as a sentence of operations and devices (or lanes)."""
    index = plan.index
    stuck = [
        (task, str(index.op(task)) + ("" if task >= index.first_message else f" on {_machine_name(machine, plan)}"))
        for task, machine in error.cycle
    ]
    links = [
        f"{here} waits for {index.op(before)}" + (f", which comes after {there}" if before != task else "")
        for (_, here), before, (task, there) in zip(stuck, error.awaited, [*stuck[1:], stuck[0]], strict=True)
    ]
    return "deadlock: " + "; ".join(links)

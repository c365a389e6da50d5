"""Why a schedule on functional units takes so many cycles: `explain_hardware`, which is `pipesched.hls.explain`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from pipesched.checks import look_up, shown
from pipesched.core.optimum import lower_bound
from pipesched.core.reasons import NOTHING, Arc, Gap, Idle, TimedTasks, classes, idle_gaps, path_counts
from pipesched.core.timing import Times
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.hls.outcome import HardwareOutcome
from pipesched.hls.schedule import HardwareSchedule, UnitClass, checked, lower

Unit = tuple[str, int]  # a unit class, and which of its units


class UnitGap(NamedTuple):
    """Idle time of one class, of a unit."""

    unit: Unit
    start: int
    end: int
    idle: Idle
    culprit: str  # the operation that makes it
    waiting: str | None  # the next operation of the unit, None behind its last

    @property
    def length(self) -> int:
        return self.end - self.start


class ClassSensitivity(NamedTuple):
    """What the latency of a unit class does to that of the schedule, with the order on each unit fixed.

    A whole cycle may gain less and cost more than a derivative says.
    """

    unit_class: str
    on_path: int  # how often it stands on the critical path
    faster: int  # as a derivative: what a cycle less gains, in cycles
    slower: int  # as a derivative: what a cycle more costs
    latency_faster: int | None  # what the schedule takes with one cycle less; None: there is no cycle less
    latency_slower: int  # what it takes with one cycle more


class Arrival(NamedTuple):
    """An input of an operation, and when its result is there."""

    op: str
    time: int


class OperationReasons(NamedTuple):
    """Why an operation starts when it does."""

    op: str
    unit: Unit
    start: int
    end: int  # when its result is there
    allowed: int  # the earliest start given all others
    inputs: list[Arrival]
    held_by: str | None  # what sets that: an input, or the operation before it on its unit; None where it is cycle 0
    by_input: bool  # whether it is an input
    slack: int
    chain: list[str]  # from the operation back to cycle 0


@dataclass(frozen=True, eq=False, repr=False)
class HardwareExplanation(Displayable):
    """Why a schedule on functional units takes as many cycles as it does.

    What tasks and gaps say by numbers, `gaps`, `critical_path` and `slack` say by names of operations and units.
    """

    schedule: HardwareSchedule
    bound: int  # the lower bound on its latency
    tasks: TimedTasks  # its operations in their orders, the units as devices
    gap_cycles: Sequence[Gap]  # all idle time by class
    sensitivity: Sequence[ClassSensitivity]  # with nothing later than it could be
    early_latency: int  # that of the same orders then
    method: str = ""  # the name of what made the schedule, if it is known

    def __repr__(self) -> str:
        total = self.totals
        most = f", most of it {max(total, key=lambda idle: total[idle]).value}" if self.idle else ""
        return f"HardwareExplanation(latency {self.latency}, idle {self.idle}{most})"

    @property
    def latency(self) -> int:
        """The cycles from the first start to the last result."""
        return self.schedule.latency

    @cached_property
    def units(self) -> list[Unit]:
        """All units that exist, also those that run nothing, by class and instance."""
        return [(unit.name, instance) for unit in self.schedule.units for instance in range(unit.count)]

    @cached_property
    def gaps(self) -> list[UnitGap]:
        """All idle time by class and culprit, by unit and start."""
        name = [operation.name for operation in self.schedule.graph.operations]
        return [
            UnitGap(self.units[unit], start, end, idle, name[culprit], None if after == NOTHING else name[after])
            for unit, start, end, idle, culprit, after in self.gap_cycles
        ]

    @cached_property
    def critical_path(self) -> list[str]:
        """The operations of which each is held back by the one before it, from cycle 0 to the last result."""
        return [*map(self._name, self.tasks.critical_path)]

    @cached_property
    def slack(self) -> dict[str, int]:
        """How much later each operation may end, with these orders, before the latency grows; by its name."""
        return dict(zip(map(self._name, range(len(self.schedule.graph))), self.tasks.slack, strict=True))

    @cached_property
    def devices(self) -> list[dict[Idle, int]]:
        """The idle time of each of `units` by class."""
        rows = [dict.fromkeys(classes(), 0) for _ in self.units]
        for gap in self.gap_cycles:
            rows[gap.device][gap.idle] += gap.end - gap.start
        return rows

    @property
    def totals(self) -> dict[Idle, int]:
        """The idle time of all units by class."""
        return {idle: sum(row[idle] for row in self.devices) for idle in classes()}

    @property
    def idle(self) -> int:
        """The idle time of all units: units x latency - the cycles in which they are busy."""
        return sum(gap.end - gap.start for gap in self.gap_cycles)

    @property
    def unavoidable(self) -> int:
        """The idle time that every schedule on these units has: units x bound - busy cycles, at least 0."""
        busy = len(self.units) * self.latency - self.idle
        return max(len(self.units) * self.bound - busy, 0)

    @property
    def avoidable(self) -> int:
        """The rest of the idle time."""
        return self.idle - self.unavoidable

    def why(self, op: str) -> OperationReasons:
        """Return why an operation starts when it does; `op` is its name, or its expression in the program.

        Of equal expressions it is the first. Raises ConfigError for one that is not there.
        """
        tasks, operations = self.tasks, self.schedule.graph.operations
        numbers = {one.text: number for number, one in reversed([*enumerate(operations)]) if one.text}
        numbers |= {one.name: number for number, one in enumerate(operations)}
        task = look_up(numbers, op, "operation", "op", rest="give its name or its expression")
        arc = tasks.tight[task]
        return OperationReasons(
            op=self._name(task),
            unit=self.units[tasks.machine[task]],
            start=tasks.starts[task],
            end=tasks.outs[task],
            allowed=tasks.allowed[task],
            inputs=[Arrival(self._name(one.before), tasks.ends[one.before] + one.lag) for one in tasks.inputs[task]],
            held_by=None if arc is None else self._name(arc.before),
            by_input=arc is not None and arc.is_input,
            slack=tasks.slack[task],
            chain=[*map(self._name, tasks.chain(task))],
        )

    def _name(self, task: int) -> str:
        return self.schedule.graph.operations[task].name


def explain_hardware(schedule: HardwareSchedule | HardwareOutcome) -> HardwareExplanation:
    """Say why a schedule takes as many cycles as it does, and what the latency of each unit class does to it.

    Sensitivities are those of the same operations on the same units in the same order, as early as they can be. Raises
    ConfigError for what is no schedule, and for one of a loop; InvalidSchedule for one that breaks a rule.
    """
    outcome = schedule if isinstance(schedule, HardwareOutcome) else None
    subject = outcome.schedule if outcome is not None else schedule
    if not isinstance(subject, HardwareSchedule):
        raise ConfigError(f"must be a HardwareSchedule or a HardwareOutcome, not {shown(schedule)}", "schedule")
    if subject.interval is not None:
        raise ConfigError("is of a loop, whose iterations overlap; only one that runs once is explained", "schedule")
    tasks = timed_units(checked(subject))
    units, classes = subject.units, subject.classes
    starts, ends = _earliest(subject, tasks)
    early = replace(tasks, starts=starts, ends=ends)
    own = [[] if has_rest(units[number]) else [number] for number in classes]
    ranges = path_counts(early, lambda task: own[task], len(units))
    counts = Counter(number for task in tasks.critical_path for number in own[task])
    arcs = [tasks.tight[task] for task in tasks.critical_path]
    counts.update([tasks.delivery_tags[tasks.last], *(arc.tag for arc in arcs if arc is not None)])
    sensitivity = []
    for number, unit in enumerate(units):
        if number in classes:
            faster = None if unit.latency == 1 else _latency(subject, tasks, number, -1)
            slower = _latency(subject, tasks, number, 1)
            sensitivity.append(ClassSensitivity(unit.name, counts[number], *ranges[number], faster, slower))
    return HardwareExplanation(
        schedule=subject,
        bound=outcome.bound if outcome else lower_bound(lower(subject.graph, units, classes))[0],
        tasks=tasks,
        gap_cycles=[*idle_gaps(tasks, [0] * len(subject.graph), lambda _task, _time: True)],
        sensitivity=sensitivity,
        early_latency=early.makespan,
        method="" if outcome is None else outcome.method,
    )


def timed_units(schedule: HardwareSchedule) -> TimedTasks:
    """Return the operations as tasks; every unit that exists is a device, by class and instance.

    An operation lasts as long as it occupies its unit. What its latency lasts beyond that is the lag to its consumers,
    and its delivery; where there is such a rest, its tag is the number of the unit class.
    """
    units, classes = schedule.units, schedule.classes
    *first, devices = accumulate((unit.count for unit in units), initial=0)
    orders: list[list[int]] = [[] for _ in range(devices)]
    _, instances = schedule.unrolled(1)
    for task in sorted(range(len(classes)), key=schedule.starts.__getitem__):
        orders[first[classes[task]] + instances[task]].append(task)
    graph = lower(schedule.graph, units, classes)
    tags = [number if has_rest(units[number]) else NOTHING for number in classes]
    inputs = [[Arc(before, lag, tags[before]) for before, lag in row] for row in graph.predecessors]
    ends = [start + duration for start, duration in zip(schedule.starts, graph.durations, strict=True)]
    waits: list[list[int]] = [[] for _ in classes]
    return TimedTasks(graph.durations, inputs, waits, orders, devices, schedule.starts, ends, graph.deliveries, tags)


def has_rest(unit: UnitClass) -> bool:
    """Return whether a unit is free at another time than its result is there: then only the latter is its latency."""
    return unit.interval != unit.latency


def _earliest(schedule: HardwareSchedule, tasks: TimedTasks, number: int = NOTHING, more: int = 0) -> Times:
    """Return the earliest times in the orders; the latency of the class `number` has so many cycles `more`.

    Where that class has a rest its arcs have its tag, and become longer; else its operations do.
    """
    lasting = number if number != NOTHING and not has_rest(schedule.units[number]) else NOTHING
    starts, ends = [0] * len(tasks.durations), [0] * len(tasks.durations)
    for task in tasks.topological:
        arriving = (ends[arc.before] + arc.lag + (arc.tag == number) * more for arc in tasks.arcs(task))
        starts[task] = max(arriving, default=0)
        ends[task] = starts[task] + tasks.durations[task] + (schedule.classes[task] == lasting) * more
    return Times(starts, ends)


def _latency(schedule: HardwareSchedule, tasks: TimedTasks, number: int, more: int) -> int:
    _, ends = _earliest(schedule, tasks, number, more)
    added = [(tag == number) * more for tag in tasks.delivery_tags]
    return max(map(sum, zip(ends, tasks.deliveries, added, strict=True)))

"""Functional units, the task graph on them, and a schedule: the start and the unit of every operation.

`lower` makes the task graph, a `HardwareSchedule` has what a search finds there, and `checked` checks it.
In the task graph initiation intervals are durations; what a latency lasts beyond them is a lag to the consumers and a
delivery at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from pipesched.checks import (
    require_label,
    require_mapping,
    require_name,
    require_sequence,
    require_text,
    require_type,
    require_whole,
    shown,
)
from pipesched.core.tasks import TaskGraph, arrow, violations
from pipesched.errors import ConfigError, InvalidSchedule, blame
from pipesched.hls.graph import DataflowGraph

COMPARISONS = ("les", "leq", "gre", "geq", "equ", "neq", "lt", "le", "gt", "ge", "eq", "ne")
BRANCHES = ("beq", "bne", "blt", "ble", "bgt", "bge")
GROUPS = {"mul": ("mul", "div"), "cmp": ("cmp", *COMPARISONS, *BRANCHES)}  # class -> the types that it runs
REST = "add"  # the class that runs every other type
MOST_UNITS, MOST_CYCLES = 10_000, 1_000  # of a class; of one operation


@dataclass(frozen=True)
class UnitClass:
    """Several units of one class, `count` of them.

    An operation started at s occupies its unit in [s, s + interval), and its result is usable at s + latency, in
    cycles. Raises ConfigError, about the field at fault, for numbers out of range.
    """

    name: str
    count: int
    latency: int = 1
    interval: int = 1

    def __post_init__(self) -> None:
        require_label(self.name, "name")
        for key, least, most in (("count", 0, MOST_UNITS), ("latency", 1, MOST_CYCLES), ("interval", 1, MOST_CYCLES)):
            object.__setattr__(self, key, require_whole(getattr(self, key), key, least, most))


Units = tuple[UnitClass, ...]


def make_units(
    counts: Mapping[str, int] = {}, latencies: Mapping[str, int] = {}, pipelined: Iterable[str] = ()
) -> Units:
    """Return unit classes of these counts and latencies (in cycles, default 1); by default one multiplier, two adders.

    A unit is busy for its latency, or for one cycle if its class is `pipelined`. Raises ConfigError for a number out of
    range, and for a class of `latencies` or `pipelined` that is not in `counts`.
    """
    units = _by_class(counts, "counts", 0, MOST_UNITS, "units") or {"mul": 1, "add": 2}
    waits = _by_class(latencies, "latencies", 1, MOST_CYCLES, "cycles")
    listed: Any = pipelined
    if not isinstance(listed, Iterable) or isinstance(listed, (str, bytes, Mapping)):
        raise ConfigError(f"must be a list of unit classes, not {shown(listed)}", "pipelined")
    in_pipelines = {require_text(name, "pipelined").casefold() for name in listed}
    for names, key in ((waits, "latencies"), (in_pipelines, "pipelined")):
        for name in names:
            require_name(units, name, "unit class", key)
    return tuple(
        UnitClass(name, count, waits.get(name, 1), 1 if name in in_pipelines else waits.get(name, 1))
        for name, count in units.items()
    )


def _by_class(numbers: object, key: str, least: int, most: int, what: str) -> dict[str, int]:
    """Return numbers by unit class, with the names in small letters. Raises ConfigError about the parameter `key`."""
    given = require_mapping(numbers, f"{what} by unit class", key)
    read: dict[str, int] = {}
    for name, number in given.items():
        if name.casefold() in read:
            raise ConfigError(f"unit class {shown(name)} stands there twice", key)
        with blame(key, head=f"{what} of class {shown(name)}: "):
            read[name.casefold()] = require_whole(number, key, least, most)
    return read


def class_name(operation_type: str, names: Iterable[str]) -> str:
    """Return the class that runs a type: that of its own name, else a group that it belongs to, else the adders.

    `names` are the classes that exist. Types of the group `mul` never fall to the adders.
    """
    own, names = operation_type.casefold(), set(names)
    if own in names:
        return own
    group = next((name for name, types in GROUPS.items() if own in types), REST)
    return group if group in names or group == "mul" else REST


def assign_classes(graph: DataflowGraph, units: Units) -> list[int]:
    """Return the class of each operation, as its number in `units`.

    Raises ConfigError for what is no graph or no units, for an operation that no unit can run, and for a class that
    would run none.
    """
    require_type(graph, DataflowGraph, "a DataflowGraph (of parse_program, say)", "graph")
    for entry, unit in enumerate(require_sequence(units, "units")):
        if not isinstance(unit, UnitClass):
            raise ConfigError(f"must be unit classes (of make_units, say), not {shown(unit)}", "units", entry=entry)
    numbers = {unit.name: number for number, unit in enumerate(units)}
    if len(numbers) < len(units):
        raise ConfigError("holds a class twice", "units")
    types = {operation.type.casefold() for operation in graph.operations}
    known = {*GROUPS, REST, *(name for group in GROUPS.values() for name in group), "sub", "neg", *types}
    for unit in units:  # a misspelt class, neither a usual one nor a type, would take no operation
        require_name(sorted(known), unit.name, "unit class", "units")
    classes = []
    for task, operation in enumerate(graph.operations):
        name = class_name(operation.type, numbers)
        if name not in numbers or not units[numbers[name]].count:
            raise graph.wrong(task, f"no unit runs {shown(operation.type)}; give one, for instance `units` {name}=1")
        classes.append(numbers[name])
    return classes


def lower(
    graph: DataflowGraph,
    units: Units,
    classes: Sequence[int],
    instances: Sequence[int] | None = None,
    iterations: int = 1,
) -> TaskGraph:
    """Return the task graph of so many iterations: task k * n + i is operation i of iteration k, resource c a class.

    With `instances` each task is bound to that unit of its class, and every unit is a resource.
    """
    size, waits = len(graph), [units[number].latency - units[number].interval for number in classes]
    resources, counts = [*classes] * iterations, [unit.count for unit in units]
    if instances is not None:
        bound_to = list(zip(resources, instances, strict=True))
        numbers = {unit: number for number, unit in enumerate(sorted(set(bound_to)))}
        resources, counts = [numbers[unit] for unit in bound_to], [1] * len(numbers)
    edges = [
        arrow((later - edge.distance) * size + edge.before, later * size + edge.after, waits[edge.before])
        for edge in graph.dependences
        for later in range(edge.distance, iterations)
    ]
    durations = [units[number].interval for number in classes] * iterations
    return TaskGraph(durations, resources, counts, edges, deliveries=waits if instances is None else ())


@dataclass(frozen=True, eq=False, repr=False)
class HardwareSchedule:
    """Times in cycles. Operation i starts at `starts[i]` on unit `instances[i]` of class `classes[i]`.

    `interval` is None for one run; a loop starts an iteration every `interval` cycles, each by this same schedule.
    Its `instances` are empty where no unit can run the same operation in every iteration: then they take turns. Raises
    ConfigError, about the field at fault, for what is no graph or no units, and for lists of other lengths.
    """

    graph: DataflowGraph
    units: Units
    classes: Sequence[int]
    starts: Sequence[int]
    instances: Sequence[int]
    interval: int | None = None

    def __post_init__(self) -> None:
        require_type(self.graph, DataflowGraph, "a DataflowGraph", "graph")
        for unit in require_sequence(self.units, "units"):
            require_type(unit, UnitClass, "UnitClasses", "units")
        for key in ("classes", "starts", "instances"):
            numbers = require_sequence(getattr(self, key), key)
            if len(numbers) != len(self.graph) and (numbers or key != "instances"):
                raise ConfigError(f"needs one number for each of the {len(self.graph)} operations", key)
            least, most = (0, len(self.units) - 1) if key == "classes" else (-1, None)
            for entry, number in enumerate(numbers):
                require_whole(number, key, least, most, entry=entry)
        if self.interval is not None:
            require_whole(self.interval, "interval", least=1)

    def __repr__(self) -> str:
        interval = "" if self.interval is None else f", interval {self.interval}"
        return f"HardwareSchedule({len(self.graph)} operations, latency {self.latency}{interval})"

    def unit(self, task: int) -> UnitClass:
        return self.units[self.classes[task]]

    @cached_property
    def ends(self) -> list[int]:
        """When the result of each operation is usable, in cycles."""
        return [start + self.unit(task).latency for task, start in enumerate(self.starts)]

    @cached_property
    def latency(self) -> int:
        """The cycles of one iteration from its first to its last: max over operations of (start + latency)."""
        return max(self.ends)

    def unrolled(self, iterations: int) -> tuple[list[int], list[int]]:
        """Return the start and the unit of every operation of the first iterations, one iteration after the other."""
        starts = [later * (self.interval or 0) + start for later in range(iterations) for start in self.starts]
        if self.instances:
            return starts, [*self.instances] * iterations
        return starts, place_on_units(starts, [*self.classes] * iterations, self.units)

    @cached_property
    def alive(self) -> list[int]:
        """Registers at each cycle boundary 0, 1, ..: values produced that a consumer, not yet started, still needs.

        There is no chaining: a value sits in a register also when its consumer starts at once. In a loop the values of
        all iterations that run at once count, and boundary t stands for t, t + interval, t + 2 interval, ... Of an
        input, the values of earlier iterations count, from the start of the iteration after their own.
        """
        held = []  # the first and the last boundary at which a register holds each value of one iteration
        for task, end in enumerate(self.ends):
            uses = [edge for edge in self.graph.uses(task) if self.interval or not edge.distance]
            if uses:
                held.append((end, max(self._needed(edge.after, edge.distance) for edge in uses)))
        if self.interval:
            latest: dict[str, int] = {}
            for name, task, distance in self.graph.delays:
                latest[name] = max(latest.get(name, 0), self._needed(task, distance))
            held += [(self.interval, boundary) for boundary in latest.values()]
        period = self.interval or self.latency + 1
        changes = [0] * (period + 1)  # at each boundary: values that begin to be held, less those that end
        for first, last in held:
            whole, rest = divmod(last - first + 1, period)  # held all the time by so many iterations, then for a rest
            begin = first % period
            changes[0] += whole + (begin + rest >= period)  # one more where the rest goes on in the next period
            changes[begin] += 1
            changes[(begin + rest) % period] -= 1
        return list(accumulate(changes))[:period]

    def _needed(self, task: int, distance: int) -> int:
        """Return the start of a consumer `distance` iterations later."""
        return self.starts[task] + distance * (self.interval or 0)

    @cached_property
    def registers(self) -> int:
        """The most registers alive at once."""
        return max(self.alive)


def place_on_units(starts: Sequence[int], classes: Sequence[int], units: Units) -> list[int]:
    """Return the unit of each operation, the lowest that is free at its start; `starts` respect the number of units."""
    instances = [0] * len(starts)
    free = [list(range(unit.count)) for unit in units]
    running: list[list[tuple[int, int]]] = [[] for _ in units]  # (end, instance)
    for start, task in sorted((start, task) for task, start in enumerate(starts)):
        number = classes[task]
        while running[number] and running[number][0][0] <= start:
            heappush(free[number], heappop(running[number])[1])
        instances[task] = heappop(free[number])
        heappush(running[number], (start + units[number].interval, instances[task]))
    return instances


def bound_to_units(
    graph: DataflowGraph, units: Units, classes: Sequence[int], starts: Sequence[int], period: int
) -> HardwareSchedule:
    """Return the loop with a unit for each operation: the same in every iteration where first fit finds one.

    `starts` are those of one iteration, which is repeated every `period` cycles.
    """
    order = sorted(range(len(graph)), key=lambda task: starts[task] % period)
    for turn in range(len(order)):
        instances = _first_fit([*order[turn:], *order[:turn]], starts, classes, units, period)
        if instances:
            return HardwareSchedule(graph, units, classes, starts, instances, period)
    return HardwareSchedule(graph, units, classes, starts, (), period)


def _first_fit(
    order: Sequence[int], starts: Sequence[int], classes: Sequence[int], units: Units, period: int
) -> list[int]:
    """Return for each operation the first unit that is free at all its residues; empty if an operation has none."""
    instances = [0] * len(order)
    taken: set[tuple[int, int, int]] = set()  # (class, unit, residue)
    for task in order:
        number = classes[task]
        residues = {(starts[task] + cycle) % period for cycle in range(units[number].interval)}
        fitting = (i for i in range(units[number].count) if not any((number, i, r) in taken for r in residues))
        instance = next(fitting, None)
        if instance is None or units[number].interval > period:
            return []
        instances[task] = instance
        taken |= {(number, instance, r) for r in residues}
    return instances


def checked(schedule: HardwareSchedule) -> HardwareSchedule:
    """Return the schedule itself, after the core's independent check of every dependence and every unit.

    A loop is unrolled until its first iteration has met every later one. Raises InvalidSchedule.
    """
    graph, period = schedule.graph, schedule.interval
    iterations = 1
    if period:
        iterations = 2 + schedule.latency // period + max((edge.distance for edge in graph.dependences), default=0)
    starts, instances = schedule.unrolled(iterations)
    tasks = lower(graph, schedule.units, schedule.classes, instances, iterations)

    def name(task: int) -> str:
        later, operation = divmod(task, len(graph))
        return graph.operations[operation].name + (f" of iteration {later}" if period else "")

    broken = list(violations(tasks, starts, name=name))
    for task, instance in enumerate(instances):
        unit = schedule.unit(task % len(graph))
        if not 0 <= instance < unit.count:
            broken.append(f"{name(task)} is on unit {instance} of {unit.count} {unit.name}")
    if broken:
        raise InvalidSchedule(f"the schedule breaks a rule: {broken[0]}", broken)
    return schedule

"""A schedule of a dataflow graph: the start and the unit of every operation. Latency and registers are properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import accumulate

from pipesched.checks import require_sequence, require_type, require_whole
from pipesched.core.tasks import violations
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.units import UnitClass, Units, bind


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
        """Return the unit class of an operation."""
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
        changes = [0] * (period + 1)
        for first, last in held:
            whole, rest = divmod(last - first + 1, period)
            begin = first % period
            changes[0] += whole + (begin + rest >= period)
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
    tasks = bind(graph, schedule.units, schedule.classes, instances, iterations)

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

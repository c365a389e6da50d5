"""Functional units: classes of identical units, which class runs an operation, and the task graph that follows.

In that, initiation intervals are durations; what a latency lasts beyond them is a lag to the consumers and a delivery
at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from pipesched.core.tasks import TaskGraph, arrow
from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph

COMPARISONS = ("les", "leq", "gre", "geq", "equ", "neq", "lt", "le", "gt", "ge", "eq", "ne")
BRANCHES = ("beq", "bne", "blt", "ble", "bgt", "bge")
GROUPS = {"mul": ("mul", "div"), "cmp": ("cmp", *COMPARISONS, *BRANCHES)}  # class -> the types that it runs
REST = "add"  # the class that runs every other type
DEFAULT = {"mul": 1, "add": 2}
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
    units = _by_class(counts, "counts", 0, MOST_UNITS, "units") or DEFAULT
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
        try:
            read[name.casefold()] = require_whole(number, key, least, most)
        except ConfigError as error:
            raise ConfigError(f"{what} of class {shown(name)}: {error.message}", key) from None
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


def lower(graph: DataflowGraph, units: Units, classes: Sequence[int]) -> TaskGraph:
    """Return the task graph of one iteration: task i is operation i, resource c the units of class c."""
    waits = [units[number].latency - units[number].interval for number in classes]
    return TaskGraph(
        durations=[units[number].interval for number in classes],
        resources=classes,
        unit_counts=[unit.count for unit in units],
        edges=[arrow(edge.before, edge.after, waits[edge.before]) for edge in graph.dependences if not edge.distance],
        deliveries=waits,
    )


def bind(
    graph: DataflowGraph, units: Units, classes: Sequence[int], instances: Sequence[int], iterations: int = 1
) -> TaskGraph:
    """Return the task graph of so many iterations, each operation bound to its unit: every unit is a resource.

    Task k * n + i is operation i of iteration k, on unit `instances[k * n + i]` of its class.
    """
    size, waits = len(graph), [units[number].latency - units[number].interval for number in classes]
    bound_to = list(zip([*classes] * iterations, instances, strict=True))
    resources = {unit: resource for resource, unit in enumerate(sorted(set(bound_to)))}
    return TaskGraph(
        durations=[units[number].interval for number in classes] * iterations,
        resources=[resources[unit] for unit in bound_to],
        unit_counts=[1] * len(resources),
        edges=[
            arrow((later - edge.distance) * size + edge.before, later * size + edge.after, waits[edge.before])
            for edge in graph.dependences
            for later in range(edge.distance, iterations)
        ],
    )

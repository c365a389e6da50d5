"""Functional units: classes of identical units, and which class runs an operation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph
from pipesched.names import require_name

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
    cycles.
    """

    name: str
    count: int
    latency: int = 1
    interval: int = 1


Units = tuple[UnitClass, ...]


def make_units(
    counts: Mapping[str, int] = {}, latencies: Mapping[str, int] = {}, pipelined: Iterable[str] = ()
) -> Units:
    """Return unit classes of these counts and latencies (in cycles, default 1); by default one multiplier, two adders.

    A unit is busy for its latency, or for one cycle if its class is `pipelined`. Raises ConfigError for a number out of
    range, and for a class of `latencies` or `pipelined` that is not in `counts`.
    """
    counts = {name.casefold(): count for name, count in (counts or DEFAULT).items()}
    waits = {name.casefold(): cycles for name, cycles in latencies.items()}
    in_pipelines = {name.casefold() for name in pipelined}
    for names, key in ((waits, "latency"), (in_pipelines, "pipelined")):
        for name in names:
            require_name(counts, name, "unit class", key)
    for name, count in counts.items():
        _require(0 <= count <= MOST_UNITS, name, f"0 to {MOST_UNITS:,} units", count)
        _require(
            1 <= waits.get(name, 1) <= MOST_CYCLES, name, f"a latency of 1 to {MOST_CYCLES:,} cycles", waits.get(name)
        )
    return tuple(
        UnitClass(name, count, waits.get(name, 1), 1 if name in in_pipelines else waits.get(name, 1))
        for name, count in counts.items()
    )


def _require(is_met: bool, name: str, allowed: str, given: int | None) -> None:
    if not is_met:
        raise ConfigError(f"unit class {name!r}: {allowed}, not {given}")


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

    Raises ConfigError for an operation that no unit can run, and for a class that would run none.
    """
    numbers = {unit.name: number for number, unit in enumerate(units)}
    _require_known(graph, units)
    classes = []
    for task, operation in enumerate(graph.operations):
        name = class_name(operation.type, numbers)
        if name not in numbers or not units[numbers[name]].count:
            raise graph.wrong(task, f"no unit runs {operation.type!r}; give one, for instance `units` {name}=1")
        classes.append(numbers[name])
    return classes


def _require_known(graph: DataflowGraph, units: Units) -> None:
    """Raise ConfigError for a class that is neither a usual one nor a type: a misspelt one would take no operation."""
    types = {operation.type.casefold() for operation in graph.operations}
    known = {*GROUPS, REST, *(name for group in GROUPS.values() for name in group), "sub", "neg", *types}
    for unit in units:
        require_name(sorted(known), unit.name, "unit class", "units")

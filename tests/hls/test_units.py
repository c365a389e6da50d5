"""Units: which class runs which type, and what a class cannot be."""

from __future__ import annotations

import pytest

from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph, Operation
from pipesched.hls.schedule import UnitClass, assign_classes, make_units


def classes(counts: dict[str, int], *types: str) -> list[str]:
    units = make_units(counts)
    graph = DataflowGraph(tuple(Operation(f"{n}", kind) for n, kind in enumerate(types)), (), "g")
    return [units[place].name for place in assign_classes(graph, units)]


def test_mul_and_div_of_any_case_multiply_and_the_rest_adds() -> None:
    types = ("MUL", "div", "ADD", "sub", "les", "imp", "LOD", "BGE")
    assert classes({"mul": 1, "add": 1}, *types) == ["mul", "mul", "add", "add", "add", "add", "add", "add"]


def test_a_declared_class_takes_its_own_types() -> None:
    """`sub` takes subtractions, `cmp` comparisons and branches, `div` divisions, away from adders and multipliers."""
    types = ("mul", "DIV", "add", "SUB", "les", "BNE", "geq")
    counts = {"mul": 1, "add": 1, "sub": 1, "cmp": 1, "div": 1}
    assert classes(counts, *types) == ["mul", "div", "add", "sub", "cmp", "cmp", "cmp"]


def test_units_by_default_and_their_cycles() -> None:
    assert make_units() == (UnitClass("mul", 1, 1, 1), UnitClass("add", 2, 1, 1))
    assert make_units({"mul": 2}, {"MUL": 3}) == (UnitClass("mul", 2, 3, 3),)
    assert make_units({"mul": 2}, {"mul": 3}, ["Mul"]) == (UnitClass("mul", 2, 3, 1),)


def test_an_operation_without_a_unit_is_named() -> None:
    with pytest.raises(ConfigError, match=r"g: operation '1': no unit runs 'div'; .* `units` mul=1"):
        classes({"add": 2}, "add", "div")
    with pytest.raises(ConfigError, match="no unit runs 'les'"):
        classes({"mul": 2, "add": 0}, "les")


def test_a_misspelt_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'mul'") as refusal:
        classes({"mull": 1, "add": 1}, "add")
    assert refusal.value.key == "units"

"""Hardware schedules: registers by hand and against a plain count, units, and the check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from pipesched.errors import InvalidSchedule
from pipesched.hls.graph import DataflowGraph, parse_program
from pipesched.hls.outcome import list_outcome
from pipesched.hls.schedule import (
    HardwareSchedule,
    Units,
    assign_classes,
    bound_to_units,
    checked,
    make_units,
    place_on_units,
)
from tests.hls.conftest import broken_rules, most_alive
from tests.strategies import dataflows, unit_sets

UNITS = make_units({"mul": 1, "add": 2})


def test_registers_of_the_article() -> None:
    """Two sums wait for their product; then a product, and the two other sums; then two products' turn."""
    schedule = list_outcome(parse_program("(a+b)*(c+d)+(e+f)*(g+h)"), UNITS).schedule
    assert list(schedule.starts) == [0, 0, 1, 1, 1, 2, 3]
    assert schedule.alive == [0, 2, 3, 2, 0]
    assert (schedule.latency, schedule.registers) == (4, 3)


@given(graph=dataflows(), units=unit_sets(), rule=st.sampled_from(["alap", "none"]))
def test_registers_are_those_of_a_plain_count(graph: DataflowGraph, units: Units, rule: str) -> None:
    schedule = list_outcome(graph, units, priority=rule).schedule
    assert schedule.registers == most_alive(schedule, 1)


def test_registers_of_a_loop_count_all_iterations() -> None:
    """A value that lives for 5 boundaries of a loop of 2 cycles is alive up to three times at once."""
    graph = parse_program("x = a + b\ny = x + c", loop=True)
    units = make_units({"add": 4})
    schedule = HardwareSchedule(graph, units, [0, 0], [0, 5], [0, 1], interval=2)
    assert schedule.alive == [2, 3]
    assert schedule.registers == 3 == most_alive(schedule, 9)


@given(graph=dataflows(), units=unit_sets())
def test_operations_get_units_that_are_free(graph: DataflowGraph, units: Units) -> None:
    """Placing the starts of a list schedule anew passes the check as well."""
    schedule = list_outcome(graph, units).schedule
    instances = place_on_units(schedule.starts, schedule.classes, units)
    checked(replace(schedule, instances=instances))


def test_units_take_turns_where_an_iteration_cannot_keep_its_own() -> None:
    """Three operations of 2 cycles on 2 units every 3 cycles: full, but only if the units rotate."""
    graph, units = parse_program("a*b\nc*d\ne*f", loop=True), make_units({"mul": 2}, {"mul": 2})
    schedule = checked(bound_to_units(graph, units, [0, 0, 0], [0, 1, 2], 3))
    assert schedule.instances == ()
    assert schedule.unrolled(2) == ([0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 0, 1])
    assert bound_to_units(graph, units, [0, 0, 0], [0, 1, 2], 4).instances == [0, 1, 0]


@pytest.mark.parametrize(
    ("starts", "instances", "said"),
    [
        ([0, 0, 0, 1, 1, 2, 3], [0, 1, 0, 0, 1, 0, 0], "*3 starts at 0, before +1 lets it at 1"),
        ([0, 0, 1, 1, 1, 2, 3], [0, 0, 0, 0, 1, 0, 0], "+2 starts at 0 while +1 is running"),
        ([0, 0, 1, 1, 1, 2, 3], [0, 2, 0, 0, 1, 0, 0], "+2 is on unit 2 of 2 add"),
        ([0, 0, 1, -1, 1, 2, 3], [0, 1, 0, 0, 1, 0, 0], "+4 never starts"),
    ],
)
def test_the_check_names_what_is_broken(starts: list[int], instances: list[int], said: str) -> None:
    graph = parse_program("(a+b)*(c+d)+(e+f)*(g+h)")
    schedule = HardwareSchedule(graph, UNITS, assign_classes(graph, UNITS), starts, instances)
    with pytest.raises(InvalidSchedule) as caught:
        checked(schedule)
    assert said in " / ".join(caught.value.violations)


def test_the_check_sees_a_later_iteration() -> None:
    """A loop whose iterations meet on the adder, and one whose recurrence is too long."""
    graph, units = parse_program("x = x + a", loop=True), make_units({"add": 1}, {"add": 2})
    with pytest.raises(InvalidSchedule, match="x of iteration 1"):
        checked(HardwareSchedule(graph, units, [0], [0], [0], interval=1))
    assert broken_rules(HardwareSchedule(graph, units, [0], [0], [0], interval=1), 3)
    checked(HardwareSchedule(graph, units, [0], [0], [0], interval=2))

"""Schedules of programs: list, modulo and searched ones, compared."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from itertools import product

import pytest
from hypothesis import given, strategies as st

from pipesched import InvalidSchedule, NoSchedule, hls
from pipesched.core.listsched import PRIORITIES
from pipesched.hls.graph import DataflowGraph, parse_program
from pipesched.hls.modulo import interval_bounds, pipeline
from pipesched.hls.outcome import COMPARED, compare_rules, list_outcome
from pipesched.hls.schedule import (
    HardwareSchedule,
    Units,
    assign_classes,
    bound_to_units,
    checked,
    make_units,
    place_on_units,
)
from tests.examples import examples
from tests.hls.conftest import Classic, UnitsOf, broken_rules, most_alive
from tests.strategies import dataflows, unit_sets

UNITS = make_units({"mul": 1, "add": 2})


@given(graph=dataflows(), units=unit_sets(), rule=st.sampled_from(["alap", "none"]))
def test_registers_are_those_of_a_plain_count(graph: DataflowGraph, units: Units, rule: str) -> None:
    schedule = list_outcome(graph, units, priority=rule).schedule
    assert schedule.registers == most_alive(schedule, 1)


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


def test_a_loop_without_feedback_is_as_fast_as_its_units() -> None:
    found = pipeline(parse_program("y = a*b + c*d", loop=True), make_units({"add": 1, "mul": 2}), time_limit=10)
    assert (found.schedule.interval, found.schedule.latency, found.status) == (1, 2, "optimal")


def least_interval(graph: DataflowGraph, units: Units) -> int:
    """The smallest interval by trying all residues: do the recurrences then have a solution (Floyd and Warshall)?"""
    classes = assign_classes(graph, units)

    def fits(period: int, residues: tuple[int, ...]) -> bool:
        for place, unit in enumerate(units):
            users = [residue for residue, home in zip(residues, classes, strict=True) if home == place]
            held = [(residue + cycle) % period for residue in users for cycle in range(unit.interval)]
            if any(held.count(cycle) > unit.count for cycle in range(period)):
                return False
        size = len(graph)
        turns = [[float("-inf")] * size for _ in range(size)]
        for before, after, distance in graph.dependences:
            wait = residues[before] + units[classes[before]].latency - residues[after]
            turns[before][after] = max(turns[before][after], -(-wait // period) - distance)
        for k, i, j in product(range(size), repeat=3):
            turns[i][j] = max(turns[i][j], turns[i][k] + turns[k][j])
        return all(turns[task][task] <= 0 for task in range(size))

    period = 1
    while not any(fits(period, residues) for residues in product(range(period), repeat=len(graph))):
        period += 1
    return period


@examples(25)
@given(graph=dataflows(most=4, loop=True), units=unit_sets(most=2, longest=2))
def test_the_smallest_interval_is_that_of_brute_force(graph: DataflowGraph, units: Units) -> None:
    """Random loops; the schedule keeps every rule over many iterations."""
    found = pipeline(graph, units, time_limit=10)
    assert found.status == "optimal"
    assert found.schedule.interval == found.bound == least_interval(graph, units)
    assert max(interval_bounds(graph, units)) <= found.bound
    assert broken_rules(found.schedule, iterations=6) == []
    assert found.schedule.registers == most_alive(found.schedule, iterations=30)


def test_an_interval_of_thousands_of_cycles_is_refused() -> None:
    """10 divisions of 1,000 cycles on one unit: the model would not fit in memory."""
    graph = parse_program("\n".join(f"a{n} / b{n}" for n in range(10)), loop=True)
    with pytest.raises(NoSchedule, match="interval of 10000 cycles is too long"):
        pipeline(graph, make_units({"mul": 1}, {"mul": 1000}))


def test_no_time_leaves_a_list_schedule(classic: Classic, units_of: UnitsOf) -> None:
    """Repeated as soon as units and recurrences allow: a rule of every loop, and no worse than one at a time."""
    graph, units = classic("ewf-loop", loop=True), units_of(1, 1)
    found = pipeline(graph, units, time_limit=1e-6)
    assert (found.method, found.bound, found.stopped_by) == ("list, repeated", 26, "time")
    assert found.schedule.interval is not None
    assert 26 < found.schedule.interval <= found.schedule.latency
    assert broken_rules(found.schedule, iterations=5) == []


@examples(25)
@given(graph=dataflows(most=8, loop=True), units=unit_sets(most=2, longest=3))
def test_a_list_schedule_can_always_be_repeated(graph: DataflowGraph, units: Units) -> None:
    found = pipeline(graph, units, time_limit=1e-9)
    assert found.bound <= found.objective <= found.schedule.latency or found.bound == found.objective
    assert (found.status == "optimal") == (found.bound == found.objective)
    assert broken_rules(found.schedule, iterations=6) == []


def test_all_searches_take_the_same_settings() -> None:
    """What may be said of one search may be said of all, with the same defaults."""
    kinds = {str(list(signature(one).parameters.values())) for one in (hls.solve, hls.pipeline, hls.compare_rules)}
    assert len(kinds) == 1
    assert [*signature(hls.solve).parameters] == ["graph", "units", "time_limit", "workers", "seed"]


CROSSED = "p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s"


def test_every_rule_once_and_as_the_list_scheduler_has_it(units_of: UnitsOf) -> None:
    graph, units = parse_program(CROSSED), units_of(2, 1)
    table = compare_rules(graph, units, seed=3)
    assert list(table.results) == [(priority, tie) for priority in PRIORITIES for tie in COMPARED]
    for (priority, tie), cell in table.results.items():
        schedule = list_outcome(graph, units, priority=priority, tie=tie, seed=3).schedule
        assert cell == (schedule.latency, schedule.registers)
    assert table.optimum.schedule.latency == 4


def test_remarks_on_the_article(units_of: UnitsOf) -> None:
    """All four sums are equal to every priority, and only `pairing` is right in every order of them."""
    remarks = compare_rules(parse_program("(a+b)*(c+d)+(e+f)*(g+h)"), units_of(2, 1)).remarks
    assert remarks == (
        "Every priority ranks a+b, c+d, e+f, g+h equal: which of them go first, only the tie decides.",
        "With the operations in 20 random orders (priority alap): input 4 to 5, pairing 4 cycles.",
    )
    assert "Every priority ranks p, q, r, s equal" in compare_rules(parse_program(CROSSED), units_of(2, 1)).remarks[0]


def test_remarks_where_no_rule_is_optimal_and_where_registers_differ(classic: Classic, units_of: UnitsOf) -> None:
    remarks = compare_rules(classic("ewf"), units_of(4, 3, 2)).remarks
    assert remarks[0] == "No list schedule of these rules reaches 17 cycles; the best takes 18."
    registers = compare_rules(classic("hal"), units_of(1, 1)).remarks
    assert registers[-1] == "Of the schedules of 7 cycles, one needs 2 registers and another 4."


def test_nothing_is_remarked_where_nothing_differs(units_of: UnitsOf) -> None:
    assert compare_rules(parse_program("(a+b)*c"), units_of(2, 1)).remarks == ()

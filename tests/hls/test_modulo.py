"""Loops: published intervals, bounds by hand, brute force over residues, and the check of what comes out."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings

from pipesched.errors import NoSchedule
from pipesched.hls.graph import DataflowGraph, parse_program
from pipesched.hls.modulo import Intervals, interval_bounds, pipeline
from pipesched.hls.schedule import Units, assign_classes, make_units
from tests.hls.conftest import Classic, UnitsOf, broken_rules, most_alive
from tests.strategies import dataflows, unit_sets


@pytest.mark.parametrize(
    ("name", "add", "mul", "cycles", "pipelined", "bounds", "interval"),
    [
        ("hal-loop", 1, 1, 1, False, (6, 4), 6),
        ("hal-loop", 2, 2, 1, False, (3, 4), 4),
        ("hal-loop", 3, 3, 2, False, (4, 6), 6),
        ("fir-loop", 3, 3, 1, False, (3, 1), 3),
        ("fir-loop", 1, 1, 1, False, (9, 1), 9),
        ("ewf-loop", 3, 2, 2, False, (9, 16), 16),
        ("ewf-loop", 2, 2, 2, False, (13, 16), 17),
        ("ewf-loop", 2, 1, 2, True, (13, 16), 17),
        ("ewf-loop", 2, 2, 1, False, (13, 13), 15),
    ],
)
def test_the_smallest_interval_of_the_classics(
    classic: Classic,
    units_of: UnitsOf,
    name: str,
    add: int,
    mul: int,
    cycles: int,
    pipelined: bool,
    bounds: tuple[int, int],
    interval: int,
) -> None:
    """ResMII and RecMII, and the interval proved; 16 cycles is the published iteration bound of the wave filter."""
    graph, units = classic(name, loop=True), units_of(add, mul, cycles, pipelined=pipelined)
    assert interval_bounds(graph, units) == Intervals(*bounds)
    found = pipeline(graph, units, time_limit=30)
    assert (found.schedule.interval, found.bound, found.status) == (interval, interval, "optimal")
    assert broken_rules(found.schedule, iterations=5) == []


def test_bounds_by_hand() -> None:
    """Two recurrences: 3 cycles over one iteration, 7 over two; the latter asks for ceil(7/2)."""
    graph = parse_program("x = x * a + b\ny = (((p * c) + d) * e) * f\np = q\nq = y\n", loop=True)
    units = make_units({"add": 4, "mul": 4}, {"mul": 2})
    assert interval_bounds(graph, units) == Intervals(2, 4)
    assert interval_bounds(graph, make_units({"add": 1, "mul": 1}, {"mul": 2})) == Intervals(8, 4)


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


@settings(max_examples=25)
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


@settings(max_examples=25)
@given(graph=dataflows(most=8, loop=True), units=unit_sets(most=2, longest=3))
def test_a_list_schedule_can_always_be_repeated(graph: DataflowGraph, units: Units) -> None:
    found = pipeline(graph, units, time_limit=1e-9)
    assert found.bound <= found.objective <= found.schedule.latency or found.bound == found.objective
    assert (found.status == "optimal") == (found.bound == found.objective)
    assert broken_rules(found.schedule, iterations=6) == []

"""The shortest hardware schedules: published optima, plain brute force, and what never needs CP-SAT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.core.optimum import lower_bound
from pipesched.hls.graph import DataflowGraph, parse_program
from pipesched.hls.outcome import list_outcome, solve
from pipesched.hls.schedule import Units, assign_classes, lower, make_units
from tests.hls.conftest import Classic, UnitsOf, broken_rules, least_latency
from tests.strategies import dataflows, unit_sets

PROVEN = {  # (graph, cycles of a multiplication, pipelined): {(adders, multipliers): latency}
    ("hal", 1, False): {(2, 2): 4, (1, 2): 5, (1, 1): 7, (1, 3): 5},
    ("hal", 2, False): {(1, 1): 13, (1, 2): 8, (1, 3): 7, (2, 2): 7, (1, 4): 6, (2, 3): 6},
    ("hal", 2, True): {(1, 1): 8, (1, 2): 6},
    ("ewf", 2, False): {(3, 3): 17, (2, 2): 18, (2, 1): 21, (1, 1): 28, (1, 2): 28, (3, 1): 21, (4, 3): 17},
    ("ewf", 2, True): {(3, 2): 17, (3, 1): 18, (2, 1): 19},
    ("ewf", 1, False): {(1, 1): 27, (2, 1): 16, (3, 3): 14},
}
CASES = [(*key, *units, latency) for key, row in PROVEN.items() for units, latency in row.items()]


@pytest.mark.parametrize(("name", "cycles", "pipelined", "add", "mul", "latency"), CASES)
def test_published_optima_are_reached_and_proved(
    classic: Classic, units_of: UnitsOf, name: str, cycles: int, pipelined: bool, add: int, mul: int, latency: int
) -> None:
    """The differential equation solver and the elliptic wave filter on adders and multipliers."""
    found = solve(classic(name), units_of(add, mul, cycles, pipelined=pipelined), time_limit=30)
    assert (found.schedule.latency, found.bound, found.status) == (latency, latency, "optimal")
    assert broken_rules(found.schedule) == []


@pytest.mark.parametrize(
    ("cycles", "pipelined", "pairing", "crossing"), [(1, False, 4, 5), (2, False, 6, 7), (2, True, 5, 6)]
)
def test_the_article_pairs_in_any_order_of_the_operands(
    units_of: UnitsOf, cycles: int, pipelined: bool, pairing: int, crossing: int
) -> None:
    """With the sums in the order a+b, e+f, c+d, g+h only `pairing` avoids the crossing; `input` was lucky before."""
    units = units_of(2, 1, cycles, pipelined=pipelined)
    straight = parse_program("(a+b)*(c+d)+(e+f)*(g+h)")
    crossed = parse_program("p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s")
    for priority in PRIORITIES:
        assert list_outcome(straight, units, priority=priority, tie="input").schedule.latency == pairing
        for tie in TIES:
            latency = list_outcome(crossed, units, priority=priority, tie=tie).schedule.latency
            if tie != "random":
                assert latency == (pairing if tie == "pairing" else crossing)
    assert solve(crossed, units).schedule.latency == pairing


def test_balanced_sums_of_products_of_sums(units_of: UnitsOf) -> None:
    """16 products on 4 adders and 2 multipliers: 13 is optimal, `pairing` reaches it, lots take 14 to 17."""
    units = units_of(4, 2)
    terms = [f"(a{n}+b{n})*(c{n}+d{n})" for n in range(16)]
    while len(terms) > 1:
        terms = [f"({left}+{right})" for left, right in zip(terms[::2], terms[1::2], strict=True)]
    graph = parse_program(terms[0])
    assert solve(graph, units, time_limit=30).bound == 13
    assert list_outcome(graph, units, tie="pairing").schedule.latency == 13
    by_lot = {list_outcome(graph, units, tie="random", seed=seed).schedule.latency for seed in range(30)}
    assert by_lot <= {14, 15, 16, 17}
    assert len(by_lot) > 1


def test_no_rule_reaches_what_the_wave_filter_can(classic: Classic, units_of: UnitsOf) -> None:
    """4 adders and 3 multipliers of 2 cycles: every list schedule takes 18 cycles, the optimum 17."""
    graph, units = classic("ewf"), units_of(4, 3, 2)
    rules = [(priority, tie) for priority in PRIORITIES for tie in TIES]
    assert {list_outcome(graph, units, priority=p, tie=t).schedule.latency for p, t in rules} == {18}


def test_ties_decide_registers_at_equal_latency(classic: Classic, units_of: UnitsOf) -> None:
    """Eight AR filters on 2 adders and 2 multipliers of 2 cycles: 130 cycles with 18 registers, or with 34 and more."""
    one = classic("arf")
    graph = DataflowGraph(
        tuple(op._replace(name=f"{op.name}.{copy}") for copy in range(8) for op in one.operations),
        tuple(
            edge._replace(before=edge.before + copy * len(one), after=edge.after + copy * len(one))
            for copy in range(8)
            for edge in one.dependences
        ),
    )
    found = {tie: list_outcome(graph, units_of(2, 2, 2), tie=tie).schedule for tie in ("lifo", "fifo")}
    assert {schedule.latency for schedule in found.values()} == {130}
    assert found["lifo"].registers == 18
    assert found["fifo"].registers == 34


@given(graph=dataflows(most=9), units=unit_sets(), data=st.data())
def test_list_schedules_keep_every_rule(graph: DataflowGraph, units: Units, data: st.DataObject) -> None:
    """Every rule, against the plain check; no latency is under the bound; a seed repeats its lots."""
    priority, tie = data.draw(st.sampled_from(sorted(PRIORITIES))), data.draw(st.sampled_from(sorted(TIES)))
    found = list_outcome(graph, units, priority=priority, tie=tie, seed=7)
    assert broken_rules(found.schedule) == []
    assert found.bound <= found.schedule.latency
    assert (found.status == "optimal") == (found.bound == found.schedule.latency)
    again = list_outcome(graph, units, priority=priority, tie=tie, seed=7)
    assert list(again.schedule.starts) == list(found.schedule.starts)


@settings(max_examples=25)
@given(graph=dataflows(most=6), units=unit_sets(most=2, longest=2))
def test_optimum_of_tiny_graphs_is_that_of_brute_force(graph: DataflowGraph, units: Units) -> None:
    found = solve(graph, units, time_limit=10)
    assert broken_rules(found.schedule) == []
    classes = assign_classes(graph, units)
    assert found.status == "optimal"
    assert found.schedule.latency == found.bound == least_latency(graph, units, classes, found.schedule.latency)
    assert lower_bound(lower(graph, units, classes))[0] <= found.bound


def test_cp_sat_is_not_loaded_where_the_bound_is_met() -> None:
    """The article's example is settled by list schedule and bound: a process that solves it never imports OR-Tools."""
    command = (
        "import sys; from pipesched.hls.graph import parse_program; from pipesched.hls.outcome import solve;"
        "from pipesched.hls.schedule import make_units; "
        "found = solve(parse_program('(a+b)*(c+d)+(e+f)*(g+h)'), make_units());"
        "assert found.status == 'optimal'; assert not any('ortools' in name for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", command], check=True, cwd=Path(__file__).parents[2], timeout=60)


def test_a_time_limit_leaves_a_schedule_and_a_gap() -> None:
    """1,500 random operations in no time: a checked schedule, its bound, and why the search stopped."""
    random = Random(5)
    lines = [f"v{n} = v{random.randrange(max(n - 40, 0), n)} {random.choice('+-*')} x" for n in range(1, 600)]
    graph = parse_program("v0 = x * x\n" + "\n".join(lines))
    found = solve(graph, make_units({"add": 3, "mul": 2}, {"mul": 2}), time_limit=0.5)
    assert found.bound <= found.schedule.latency <= 1.1 * found.bound
    assert found.status == ("optimal" if found.bound == found.schedule.latency else "feasible")
    assert (found.status == "optimal") == (not found.stopped_by)

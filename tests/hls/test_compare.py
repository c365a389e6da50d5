"""The table of rules: each cell is its list schedule, and what is remarked is true."""

from __future__ import annotations

from pipesched.core.listsched import PRIORITIES
from pipesched.hls.graph import parse_program
from pipesched.hls.outcome import COMPARED, compare_rules, list_outcome
from tests.hls.conftest import Classic, UnitsOf

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

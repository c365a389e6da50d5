"""The chart of hardware schedules: golden text, widths, and what letters say without colour."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st
from rich.text import Text

from pipesched.config.hardware import load_hardware
from pipesched.hls.graph import DataflowGraph, Operation, parse_program
from pipesched.hls.outcome import list_outcome
from pipesched.hls.schedule import HardwareSchedule, Units, assign_classes, bound_to_units, checked, make_units
from pipesched.render.hardware import UnitChart, short_names
from tests.examples import examples
from tests.render.conftest import draw
from tests.strategies import dataflows, unit_sets

CLASSICS = Path(__file__).parents[2] / "configs" / "hls"


def article() -> HardwareSchedule:
    return list_outcome(parse_program("(a+b)*(c+d)+(e+f)*(g+h)"), make_units()).schedule


def hal_loop() -> HardwareSchedule:
    hardware = load_hardware(str(CLASSICS / "hal-loop.txt"), units={"mul": 3, "add": 2}, latency={"mul": 2}, loop=True)
    starts = [3, 0, 0, 2, 4, 0, 2, 5, 2, 4, 5]
    return checked(bound_to_units(*hardware, assign_classes(*hardware), starts, 6))


def ewf() -> HardwareSchedule:
    return list_outcome(
        *load_hardware(str(CLASSICS / "ewf.txt"), units={"mul": 2, "add": 2}, latency={"mul": 2})
    ).schedule


@examples(30)
@given(graph=dataflows(most=30), units=unit_sets(), width=st.integers(20, 140), colour=st.booleans())
def test_nothing_is_wider_than_the_terminal(graph: DataflowGraph, units: Units, width: int, colour: bool) -> None:
    """No line wraps; every unit has its row, and the last line of rows is the strip of registers."""
    chart = draw(UnitChart(list_outcome(graph, units).schedule), width, colour=colour)
    lines = Text.from_ansi(chart).plain.splitlines()
    assert all(len(line) <= width for line in lines)
    heads = [line[:3] for line in lines if line[:1].isalpha()]
    assert heads.count("add") >= units[0].count
    assert any(line.startswith("regs") for line in lines)


def test_of_many_units_those_without_work_are_left_out() -> None:
    schedule = list_outcome(parse_program("a+b\nc+d"), make_units({"add": 1000})).schedule
    rows = [line[:8].strip() for line in draw(UnitChart(schedule), 80).splitlines() if line.startswith("add")]
    assert rows == ["add 0", "add 1"]


def test_names_that_do_not_fit_lose_their_type() -> None:
    operations = [Operation("MUL_16", "MUL"), Operation("ADD_3", "ADD"), Operation("mul", "mul")]
    assert short_names(operations, 7) == ["MUL_16", "ADD_3", "mul"]
    assert short_names(operations, 6) == ["16", "3", "mul"]

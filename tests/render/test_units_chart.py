"""The chart of hardware schedules: golden text, widths, and what letters say without colour."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.text import Text

from pipesched.config.hls import load_hls
from pipesched.hls import DataflowGraph, HardwareSchedule, Operation, list_outcome, make_units, parse_program
from pipesched.hls.schedule import Units, assign_classes, bound_to_units, checked
from pipesched.render.grid import shortened
from pipesched.render.hardware import LONGEST, MOST, Numbers, UnitChart, short_names
from tests.examples import examples
from tests.render.conftest import draw
from tests.strategies import dataflows, unit_sets

CLASSICS = Path(__file__).parents[2] / "configs" / "hls"


def article() -> HardwareSchedule:
    return list_outcome(parse_program("(a+b)*(c+d)+(e+f)*(g+h)"), make_units()).schedule


def hal_loop() -> HardwareSchedule:
    hardware = load_hls(str(CLASSICS / "hal-loop.txt"), units={"mul": 3, "add": 2}, latency={"mul": 2}, loop=True)
    starts = [3, 0, 0, 2, 4, 0, 2, 5, 2, 4, 5]
    return checked(bound_to_units(*hardware, assign_classes(*hardware), starts, 6))


def ewf() -> HardwareSchedule:
    return list_outcome(*load_hls(str(CLASSICS / "ewf.txt"), units={"mul": 2, "add": 2}, latency={"mul": 2})).schedule


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


def chart(text: str) -> UnitChart:
    return UnitChart(list_outcome(parse_program(text), make_units()).schedule)


def below(drawn: str) -> list[str]:
    """The lines below the legend."""
    lines = drawn.splitlines()
    return lines[next(number for number, line in enumerate(lines) if "1 cycle" in line) + 1 :]


@pytest.mark.parametrize("colour", [False, True])
def test_what_does_not_fit_is_explained(colour: bool) -> None:
    """Whatever label is a number, and only that, has its expression below."""
    article = chart("(a+b)*(c+d)+(e+f)*(g+h)")
    whole = "+7 = (a+b)*(c+d)+(e+f)*(g+h)"
    assert below(draw(article, 80, colour=colour)) == [whole]
    assert below(draw(article, 40, colour=colour)) == ["*3 = (a+b)*(c+d)  *6 = (e+f)*(g+h)", whole]
    assert below(draw(article, 140, colour=colour)) == []


@pytest.mark.parametrize(
    ("program", "width", "explained"),
    [
        ("total = a + b\nproduct = total * c\n", 30, []),  # names of the program
        ("y = (first_value   # a comment\n   + second_value) * c\n", 40, ["+1 = first_value + second_value"]),
        ("y = (first_value + second_value日本) * c", 60, ["+1 = first_value + second_value日本"]),  # two columns each
        ("+".join(["value"] * 600), 80, []),  # columns that operations share have no labels
    ],
)
def test_what_names_need_no_explanation(program: str, width: int, explained: list[str]) -> None:
    assert below(draw(chart(program), width)) == explained


def test_of_many_the_first_are_explained() -> None:
    """And how many more there are; letters stay in ASCII where they must."""
    schedule = list_outcome(parse_program("+".join(["value"] * 60)), make_units()).schedule
    drawn = draw(UnitChart(schedule, ascii_only=True), 80)
    assert drawn.isascii()
    assert drawn.splitlines()[-1].endswith(f"and {59 - MOST} more without a name")
    assert re.findall(r"(\S+) = ", drawn)[-MOST:] == [f"+{number}" for number in range(1, MOST + 1)]


@given(text=st.text("ab+ ", min_size=1, max_size=120), most=st.integers(5, 60))
def test_a_long_expression_keeps_its_beginning_and_its_end(text: str, most: int) -> None:
    short = shortened(text, most, " … ")
    assert len(short) <= most
    assert short == text if len(text) <= most else re.fullmatch(r"[^…]* … [^…]*", short)
    first, _, last = short.partition(" … ")
    assert text.startswith(first)
    assert text.endswith(last)


@given(
    texts=st.lists(st.text("xyz*+", min_size=1, max_size=200), max_size=40),
    width=st.integers(20, 120),
    ascii_only=st.booleans(),
)
def test_no_item_is_wider_than_the_terminal(texts: list[str], width: int, ascii_only: bool) -> None:
    """One for each operation up to the most, and one that counts the others."""
    operations = [Operation(f"+{number}", "add", text) for number, text in enumerate(texts, 1)]
    drawn = draw(Numbers(operations, ascii_only=ascii_only), width)
    items = [item for line in drawn.splitlines() for item in re.split(r"  (?=\+|and )", line)]
    assert all(len(item) <= width for item in items)
    assert len(items) == min(len(texts), MOST) + (len(texts) > MOST)
    assert all(len(item) <= LONGEST + len("+40 = ") for item in items[:MOST])
    assert not ascii_only or drawn.isascii()


def test_graphs_have_names_for_everything() -> None:
    """A graph without a program has nothing to explain."""
    graph = DataflowGraph((Operation("a_long_name_of_an_addition", "add"),))
    assert below(draw(UnitChart(list_outcome(graph, make_units()).schedule), 30)) == []

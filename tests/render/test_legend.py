"""What labels of operations without a name stand for, below the legend of a chart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pipesched.hls.graph import DataflowGraph, Operation, parse_program
from pipesched.hls.outcome import list_outcome
from pipesched.hls.schedule import make_units
from pipesched.render.grid import shortened
from pipesched.render.hardware import LONGEST, MOST, Numbers, UnitChart
from tests.render.conftest import draw


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


def test_names_of_the_program_need_no_explanation() -> None:
    assert below(draw(chart("total = a + b\nproduct = total * c\n"), 30)) == []


def test_an_expression_on_several_lines_is_one_line() -> None:
    """Without its comments, and with one blank for many."""
    drawn = draw(chart("y = (first_value   # a comment\n   + second_value) * c\n"), 40)
    assert below(drawn) == ["+1 = first_value + second_value"]


def test_names_of_wide_letters_are_not_cut() -> None:
    """They take two columns each."""
    drawn = draw(chart("y = (first_value + second_value日本) * c"), 60)
    assert below(drawn) == ["+1 = first_value + second_value日本"]


def test_of_many_the_first_are_explained() -> None:
    """And how many more there are; letters stay in ASCII where they must."""
    schedule = list_outcome(parse_program("+".join(["value"] * 60)), make_units()).schedule
    drawn = draw(UnitChart(schedule, ascii_only=True), 80)
    assert drawn.isascii()
    assert drawn.splitlines()[-1].endswith(f"and {59 - MOST} more without a name")
    assert re.findall(r"(\S+) = ", drawn)[-MOST:] == [f"+{number}" for number in range(1, MOST + 1)]


def test_columns_that_operations_share_have_no_labels_to_explain() -> None:
    assert below(draw(chart("+".join(["value"] * 600)), 80)) == []


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

"""Programs: what becomes an operation, who needs whom, and what is refused where."""

from __future__ import annotations

import pytest

from pipesched.errors import ConfigError
from pipesched.hls.graph import DataflowGraph, parse_program


def edges(graph: DataflowGraph) -> set[tuple[str, str, int]]:
    name = [operation.name for operation in graph.operations]
    return {(name[before], name[after], distance) for before, after, distance in graph.dependences}


def test_an_expression_innermost_first() -> None:
    """Operations are numbered in the order of the text, operands before what needs them."""
    graph = parse_program("(a+b)*(c+d)+(e+f)*(g+h)")
    assert [(one.name, one.type, one.text) for one in graph.operations] == [
        ("+1", "add", "a+b"),
        ("+2", "add", "c+d"),
        ("*3", "mul", "(a+b)*(c+d)"),
        ("+4", "add", "e+f"),
        ("+5", "add", "g+h"),
        ("*6", "mul", "(e+f)*(g+h)"),
        ("+7", "add", "(a+b)*(c+d)+(e+f)*(g+h)"),
    ]
    assert edges(graph) == {
        ("+1", "*3", 0),
        ("+2", "*3", 0),
        ("+4", "*6", 0),
        ("+5", "*6", 0),
        ("*3", "+7", 0),
        ("*6", "+7", 0),
    }


def test_every_operator_has_a_type() -> None:
    graph = parse_program("x = -a + b - c * d / e // f\ny = ~a << b >> c & d | e ^ f\nz = a < b\nw = a != b\n")
    types = "neg add mul div div sub not lsl asr and xor or les neq"
    assert " ".join(one.type for one in graph.operations) == types


def test_names_stand_for_what_was_assigned_last() -> None:
    """A later assignment hides an earlier one; the first operation of a name keeps it."""
    graph = parse_program("s = a * b\ns = s + c\ns += d\nt = u = s * s\nv = t + u\n")
    assert edges(graph) == {("s", "+2", 0), ("+2", "+3", 0), ("+3", "t", 0), ("t", "v", 0)}


def test_equal_subexpressions_stay_apart_and_one_operand_twice_is_one_dependence() -> None:
    graph = parse_program("(a*b) + (a*b)")
    assert [one.type for one in graph.operations] == ["mul", "mul", "add"]
    assert edges(parse_program("x = a + b\ny = x * x")) == {("x", "y", 0)}


def test_signs_copies_constants_and_comments_are_no_operations() -> None:
    graph = parse_program("# a comment\nx = -1 * +a  # minus one\ny = x\nz = y + 2.5\n")
    assert [one.type for one in graph.operations] == ["mul", "add"]
    assert edges(graph) == {("x", "z", 0)}


def test_a_loop_reads_the_previous_iteration() -> None:
    """Before its assignment a name has its last value of the iteration before; copies add iterations."""
    graph = parse_program("acc = acc + x * c\n", loop=True)
    assert edges(graph) == {("*1", "acc", 0), ("acc", "acc", 1)}
    graph = parse_program("y = z0 + z1\nz1 = z0\nz0 = w\nw = y * c\n", loop=True)
    assert edges(graph) == {("w", "y", 2), ("w", "y", 3), ("y", "w", 0)}
    graph = parse_program("y = a + p\na = b\nb = a\np = q\nq = x\n", loop=True)
    assert edges(graph) == set()


def test_a_sum_of_thousands_of_terms() -> None:
    """A deep tree needs no recursion."""
    graph = parse_program("+".join(["x"] * 1500))
    assert len(graph) == 1499
    assert len(graph.dependences) == 1498


def test_a_long_line_is_shown_around_the_column() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_program("+".join(["a"] * 200) + "+f(x)+" + "+".join(["b"] * 200))
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 102
    assert shown[caret.index("^") :].startswith("f(x)")


@pytest.mark.parametrize("text", ["(" * 5000, "a\0b"])
def test_a_program_beyond_the_parser(text: str) -> None:
    """What it says of these depends on the version of Python."""
    with pytest.raises(ConfigError):
        parse_program(text)

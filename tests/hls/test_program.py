"""Programs as task graphs, their units and published graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipesched import ConfigError
from pipesched.config.hls import load_hls
from pipesched.hls.graph import DataflowGraph, Dependence, Operation, parse_program
from pipesched.hls.outcome import solve
from pipesched.hls.schedule import UnitClass, assign_classes, make_units
from tests.examples import at_night_but
from tests.hls.conftest import CLASSICS, UnitsOf, broken_rules


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


OPERATIONS = tuple(Operation(name, "add") for name in "abcd")


def test_a_cycle_is_named_in_its_order() -> None:
    edges = (Dependence(0, 1), Dependence(1, 2), Dependence(2, 3), Dependence(3, 1))
    with pytest.raises(ConfigError, match="b -> c -> d -> b wait for each other in a cycle"):
        DataflowGraph(OPERATIONS, edges, "g")
    with pytest.raises(ConfigError, match="a -> a wait"):
        DataflowGraph(OPERATIONS, (Dependence(0, 0),))


def test_a_cycle_over_iterations_is_a_loop() -> None:
    graph = DataflowGraph(OPERATIONS, (Dependence(0, 1), Dependence(1, 0, 1)))
    assert graph.is_loop
    assert not DataflowGraph(OPERATIONS, (Dependence(0, 1),)).is_loop
    assert [edge.before for edge in graph.inputs(0)] == [1]
    assert [edge.after for edge in graph.uses(0)] == [1]


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


GRAPHS = Path(__file__).parents[1] / "data" / "express"
SAME = {"hal": "hal", "ewf": "ewf", "arf": "arf"}  # our program: the published graph


def load(name: str) -> DataflowGraph:
    return load_hls(str(GRAPHS / f"{name}.json")).graph


@pytest.mark.parametrize("name", SAME)
@pytest.mark.slow
def test_our_programs_are_the_published_graphs(name: str, units_of: UnitsOf) -> None:
    """As many operations of each type with as many inputs and uses; and the same optimum."""
    ours, theirs = load_hls(str(CLASSICS / f"{name}.txt")).graph, load(SAME[name])

    def shape(graph: DataflowGraph) -> list[tuple[str, int, int]]:
        tasks = range(len(graph))
        return sorted((graph.operations[t].type.lower(), len(graph.inputs(t)), len(graph.uses(t))) for t in tasks)

    assert shape(ours) == shape(theirs)
    found = [solve(graph, units_of(2, 1, 2), time_limit=20).schedule.latency for graph in (ours, theirs)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "add", "mul", "cycles", "latency"),
    [
        ("collapse_pyr_dfg__113", 3, 2, 2, 16),
        ("feedback_points_dfg__7", 5, 3, 2, 13),
        ("cosine2", 3, 2, 2, 22),
        ("horner_bezier_surf_dfg__12", 3, 2, 2, 11),
        pytest.param("idctcol_dfg__3", 3, 2, 2, 32, marks=pytest.mark.nightly),
        ("idctcol_dfg__3", 4, 2, 2, 30),
        ("jpeg_fdct_islow_dfg__6", 3, 2, 2, 38),
        pytest.param("jpeg_idct_ifast_dfg__5", 3, 3, 2, 31, marks=pytest.mark.nightly),
        ("matmul_dfg__3", 3, 2, 2, 42),
        ("motion_vectors_dfg__7", 2, 1, 2, 29),
        ("write_bmp_header_dfg__7", 4, 2, 2, 26),
    ],
)
@pytest.mark.slow
def test_optima_of_mediabench(name: str, add: int, mul: int, cycles: int, latency: int, units_of: UnitsOf) -> None:
    found = solve(load(name), units_of(add, mul, cycles), time_limit=20)
    assert (found.schedule.latency, found.status) == (latency, "optimal")
    assert broken_rules(found.schedule) == []


@pytest.mark.parametrize("name", at_night_but(("dag_500",), ("invert_matrix_general_dfg__3", "dag_500", "dag_1500")))
@pytest.mark.slow
def test_large_graphs_have_a_schedule_and_a_small_gap(name: str, units_of: UnitsOf) -> None:
    content = json.loads((GRAPHS / f"{name}.json").read_text())
    found = solve(load(name), units_of(4, 2, 2), time_limit=2)
    assert len(found.schedule.starts) == len(content["ops"])
    assert found.bound <= found.schedule.latency <= 1.02 * found.bound

"""Values of earlier iterations, `x@2` and copies: what they depend on, and the registers that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.hls.graph import DataflowGraph, Delay, Dependence, parse_program, rewrite
from pipesched.hls.modulo import pipeline
from pipesched.hls.outcome import list_outcome, solve
from pipesched.hls.schedule import HardwareSchedule, Units, checked, make_units
from tests.hls.conftest import broken_rules, most_alive
from tests.strategies import unit_sets

LONG = 40  # iterations after which nothing of before the loop is left in copies of the programs drawn here
LEAST = 1e-9  # a list schedule, repeated


class Read(NamedTuple):
    """A name as an operand, and how many iterations earlier; 0: as it stands."""

    name: str
    distance: int = 0

    def __str__(self) -> str:
        return f"{self.name}@{self.distance}" if self.distance else self.name


class Line(NamedTuple):
    """An assignment: a copy of one operand, or the sum of two."""

    target: str
    operands: tuple[Read, ...]

    def __str__(self) -> str:
        return f"{self.target} = {' + '.join(map(str, self.operands))}"


class Made(NamedTuple):
    """A value while the loop runs: made by operation number `by`, or by the input of that name, in an iteration."""

    by: int | str
    iteration: int


Log = list[list[tuple[Made | None, ...]]]  # of each iteration, of each operation, its operands


def text_of(lines: list[Line]) -> str:
    return "\n".join(map(str, lines))


@st.composite
def programs(draw: st.DrawFn) -> list[Line]:
    """Random bodies of loops: sums and copies of three names and two inputs, some of them earlier."""
    read = st.builds(Read, st.sampled_from("abcxz"), st.integers(0, 3))
    line = st.builds(Line, st.sampled_from("abc"), st.lists(read, min_size=1, max_size=2).map(tuple))
    return [*draw(st.lists(line, max_size=6)), Line("y", (draw(read), draw(read)))]


def run(lines: list[Line], iterations: int) -> Log:
    """Run a loop on values that know who made them: the operands of each operation, for each iteration."""
    assigned = {line.target for line in lines}
    ends: list[dict[str, Made | None]] = []  # of each iteration, what the names stand for at its end
    log: Log = []
    for iteration in range(iterations):
        now: dict[str, Made | None] = {}

        def value(read: Read, now: dict[str, Made | None] = now, iteration: int = iteration) -> Made | None:
            if read.name not in assigned:
                return Made(read.name, iteration - read.distance)
            if not read.distance and read.name in now:
                return now[read.name]
            back = max(read.distance, 1)
            return ends[iteration - back][read.name] if back <= iteration else None

        operands: list[tuple[Made | None, ...]] = []
        for line in lines:
            values = tuple(map(value, line.operands))
            if len(values) == 2:
                operands.append(values)
            now[line.target] = values[0] if len(values) == 1 else Made(len(operands) - 1, iteration)
        ends.append(now)
        log.append(operands)
    return log


def held(log: Log, schedule: HardwareSchedule) -> Iterator[tuple[int, int]]:
    """The boundaries from and to which every value of a run is in a register."""
    period = schedule.interval or 0
    last: dict[Made, int] = {}
    for iteration, operations in enumerate(log):
        for task, operands in enumerate(operations):
            for value in operands:
                if value and (isinstance(value.by, int) or value.iteration < iteration):
                    last[value] = max(last.get(value, 0), iteration * period + schedule.starts[task])
    for value, boundary in last.items():
        after = schedule.ends[value.by] if isinstance(value.by, int) else period
        yield value.iteration * period + after, boundary


@given(lines=programs())
def test_dependences_are_those_of_a_run(lines: list[Line]) -> None:
    """Who makes what an operation reads, and how many iterations earlier, seen by running the loop."""
    graph = parse_program(text_of(lines), loop=True)
    dependences, delays = set(), set()
    for task, operands in enumerate(run(lines, LONG + 1)[LONG]):
        for value in operands:
            if value and isinstance(value.by, int):
                dependences.add(Dependence(value.by, task, LONG - value.iteration))
            elif value and value.iteration < LONG:
                delays.add(Delay(str(value.by), task, LONG - value.iteration))
    assert (set(graph.dependences), set(graph.delays)) == (dependences, delays)
    assert graph.is_loop == (any(edge.distance for edge in dependences) or bool(delays))


@settings(max_examples=60)
@given(lines=programs(), units=unit_sets(), seconds=st.sampled_from([LEAST, 5.0]))
def test_registers_are_those_of_a_run(lines: list[Line], units: Units, seconds: float) -> None:
    """The most values that are there and still needed at a boundary, of all values of a long run."""
    schedule = pipeline(parse_program(text_of(lines), loop=True), adders(units), time_limit=seconds).schedule
    period = schedule.interval or 0
    turns = 2 + schedule.latency // period
    spans = list(held(run(lines, 2 * LONG + turns), schedule))
    middle = range((LONG + turns) * period, (LONG + turns + 1) * period)
    counted = [sum(first <= boundary <= last for first, last in spans) for boundary in middle]
    assert schedule.alive == counted
    assert schedule.registers == max(counted) == most_alive(schedule, LONG + turns)
    assert broken_rules(schedule, 20) == []


def adders(units: Units) -> Units:
    """The adders alone: the programs here have only sums."""
    return tuple(unit for unit in units if unit.name == "add")


FIR = "y = c0*x + c1*x@1 + c2*x@2"
BY_HAND = "y = c0*x + c1*x1 + c2*x2\nx2 = x1\nx1 = x\n"
FORWARDS = "x1 = x@1\nx2 = x1@1\ny = c0*x + c1*x1 + c2*x2\n"


@pytest.mark.parametrize("text", [FIR, BY_HAND, FORWARDS])
@pytest.mark.parametrize(("mul", "add", "found"), [(3, 2, (1, 3, 7)), (1, 2, (3, 4, 4)), (1, 1, (3, 4, 4))])
def test_a_filter_is_the_same_in_every_form(text: str, mul: int, add: int, found: tuple[int, int, int]) -> None:
    """A delay line written as x@k, as copies below, and as copies above: one interval, latency and registers."""
    graph = parse_program(text, loop=True)
    assert graph.delays == (Delay("x", 1, 1), Delay("x", 3, 2))
    schedule = pipeline(graph, make_units({"mul": mul, "add": add}), time_limit=10).schedule
    assert (schedule.interval, schedule.latency, schedule.registers) == found


def test_the_order_of_copies_decides() -> None:
    """Copied upwards, x2 is what x1 was; copied downwards, both are the x of the iteration before."""
    graph = parse_program("y = x1 + x2\nx1 = x\nx2 = x1\n", loop=True)
    assert graph.delays == (Delay("x", 0, 1),)


@pytest.mark.parametrize(("distance", "alive"), [(1, [1, 1, 0]), (2, [2, 2, 1]), (3, [3, 3, 2])])
def test_registers_of_an_input_by_hand(distance: int, alive: list[int]) -> None:
    """Every 3 cycles: from the start of the next iteration to the start of its operation in cycle 1, inclusive."""
    graph = parse_program(f"y = a + x@{distance}", loop=True)
    schedule = checked(HardwareSchedule(graph, make_units({"add": 1}), [0], [1], [0], interval=3))
    assert schedule.alive == alive


@pytest.mark.parametrize(("distance", "alive"), [(1, [0, 0, 1]), (2, [1, 1, 2]), (3, [2, 2, 3])])
def test_registers_of_a_result_by_hand(distance: int, alive: list[int]) -> None:
    """Every 3 cycles: from the end of its operation in cycle 2 to its own start in cycle 2, iterations later."""
    graph = parse_program(f"y = a + y@{distance}", loop=True)
    schedule = checked(HardwareSchedule(graph, make_units({"add": 1}, {"add": 3}), [0], [2], [0], interval=3))
    assert schedule.ends == [5]
    assert schedule.alive == alive


def test_one_input_has_one_line_of_registers() -> None:
    """Several operations that need it at several distances share what holds it; another input has its own."""
    units = make_units({"add": 4})
    one = HardwareSchedule(parse_program("x@1 + a\nx@2 + b", loop=True), units, [0, 0], [0, 0], [0, 1], interval=1)
    two = HardwareSchedule(parse_program("x@1 + a\nz@2 + b", loop=True), units, [0, 0], [0, 0], [0, 1], interval=1)
    assert (one.registers, two.registers) == (2, 3)


def test_the_check_respects_distances() -> None:
    """A sum of 3 cycles may be read by itself every cycle three iterations later, not two."""
    units = make_units({"add": 1}, {"add": 3}, ["add"])
    checked(HardwareSchedule(parse_program("y = a + y@3", loop=True), units, [0], [0], [0], interval=1))
    with pytest.raises(InvalidSchedule, match="y of iteration 2"):
        checked(HardwareSchedule(parse_program("y = a + y@2", loop=True), units, [0], [0], [0], interval=1))


def test_before_its_assignment_a_name_is_that_of_one_iteration_earlier() -> None:
    """After it too, the name with @1 is what the name was at the end of the last iteration."""
    plain = parse_program("s = s + a\nt = s + b", loop=True).dependences
    assert parse_program("s = s@1 + a\nt = s + b", loop=True).dependences == plain
    assert Dependence(0, 1, 1) in parse_program("s = s@1 + a\nt = s@1 + b", loop=True).dependences


def test_one_run_of_a_loop_counts_its_own_values_only() -> None:
    """Scheduled once, nothing of an earlier iteration is in a register, nor waits for one."""
    graph = parse_program("u = a * s\ns = u + x@2", loop=True)
    for outcome in (list_outcome(graph, make_units()), solve(graph, make_units(), time_limit=10)):
        assert outcome.schedule.alive == [0, 1, 0]


def test_it_binds_tighter_than_every_operator() -> None:
    """c*x@1 is c times x@1, a minus in front too, with blanks or without; and the text of it stays as it is."""
    graph = parse_program("y = c*x @ 1 - -x@2*d", loop=True)
    assert [one.type for one in graph.operations] == ["mul", "neg", "mul", "sub"]
    assert graph.delays == (Delay("x", 0, 1), Delay("x", 1, 2))
    assert graph.operations[0].text == "c*x @ 1"


def test_names_of_other_letters_and_names_that_look_like_it() -> None:
    """x_1 is a name of its own beside x@1; columns are counted in bytes by the parser, in letters for us."""
    graph = parse_program("x_1 = a * b\ny = é@1 + x@1\nz = x_1 + y\n", loop=True)
    assert graph.delays == (Delay("é", 1, 1), Delay("x", 1, 1))
    assert Dependence(0, 2) in graph.dependences
    assert rewrite(["é + x @ 12", "if@1 + a.b@2"])[0] == "é + x___12\nif@1 + a.b@2"


def test_outside_a_loop_it_needs_one() -> None:
    with pytest.raises(ConfigError, match=r"'x@1', a value of an earlier iteration, needs a loop \(`pipeline`\)"):
        parse_program("y = a + x@1")


def test_a_constant_is_the_same_in_every_iteration() -> None:
    """Neither a number, nor a copy of one, nor copies of each other, have anything to wait for or to hold."""
    graph = parse_program("k = 3\ny = a + k@2\nz = p@1 + y\np = q\nq = p\n", loop=True)
    assert (graph.dependences, graph.delays) == ((Dependence(0, 1),), ())


@pytest.mark.parametrize(
    ("delay", "said"),
    [
        (Delay("x", 1, 1), r"delays\[0\]: must be a whole number of at least 0 \(at most 0\), not 1"),
        (Delay("x", 0, 0), r"delays\[0\]: must be a whole number of at least 1, not 0"),
        (Delay(1, 0, 1), "delays: must be a text, not 1"),  # type: ignore[arg-type]
        (("x", 0, 1), r"delays\[0\]: must be Delays"),
    ],
)
def test_a_delay_of_a_graph_is_checked(delay: Delay, said: str) -> None:
    operations = parse_program("a + b").operations
    with pytest.raises(ConfigError, match=said):
        DataflowGraph(operations, delays=(delay,))

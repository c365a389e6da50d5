"""Why a program takes so long: reasons, delays, outcomes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, InvalidSchedule, hls
from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.core.optimum import lower_bound
from pipesched.core.reasons import Idle
from pipesched.hls.graph import DataflowGraph, Delay, Dependence, parse_program, rewrite
from pipesched.hls.modulo import pipeline
from pipesched.hls.outcome import list_outcome, solve
from pipesched.hls.schedule import HardwareSchedule, Units, assign_classes, checked, lower, make_units
from tests.examples import examples
from tests.hls.conftest import Classic, UnitsOf, broken_rules, least_latency, most_alive
from tests.strategies import dataflows, unit_sets

ARTICLE = "(a+b)*(c+d)+(e+f)*(g+h)"  # +1 = a+b, +2 = c+d, *3, +4 = e+f, +5 = g+h, *6, +7
Time = int | Fraction


def explained(
    text: str, counts: Mapping[str, int], *more: Mapping[str, int] | Sequence[str]
) -> hls.HardwareExplanation:
    return hls.explain(list_outcome(hls.parse_program(text), make_units(counts, *more)))  # type: ignore[arg-type]


def test_why_an_operation_starts_when_it_does() -> None:
    """By its name or its expression: inputs and when they came, what it waited for, slack, and the chain to cycle 0."""
    found = explained(ARTICLE, {"mul": 1, "add": 2}, {"mul": 2})
    why = found.why("+7")
    assert (why.unit, why.start, why.end, why.allowed, why.slack) == (("add", 0), 5, 6, 5, 0)
    assert why.inputs == [("*3", 3), ("*6", 5)]
    assert (why.held_by, why.by_input, why.chain) == ("*6", True, ["+7", "*6", "*3", "+1"])
    assert found.why("e+f") == found.why("+4")
    assert (found.why("+4").held_by, found.why("+4").by_input, found.why("+4").slack) == ("+1", False, 1)
    assert (found.why("+1").held_by, found.why("+1").inputs) == (None, [])
    with pytest.raises(ConfigError, match=r"unknown operation '\+8'") as caught:
        found.why("+8")
    assert caught.value.key == "op"


def test_what_is_no_schedule_of_one_run() -> None:
    """Neither a graph, nor a loop, nor a schedule that breaks a rule is explained."""
    loop = hls.pipeline(hls.parse_program("x = x * a", loop=True), make_units(), time_limit=10)
    for bad, said in ((loop, "loop"), (loop.schedule, "loop"), (loop.schedule.graph, "must be a HardwareSchedule")):
        with pytest.raises(ConfigError, match=said) as caught:
            hls.explain(bad)  # type: ignore[arg-type]
        assert caught.value.key == "schedule"
    with pytest.raises(InvalidSchedule):
        hls.explain(HardwareSchedule(hls.parse_program("p = a*b\ny = p + c"), make_units(), [0, 1], [0, 0], [0, 0]))


@st.composite
def schedules(draw: st.DrawFn) -> HardwareSchedule:
    """Any schedule that keeps the rules: a random order, and operations up to two cycles later than they could be.

    Units may also be free at another time than their result is there, sooner or later.
    """
    graph = draw(dataflows(most=9))
    units = draw(unit_sets())
    if draw(st.booleans()):
        units = tuple(replace(unit, interval=draw(st.integers(1, 4))) for unit in units)
    random, late = Random(draw(st.integers(0, 10**6))), draw(st.booleans())
    return placed(graph, units, random, 2 if late else 0)


def placed(graph: DataflowGraph, units: Units, random: Random, late: int) -> HardwareSchedule:
    """A schedule by lot: each operation, in an order that respects dependences, on a random unit of its class."""
    classes = assign_classes(graph, units)
    free: Counter[tuple[int, int]] = Counter()
    starts, instances = [0] * len(graph), [0] * len(graph)
    for task in range(len(graph)):  # a drawn graph is in a topological order
        unit = units[classes[task]]
        instances[task] = random.randrange(unit.count)
        usable = [starts[edge.before] + units[classes[edge.before]].latency for edge in graph.inputs(task)]
        starts[task] = max([free[classes[task], instances[task]], *usable]) + random.randint(0, late)
        free[classes[task], instances[task]] = starts[task] + unit.interval
    return HardwareSchedule(graph, units, classes, starts, instances)


def orders(schedule: HardwareSchedule) -> dict[tuple[int, int], list[int]]:
    """The operations of each unit that exists, in order."""
    held: dict[tuple[int, int], list[int]] = {
        (number, instance): [] for number, unit in enumerate(schedule.units) for instance in range(unit.count)
    }
    for task in sorted(range(len(schedule.graph)), key=schedule.starts.__getitem__):
        held[schedule.classes[task], schedule.instances[task]].append(task)
    return held


def latency_of(
    schedule: HardwareSchedule, latencies: Sequence[Time], intervals: Sequence[Time], after: Mapping[int, Time] = {}
) -> Time:
    """The latency of the same orders with other units, found by pushing starts until nothing moves.

    An operation of `after` starts at that time or later.
    """
    starts: list[Time] = [after.get(task, 0) for task in range(len(schedule.graph))]
    classes, rows = schedule.classes, orders(schedule).values()
    while True:
        before = [*starts]
        for edge in schedule.graph.dependences:
            starts[edge.after] = max(starts[edge.after], starts[edge.before] + latencies[classes[edge.before]])
        for row in rows:
            for first, second in pairwise(row):
                starts[second] = max(starts[second], starts[first] + intervals[classes[first]])
        if starts == before:
            return max(start + latencies[number] for start, number in zip(starts, classes, strict=True))


@given(schedules())
def test_every_idle_cycle_has_one_class(schedule: HardwareSchedule) -> None:
    """Cycle by cycle: a unit is busy or in one gap, and what a gap says of its culprit is true."""
    found = hls.explain(schedule)
    names = [operation.name for operation in schedule.graph.operations]
    for (number, instance), row in orders(schedule).items():
        unit = schedule.units[number]
        gaps = [gap for gap in found.gaps if gap.unit == (unit.name, instance)]
        for cycle in range(schedule.latency):
            busy = sum(schedule.starts[task] <= cycle < schedule.starts[task] + unit.interval for task in row)
            assert busy + sum(gap.start <= cycle < gap.end for gap in gaps) == 1
        for gap in gaps:
            culprit, coming = names.index(gap.culprit), [task for task in row if schedule.starts[task] >= gap.end]
            of = schedule.units[schedule.classes[culprit]]
            start = schedule.starts[culprit]
            assert gap.start < gap.end
            assert gap.waiting == (names[coming[0]] if coming else None)
            if gap.idle in {Idle.WARM_UP, Idle.WAIT, Idle.DRAIN}:
                assert start <= gap.start < gap.end <= start + of.interval
                assert (gap.idle is Idle.DRAIN) == (not coming)
                assert (gap.idle is Idle.WARM_UP) == (bool(coming) and coming[0] == row[0])
            elif gap.idle is Idle.TRANSFER:
                assert start + of.interval <= gap.start < gap.end <= start + of.latency
            elif gap.idle is Idle.ORDER:
                assert culprit in coming[1:] or culprit == coming[0]
                usable = [schedule.ends[edge.before] for edge in schedule.graph.inputs(culprit)]
                assert max(usable, default=0) <= gap.start
            else:
                assert gap.idle is Idle.LATE
                assert gap.end <= start
    assert found.idle == sum(sum(row.values()) for row in found.devices)
    assert found.unavoidable + found.avoidable == found.idle


@given(schedules())
def test_the_critical_path_is_contiguous(schedule: HardwareSchedule) -> None:
    """It begins with what waits for nothing, each is allowed by the one before, and it ends at the latency."""
    found = hls.explain(schedule)
    tasks = found.tasks
    path = tasks.critical_path
    assert tasks.allowed[path[0]] == 0
    for before, after in pairwise(path):
        edges = {edge.before for edge in schedule.graph.inputs(after)}
        same = (schedule.classes[before], schedule.instances[before]) == (
            schedule.classes[after], schedule.instances[after],
        )  # fmt: skip
        reached = {schedule.ends[before]} if before in edges else set()
        reached |= {schedule.starts[before] + schedule.unit(before).interval} if same else set()
        assert tasks.allowed[after] in reached
        assert found.why(tasks_name(schedule, after)).held_by == tasks_name(schedule, before)
    assert schedule.ends[path[-1]] == schedule.latency == tasks.makespan


def tasks_name(schedule: HardwareSchedule, task: int) -> str:
    return schedule.graph.operations[task].name


@given(schedules())
def test_slack_is_exact(schedule: HardwareSchedule) -> None:
    """An operation that is later by its slack leaves the latency as it is, and one cycle more moves it."""
    found = hls.explain(schedule)
    latencies, intervals = [unit.latency for unit in schedule.units], [unit.interval for unit in schedule.units]
    own = dict(enumerate(schedule.starts))
    for task, slack in enumerate(found.slack.values()):
        later = {**own, task: schedule.starts[task] + slack}
        assert latency_of(schedule, latencies, intervals, later) == schedule.latency
        later[task] += 1
        assert latency_of(schedule, latencies, intervals, later) > schedule.latency


@given(schedules())
def test_sensitivities_are_derivatives(schedule: HardwareSchedule) -> None:
    """By differences so small that no other path becomes the longest; and whole cycles by retiming."""
    found = hls.explain(schedule)
    latencies, intervals = [unit.latency for unit in schedule.units], [unit.interval for unit in schedule.units]
    small = Fraction(1, 1000)  # there are fewer operations, and all times are whole

    def changed(number: int, by: Time) -> Time:
        """The latency where the latency of a class changes; a unit that is free with its result stays so."""
        unit = schedule.units[number]
        lasting: list[Time] = [*latencies]
        occupied: list[Time] = [*intervals]
        lasting[number] += by
        occupied[number] += by if unit.interval == unit.latency else 0
        return latency_of(schedule, lasting, occupied)

    base = latency_of(schedule, latencies, intervals)
    assert found.early_latency == base
    numbers = {unit.name: number for number, unit in enumerate(schedule.units)}
    assert [numbers[row.unit_class] for row in found.sensitivity] == sorted(set(schedule.classes))
    for row in found.sensitivity:
        number = numbers[row.unit_class]
        assert (base - changed(number, -small)) / small == row.faster
        assert (changed(number, small) - base) / small == row.slower
        assert row.latency_slower == changed(number, 1)
        assert row.latency_faster == (None if latencies[number] == 1 else changed(number, -1))
        if found.tasks.starts == found.tasks.allowed:
            assert row.faster <= row.on_path <= row.slower


@given(dataflows(most=8), unit_sets())
def test_the_bound_is_that_of_the_outcome(graph: DataflowGraph, units: Units) -> None:
    """A schedule by itself has the same explanation as the outcome that holds it, but for the name of the method."""
    outcome = list_outcome(graph, units)
    one, other = hls.explain(outcome), hls.explain(outcome.schedule)
    assert (one.bound, one.gaps, one.sensitivity) == (other.bound, other.gaps, other.sensitivity)
    assert (one.method, other.method) == (outcome.method, "")


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


@examples(60)
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


def test_the_check_respects_distances() -> None:
    """A sum of 3 cycles may be read by itself every cycle three iterations later, not two."""
    units = make_units({"add": 1}, {"add": 3}, ["add"])
    checked(HardwareSchedule(parse_program("y = a + y@3", loop=True), units, [0], [0], [0], interval=1))
    with pytest.raises(InvalidSchedule, match="y of iteration 2"):
        checked(HardwareSchedule(parse_program("y = a + y@2", loop=True), units, [0], [0], [0], interval=1))


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


@examples(25)
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

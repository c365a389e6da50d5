"""Why schedules on functional units take as long as they do: by hand, and against plain restatements."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched import hls
from pipesched.core.reasons import NOTHING, Idle, classes
from pipesched.errors import ConfigError, InvalidSchedule
from pipesched.hls.graph import DataflowGraph
from pipesched.hls.outcome import list_outcome
from pipesched.hls.schedule import HardwareSchedule, UnitClass, Units, assign_classes, make_units
from tests.strategies import dataflows, unit_sets

ARTICLE = "(a+b)*(c+d)+(e+f)*(g+h)"  # +1 = a+b, +2 = c+d, *3, +4 = e+f, +5 = g+h, *6, +7
Time = int | Fraction


def explained(
    text: str, counts: Mapping[str, int], *more: Mapping[str, int] | Sequence[str]
) -> hls.HardwareExplanation:
    return hls.explain(list_outcome(hls.parse_program(text), make_units(counts, *more)))  # type: ignore[arg-type]


def test_the_article_by_hand() -> None:
    """Both sums of a product, then the next two beside the first product: five idle cycles, each with its reason."""
    found = explained(ARTICLE, {"mul": 1, "add": 2})
    assert (found.latency, found.bound, found.idle, found.unavoidable, found.avoidable) == (4, 4, 5, 5, 0)
    assert found.units == [("mul", 0), ("add", 0), ("add", 1)]
    assert found.gaps == [
        (("mul", 0), 0, 1, Idle.WARM_UP, "+1", "*3"),
        (("mul", 0), 3, 4, Idle.DRAIN, "+7", None),
        (("add", 0), 2, 3, Idle.WAIT, "*6", "+7"),
        (("add", 1), 2, 3, Idle.DRAIN, "*6", None),
        (("add", 1), 3, 4, Idle.DRAIN, "+7", None),
    ]
    assert found.critical_path == ["+1", "+4", "*6", "+7"]
    assert set(found.slack.values()) == {0}
    assert found.sensitivity == [("mul", 1, 1, 2, None, 6), ("add", 3, 2, 3, None, 7)]
    assert (found.totals[Idle.WARM_UP], found.totals[Idle.DRAIN], found.totals[Idle.WAIT]) == (1, 3, 1)


def test_a_pipelined_unit_by_hand() -> None:
    """A multiplication of three cycles occupies its unit for one; the other two are transfer, at the end too."""
    found = explained("a*b + c*d", {"mul": 1, "add": 1}, {"mul": 3}, ["mul"])
    assert found.gaps == [
        (("mul", 0), 2, 4, Idle.TRANSFER, "*2", None),
        (("mul", 0), 4, 5, Idle.DRAIN, "+3", None),
        (("add", 0), 0, 1, Idle.WARM_UP, "*1", "+3"),
        (("add", 0), 1, 2, Idle.WARM_UP, "*2", "+3"),
        (("add", 0), 2, 4, Idle.TRANSFER, "*2", "+3"),
    ]
    assert (found.critical_path, found.slack) == (["*1", "*2", "+3"], {"*1": 0, "*2": 0, "+3": 0})
    assert found.sensitivity == [("mul", 1, 1, 1, 4, 6), ("add", 1, 1, 1, None, 6)]
    last = explained("(a+b)*c", {"mul": 1, "add": 1}, {"mul": 3}, ["mul"])
    assert last.latency == 4
    assert last.gaps[:2] == [
        (("mul", 0), 0, 1, Idle.WARM_UP, "+1", "*2"),
        (("mul", 0), 2, 4, Idle.TRANSFER, "*2", None),
    ]
    assert last.gaps[2:] == [(("add", 0), 1, 2, Idle.DRAIN, "*2", None), (("add", 0), 2, 4, Idle.TRANSFER, "*2", None)]


def test_a_unit_that_is_occupied_longer_than_its_latency() -> None:
    """A result that is there before its unit is free: no idle cycle counts twice, and results make the latency."""
    graph = hls.parse_program("p = a*b\nq = p + c\nr = q + d")
    units = (UnitClass("mul", 1, 1, 4), UnitClass("add", 2, 1, 1))
    found = hls.explain(HardwareSchedule(graph, units, [0, 1, 1], [0, 1, 2], [0, 0, 1]))
    assert (found.latency, found.idle, found.critical_path) == (3, 4, ["p", "q", "r"])
    assert found.gaps == [
        (("add", 0), 0, 1, Idle.WARM_UP, "p", "q"),
        (("add", 0), 2, 3, Idle.DRAIN, "r", None),
        (("add", 1), 0, 1, Idle.WARM_UP, "p", "r"),
        (("add", 1), 1, 2, Idle.WARM_UP, "q", "r"),
    ]
    assert found.sensitivity == [("mul", 1, 1, 1, None, 4), ("add", 2, 2, 2, None, 5)]


def test_a_unit_that_runs_nothing_idles_all_the_time() -> None:
    """Its idle time is the latency, and it drains along the whole critical path."""
    found = explained("(a+b)*c", {"mul": 2, "add": 1})
    assert found.devices[1] == {**dict.fromkeys(classes(), 0), Idle.DRAIN: 2}
    assert [gap.culprit for gap in found.gaps if gap.unit == ("mul", 1)] == ["+1", "*2"]


def test_an_order_that_holds_something_back() -> None:
    """x may start at 0 on the only adder, and stands behind y, which waits for a product: order, culprit x."""
    graph = hls.parse_program("p = a*b\ny = p + c\nx = d + e")
    units = make_units({"mul": 1, "add": 1})
    found = hls.explain(HardwareSchedule(graph, units, [0, 1, 1], [0, 1, 2], [0, 0, 0]))
    assert (("add", 0), 0, 1, Idle.ORDER, "x", "y") in found.gaps
    assert found.bound == 2
    assert (found.unavoidable, found.avoidable) == (1, 2)


def test_late_times_are_late() -> None:
    """An operation that starts later than it could: late time, and sensitivities of the earliest times."""
    graph, units = hls.parse_program("p = a*b\ny = p + c"), make_units({"mul": 1, "add": 1})
    found = hls.explain(HardwareSchedule(graph, units, [0, 1], [1, 4], [0, 0]))
    assert [gap for gap in found.gaps if gap.idle is Idle.LATE and gap.unit[0] == "mul"] == [
        (("mul", 0), 0, 1, Idle.LATE, "p", "p"), (("mul", 0), 2, 4, Idle.LATE, "y", None),
    ]  # fmt: skip
    assert (found.latency, found.early_latency) == (5, 2)
    assert found.sensitivity == [("mul", 1, 1, 1, None, 3), ("add", 1, 1, 1, None, 3)]


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


def test_it_is_a_noun() -> None:
    """Frozen, short when printed, the same after pickle, and shown in notebooks."""
    found = explained(ARTICLE, {"mul": 1, "add": 2})
    assert repr(found) == "HardwareExplanation(latency 4, idle 5, most of it drain)"
    again = pickle.loads(pickle.dumps(found))
    assert (repr(again), again.gaps, again.slack) == (repr(found), found.gaps, found.slack)
    assert "critical path" in found._repr_mimebundle_()["text/plain"]
    with pytest.raises(AttributeError):
        found.bound = 3  # type: ignore[misc]


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


def test_tags_stand_only_where_the_latency_has_a_rest() -> None:
    """A unit that is free when its result is there counts by its operations, any other by what follows them."""
    units = (UnitClass("mul", 1, 3, 1), UnitClass("add", 1, 2, 2))
    tasks = hls.explain(list_outcome(hls.parse_program("a*b + c"), units)).tasks
    assert tasks.delivery_tags == [0, NOTHING]
    assert [*tasks.deliveries] == [2, 0]
    assert [(arc.lag, arc.tag) for arc in tasks.inputs[1]] == [(2, 0)]

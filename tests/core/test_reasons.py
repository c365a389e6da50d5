"""Reasons, idle time, sensitivities and moves of random timed tasks, judged by a naive second answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, strategies as st

from pipesched.core.order_moves import candidate_moves, legal_places, moved
from pipesched.core.reasons import NOTHING, Arc, Idle, TimedTasks, idle_gaps
from pipesched.core.sensitivity import path_counts
from tests.examples import examples
from tests.oracle.reasons import Arc as PlainArc, Plain, retimed

COLUMNS = 3  # costs; the tags of arcs are the first two
SCALE = 1000


def plain_of(tasks: TimedTasks) -> Plain:
    """The same tasks for the naive answer; their names are their numbers."""
    rows = [[str(task) for task in order] for order in tasks.orders]
    arcs = {
        str(task): [
            *(
                PlainArc(str(arc.before), arc.lag, None if arc.tag == NOTHING else arc.tag)
                for arc in tasks.inputs[task]
            ),
            *(PlainArc(str(before), is_input=False) for before in tasks.waits[task]),
        ]
        for order in tasks.orders
        for task in order
    }
    start = {slot: tasks.starts[int(slot)] for slot in arcs}
    arrived = {slot: tasks.arrived[int(slot)] for slot in arcs} if tasks.arrived else None
    return Plain(rows, tasks.devices, arcs, start, {slot: tasks.ends[int(slot)] for slot in arcs}, arrived)


@st.composite
def timed(draw: st.DrawFn, *, late: bool = False, least: int = 0) -> TimedTasks:
    """Up to fifteen tasks on up to three devices and two lanes, with inputs, tags and wait edges.

    The numbers of tasks do not follow the orders, one task runs nowhere, and a device waits for every lane. With
    `late`, some start later than they could.
    """
    random = Random(draw(st.integers(0, 10**9)))  # evenly: hypothesis would draw few times that are not 0
    devices, lanes, count = random.randint(1, 3), random.choice([0, 0, 1, 2]), random.randint(1, 14)
    size = count + 2
    numbers = random.sample(range(size), count + 1)  # in topological order; one task runs nowhere
    orders: list[list[int]] = [[] for _ in range(devices + lanes)]
    inputs: list[list[Arc]] = [[] for _ in range(size)]
    waits: list[list[int]] = [[] for _ in range(size)]
    for place, task in enumerate(numbers[:-1]):
        orders[random.randrange(len(orders))].append(task)
        for before in random.sample(numbers[:place], min(place, random.randint(0, 2))):
            tag = random.choice([NOTHING, 0, 1])
            inputs[task].append(
                Arc(before, random.choice([0, 0, 1, 2]) if tag == NOTHING else random.randint(least, 2), tag)
            )
        if place and random.random() < 0.2:
            waits[task].append(random.choice(numbers[:place]))
    orders[0].append(numbers[-1])
    inputs[numbers[-1]] = [Arc(lane[-1]) for lane in orders[devices:] if lane]
    durations = [random.randint(least, 4) for _ in range(size)]
    tasks = TimedTasks(durations, inputs, waits, orders, devices, [0] * size, [0] * size)
    release = {str(task): random.choice([0, 0, 0, 1, 3, 9]) for task in numbers} if late else {}
    return at(tasks, release)


def at(tasks: TimedTasks, release: dict[str, int]) -> TimedTasks:
    """The tasks at their earliest times, none before its release; the first start of a device is 0."""
    rows = [[str(task) for task in order] for order in tasks.orders]
    plain = plain_of(tasks)
    lengths = {slot: tasks.durations[int(slot)] for slot in plain.order}
    start, end = retimed(rows, plain.arcs, lengths, release)
    first = min(start.values())
    starts, ends = [NOTHING] * len(tasks.durations), [NOTHING] * len(tasks.durations)
    for slot, time in start.items():
        starts[int(slot)], ends[int(slot)] = time - first, end[slot] - first
    return TimedTasks(tasks.durations, tasks.inputs, tasks.waits, tasks.orders, tasks.devices, starts, ends)


@given(
    st.booleans().flatmap(lambda late: timed(late=late)),
    st.lists(st.integers(0, 2), min_size=16, max_size=16),
    st.none() | st.lists(st.integers(-1, 12), min_size=16, max_size=16),
)
@examples(300)
def test_idle_time_tick_by_tick(tasks: TimedTasks, takes: Sequence[int], arrived: Sequence[int] | None) -> None:
    """Every idle tick of every device has the class, the culprit and the waiting task of the rules, whatever fits.

    Of what was measured, whose messages `arrived` at times, late ones are told apart.
    """
    tasks = replace(tasks, arrived=(arrived or [])[: len(tasks.durations)])
    plain = plain_of(tasks)

    def fits(task: int, time: int) -> bool:
        return (7 * task + 3 * time) % 4 > 1

    found: list[list[tuple[int, int, str, str, str | None]]] = [[] for _ in range(tasks.devices)]
    for device, start, end, idle, culprit, waiting in idle_gaps(tasks, takes, fits):
        found[device].append((start, end, str(idle), str(culprit), None if waiting == NOTHING else str(waiting)))
    for device, gaps in enumerate(found):
        ticks = range(plain.makespan + 1)
        expected = plain.idle(device, ticks, lambda slot: takes[int(slot)] > 0, lambda slot, at: fits(int(slot), at))
        assert gaps == expected
        busy = sum(tasks.durations[task] for task in tasks.orders[device])
        assert sum(end - start for start, end, *_ in gaps) == tasks.makespan - busy
    assert {kind for gaps in found for _, _, kind, _, _ in gaps} <= {idle.value for idle in Idle}


@given(st.booleans().flatmap(lambda late: timed(late=late)))
@examples(300)
def test_what_holds_each_task_back(tasks: TimedTasks) -> None:
    """Allowed starts, tight predecessors, chains and the critical path are those of the rules."""
    plain = plain_of(tasks)
    for order in tasks.orders:
        for task in order:
            slot, tight = str(task), tasks.tight[task]
            expected = plain.tight(slot)
            assert tasks.allowed[task] == plain.allowed[slot]
            assert (tight and (str(tight.before), tight.lag)) == (expected and (expected.before, expected.lag))
            assert [*map(str, tasks.chain(task))] == plain.chain(slot)
    assert [*map(str, tasks.critical_path)] == plain.critical_path
    assert tasks.makespan == plain.makespan


@given(st.booleans().flatmap(lambda late: timed(late=late)))
@examples(300)
def test_slack(tasks: TimedTasks) -> None:
    """A task may end later by its slack without moving the makespan, and not by one tick more."""
    plain = plain_of(tasks)
    for order in tasks.orders:
        for task in order:
            most = tasks.starts[task] + tasks.slack[task]
            assert plain.with_release({str(task): most}) == plain.makespan
            assert plain.with_release({str(task): most + 1}) == plain.makespan + 1
    run = {task for order in tasks.orders for task in order}
    assert {tasks.slack[task] for task in range(len(tasks.durations)) if task not in run} <= {NOTHING}


@given(timed(least=1), st.lists(st.integers(0, COLUMNS - 1), min_size=16, max_size=16))
@examples(300)
def test_sensitivities(tasks: TimedTasks, column: Sequence[int]) -> None:
    """The counts are what a tiny change of each cost does to the makespan, in both directions."""
    plain = plain_of(tasks)
    found = path_counts(tasks, lambda task: [column[task]], COLUMNS)

    def makespan(changed: int, by: int) -> int:
        lengths = {slot: SCALE * plain.lengths[slot] + by * (column[int(slot)] == changed) for slot in plain.order}
        arcs = {
            slot: [arc._replace(lag=SCALE * arc.lag + by * (arc.boundary == changed)) for arc in own]
            for slot, own in plain.arcs.items()
        }
        _, end = retimed(plain.rows, arcs, lengths, {})
        return max(end[slot] for slot in plain.on_device)

    for changed, (least, most) in enumerate(found):
        whole = SCALE * plain.makespan
        assert (least, most) == (whole - makespan(changed, -1), makespan(changed, 1) - whole)


@given(timed())
@examples(300)
def test_moves(tasks: TimedTasks) -> None:
    """Legal places are those at which nothing deadlocks; no move that gains is left out, and no order tried twice."""
    plain = plain_of(tasks)
    lengths = plain.lengths
    chosen = [task for order in tasks.orders[: tasks.devices] for task in order]
    legal: dict[int, list[int]] = {task: [] for task in chosen}
    gaining = set()
    for device, order in enumerate(tasks.orders[: tasks.devices]):
        for task in order:
            for to in range(len(order)):
                rows = [*plain.rows]
                rest = [slot for slot in rows[device] if slot != str(task)]
                rows[device] = [*rest[:to], str(task), *rest[to:]]
                try:
                    _, end = retimed(rows, plain.arcs, lengths, {})
                except ValueError:
                    continue
                legal[task].append(to)
                if max(end[slot] for slot in plain.on_device) < plain.makespan:
                    gaining.add((device, tuple(rows[device])))
    assert [[*range(place.first, place.last + 1)] for place in legal_places(tasks, chosen)] == [*legal.values()]
    tried = []
    for task, start, to in candidate_moves(tasks):
        device = tasks.machine[task]
        assert tasks.orders[device][start] == task
        assert to in legal[task]
        tried.append((device, tuple(map(str, moved(tasks.orders[device], start, to)))))
    assert gaining <= set(tried)
    assert len(set(tried)) == len(tried)


def test_no_tasks() -> None:
    """Without any task there is no path, no idle time and nothing to move."""
    tasks = TimedTasks([], [], [], [[], []], 2, [], [])
    assert (tasks.makespan, tasks.last, tasks.critical_path, tasks.slack) == (0, NOTHING, [], [])
    assert [*idle_gaps(tasks, [], lambda _task, _time: True)] == []
    assert [*candidate_moves(tasks)] == []
    assert path_counts(tasks, lambda _: [0], 1) == [(0, 0)]


@pytest.mark.parametrize("first", [0, 1])
def test_ties(first: int) -> None:
    """Of arcs that reach a task at once an input goes first, then the longer lag, then the first in the orders."""
    # Tasks 0 and 1 end at 2 on two devices, task 2 at 1 on a lane; task 3 waits for all of them on the first device.
    inputs = [[], [], [], [Arc(1 - first), Arc(2, 1)]]
    orders = [[first, 3], [1 - first], [2]]
    tasks = TimedTasks([2, 2, 1, 3], inputs, [[], [], [], []], orders, 2, [0, 0, 0, 2], [2, 2, 1, 5])
    assert tasks.critical_path == [2, 3]
    inputs[3] = [Arc(1 - first), Arc(2, 0)]
    tasks = TimedTasks([2, 2, 2, 3], inputs, [[], [], [], []], orders, 2, [0, 0, 0, 2], [2, 2, 2, 5])
    assert tasks.critical_path == [1 - first, 3]
    inputs[3] = []
    tasks = TimedTasks([2, 2, 2, 3], inputs, [[], [], [], [2, 1 - first]], orders, 2, [0, 0, 0, 2], [2, 2, 2, 5])
    assert tasks.critical_path == [first, 3]

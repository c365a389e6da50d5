"""The engine of the page says what Python says: times, deadlocks, reasons, documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from random import Random
from typing import Any

import pytest

import pipesched
from pipesched import Deadlock, Explanation, NotApplicable, Outcome, PipeschedError, Schedule, explain, schedule_plan
from pipesched.core.reasons import Idle, legal_places
from pipesched.documents.schedule import parse
from pipesched.results.timed_moves import timed_tasks
from tests.examples import at_night_but
from tests.render.html.engine import NODE, answers, case, document_of
from tests.stepped import SHARDED, SIDE, forwards, sized, sliced
from tests.strategies import random_plan, random_saving_plan, saving_plan_of

pytestmark = [pytest.mark.skipif(NODE is None, reason="needs node"), pytest.mark.slow]


def problems() -> list[pipesched.Problem]:
    """Small problems of all sorts: uneven costs, latency, halves, overlap, offload and recompute, unlike devices.

    In some microbatches differ.
    """
    made = partial(pipesched.make_problem, devices=4, microbatches=8)
    works = [1, 2, 3, 0.5, 5, 1, 0, 2]
    table: Any = [works, 2, works[::-1], [1] * 7 + [3]]
    sizes = {"work": works, "activation": works[::-1], "message": [1, 0, 2, 1, 1, 3, 1, 1]}
    links = [[0, 1, 2, 3], [0, 0, 1, 2], [3, 2, 0, 1], [1, 1, 5, 0]]
    return [
        made(forward=table, backward_input=2, backward_weight=table, p2p=[1, 0, works], retain="1.5", sizes=sizes,
             budget=30),
        made(stages=4, overlap=4, offload=1, p2p=1, speed=[1, 2, 0.5, 1],
             sizes={"activation": works, "message": works}),
        made(stages=8, forward=5, backward=10),
        made(stages=4, forward=[1, 2, 3, "0.5"], backward=[2, 4, 6, 1], p2p=[1, 0, "2.25"]),
        made(stages=8, forward=2, backward_input=2, backward_weight=[1, 0, 3, 1, 1, 2, 1, 1], p2p=1, budget=5),
        made(stages=8, forward=3, backward=5, overlap=7, p2p="0.1", budget=[4, 3, 2, 2]),
        made(stages=4, forward=3, backward=5, recompute=2, offload=2, reload=3),
        made(stages=8, forward=2, backward_input=2, backward_weight=1, p2p=1, retain="1.5", budget=4),
        made(stages=8, forward=3, backward=5, overlap=7, recompute=2, offload=1, p2p=1, speed=[1, 2, 0.5, 0.7],
             links=links),
    ]  # fmt: skip


@cache
def outcomes() -> list[Outcome]:
    """A schedule of every family on every problem, with recompute and offload where it takes them, and of solves."""
    found = []
    for problem in problems():
        for known in pipesched.algorithms():
            for options in ({}, {"recompute": "full"}, {"offload": 1}):
                try:
                    found.append(pipesched.run(problem, known.name, **options))
                except PipeschedError:
                    continue
    found += [pipesched.solve(problem, method="portfolio", time_limit=2) for problem in problems()[2:4]]
    small = pipesched.make_problem(devices=2, microbatches=4, forward=2, backward=3, offload=1, budget=2)
    found.append(pipesched.solve(small, offload=True, recompute=True, time_limit=2))
    cut = {"count": 3, "attention": 0.5, "overhead": 1}
    found += [sliced(3, cut, p2p=1, kv=0.25, budget=6), sliced(2, 20), forwards(4, 3, kv=0.25, p2p=[1, 0, 2])]
    again: Any = {"devices": 4, "mode": "forward", "microbatches": 3, "rounds": 3, "kv": 0.25}
    again |= {"forward": [3, 1, 2, 2], "p2p": [1, 0, 2], "links": {"size": 2, "inside": 0, "between": 0.5}}
    found += [pipesched.run(pipesched.make_problem(**again), name) for name in ("naive", "list", "interleaved")]
    two_ways: Any = {"order": [7, 0, 3, 1, 2, 6, 4, 5]}
    found += [
        pipesched.run(problem, "chimera", **two_ways) for problem in (problems()[1], problems()[3], problems()[8])
    ]
    return [*found, sized(order="best"), forwards(3, sizes={"work": [3, 0, 1], "activation": [1, 2, 3]})]


def shuffled(orders: Sequence[Sequence[int]], random: Random) -> list[list[int]]:
    """The orders of devices with some neighbours exchanged: often they still run, often they hang."""
    changed = [list(order) for order in orders]
    for _ in range(random.choice([1, 1, 2, 5, 30])):
        order = random.choice(changed)
        if len(order) > 1:
            at = random.randrange(len(order) - 1)
            to = min(max(at + random.choice([-3, -1, 1, 2]), 0), len(order) - 1)
            order.insert(to, order.pop(at))
    return changed


def expected(outcome: Outcome, orders: list[list[int]]) -> dict[str, Any]:
    """What Python says about other orders of the devices."""
    plan = replace(outcome.schedule.plan, orders=orders)
    try:
        schedule = schedule_plan(outcome.problem, plan)
    except Deadlock as error:
        links = zip(error.cycle, error.awaited, strict=True)
        return {"deadlock": [[task, machine, before] for (task, machine), before in links]}
    of_pairs = set(plan.pairs.values())
    return {
        key: [-1 if number in of_pairs else time for number, time in enumerate(times)]
        for key, times in (("starts", schedule.start_ticks), ("ends", schedule.end_ticks))
    }


@pytest.mark.parametrize("count", at_night_but([100], [100, 200]))
def test_times_of_random_orders(count: int) -> None:
    """So many orders, made from every family's and from solves', have the same times or the same deadlock."""
    random = Random(0)
    made = random.sample(outcomes(), k=count)
    asked = [(outcome, shuffled(outcome.schedule.plan.orders, random)) for outcome in made]
    found = answers([case(outcome, orders) for outcome, orders in asked])
    hanging = 0
    for (outcome, orders), answer in zip(asked, found, strict=True):
        wanted = expected(outcome, orders)
        assert {key: answer.get(key) for key in wanted} == wanted, outcome.algorithm
        hanging += "deadlock" in wanted
    assert count * 0.1 < hanging < count * 0.9
    assert {outcome.algorithm for outcome, _ in asked} >= {
        one.name for one in pipesched.algorithms() if one.name != "block"
    }
    assert sum(outcome.problem.has_units for outcome, _ in asked) > count * 0.1


def late(outcome: Outcome) -> Outcome:
    """The same schedule, all of it later, and its last slots later still."""
    schedule, per = outcome.schedule, outcome.problem.ticks.per_unit
    last = max(schedule.end_ticks)
    times = [
        [
            -1 if time < 0 else time + per + (3 * per if end == last else 0)
            for time, end in zip(old, schedule.end_ticks, strict=True)
        ]
        for old in (schedule.start_ticks, schedule.end_ticks)
    ]
    return Outcome(outcome.algorithm, Schedule(outcome.problem, schedule.plan, *times))


def measured(outcome: Outcome, random: Random) -> Outcome:
    """The same order, each operation with a length of its own, later than it could be, and behind a message or none."""
    schedule = outcome.schedule
    late = [random.randint(0, 4) if length else 0 for length in schedule.graph.durations]
    lengths = [length + random.randint(0, 5) if length else 0 for length in schedule.graph.durations]
    replay = schedule_plan(outcome.problem, schedule.plan, [*map(sum, zip(lengths, late, strict=True))])
    for forward, backward in schedule.plan.pairs.items():
        late[backward] = late[forward]
    starts, ends, arrivals = ([-1] * len(late) for _ in range(3))
    slots = set(chain(*schedule.plan.orders))
    for number, begin in enumerate(replay.start_ticks):
        if begin >= 0:
            starts[number], ends[number] = begin + late[number] + 3, replay.end_ticks[number] + 3
        if number in slots:
            arrivals[number] = random.choice([-1, begin + 3 + random.randint(0, 5)])
    measured = Schedule(outcome.problem, schedule.plan, starts, ends, own_lengths=True, arrival_ticks=arrivals)
    return Outcome("measured", measured)


@pytest.fixture(scope="module", params=at_night_but([3], [1, 3]))
def explanations(request: pytest.FixtureRequest) -> list[tuple[Outcome, dict[str, Any]]]:
    made = outcomes()[:: request.param]
    explained = [*made[::7], *map(late, made[::17]), *(measured(one, Random(3)) for one in made[::19])]
    found = answers([case(outcome, explain=True) for outcome in explained])
    return list(zip(explained, found, strict=True))


@pytest.mark.nightly
def test_reasons(explanations: list[tuple[Outcome, dict[str, Any]]]) -> None:
    """Critical path, slack, idle time by class and culprit, sensitivities and the best move are those of explain."""
    assert {gap[3] for _, answer in explanations for gap in answer["gaps"]} == {*map(str, Idle)} - {str(Idle.QUEUE)}
    for outcome, answer in explanations:
        said, slot = assert_reasons(outcome, answer), outcome.schedule.plan.slot
        waiting = [None if gap.waiting < 0 else str(slot(gap.waiting)) for gap in said.gap_ticks]
        assert [gap[5] for gap in answer["gaps"]] == waiting, outcome.algorithm
        assert (answer["best"] is None) == (not said.moves)
        if said.moves:
            assert answer["best"]["makespan"] / outcome.problem.ticks.per_unit == said.moves[0].makespan


def assert_reasons(outcome: Outcome, answer: dict[str, Any]) -> Explanation:
    """Critical path, slack, gaps and what costs do are those of `explain`, which is returned."""
    said, slot, per = explain(outcome), outcome.schedule.plan.slot, outcome.problem.ticks.per_unit
    assert answer["path"] == [str(slot) for slot in said.critical_path], outcome.algorithm
    assert {op: slack / per for op, slack in answer["slack"].items()} == pytest.approx(said.slack)
    gaps = [[*gap[:3], gap.idle.value, str(slot(gap.culprit))] for gap in said.gap_ticks]
    assert [gap[:5] for gap in answer["gaps"]] == gaps, outcome.algorithm
    rows = {(r["stage"], r["kind"]): (r["faster"], r["slower"]) for r in answer["sensitivity"] if "kind" in r}
    assert rows == {(r.stage, r.kind): (r.faster, r.slower) for r in said.sensitivity}
    links = {r["boundary"]: (r["faster"], r["slower"]) for r in answer["sensitivity"] if "boundary" in r}
    assert links == {r.boundary: (r.faster, r.slower) for r in said.p2p_sensitivity}
    return said


QUEUED: list[tuple[str, dict[str, Any]]] = [
    ("interleaved", {"devices": 3, "stages": 6, "microbatches": 6, "p2p": 0.25}),
    ("looped-bfs", {"devices": 2, "stages": 4, "microbatches": 4, "p2p": [1, 0, 2]}),
    ("1f1b", {"devices": 3, "microbatches": 4, "p2p": 0}),
    ("zb-h1", {"devices": 3, "microbatches": 5, "p2p": [1, 0.5], "backward_input": 1, "backward_weight": 1}),
    ("dualpipe", {"devices": 4, "microbatches": 8, "p2p": 0.5, "overlap": 2.5}),
    ("seq-1f1b", {"devices": 2, "microbatches": 4, "p2p": 1, "slices": {"count": 2}, "kv": 0.25}),
    ("naive", {"devices": 3, "microbatches": 2, "p2p": 1, "mode": "forward", "rounds": 3}),
    ("1f1b", {**SIDE, "p2p": 1}),
    ("interleaved", {**SHARDED, "p2p": 1}),
]


def queued(queue: str, name: str, given: dict[str, Any]) -> Outcome:
    """A schedule whose messages queue, with buffers for them that differ."""
    backward = {} if "backward_input" in given or given.get("mode") else {"backward": 2}
    sizes = {} if given.get("rounds") else {"message": [*range(1, given["microbatches"] + 1)]}
    more: dict[str, Any] = {"sizes": sizes} if sizes else {}
    return pipesched.run(
        pipesched.make_problem(**{"forward": 1, **backward, **given}, messages=queue, receive=0.5, **more), name
    )


@pytest.mark.parametrize("queue", at_night_but(["rank"], ["edge", "pair", "rank", "device"]))
def test_messages_in_queues(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons, costs and document of messages in queues are those of Python; packed, late and random ones too."""
    made = [queued(queue, *one) for one in QUEUED]
    costs: dict[str, Any] = {"devices": 3, "stages": 6, "microbatches": 4, "forward": 2, "backward": 3, "recompute": 1}
    costs |= {"p2p": [1, 0, 2, 0.5, 1], "offload": 1, "placement": "loop"}
    costs |= {"messages": {"queue": queue, "order": "best"}}
    problem, random = pipesched.make_problem(**costs), Random(5)
    for _ in range(4 if queue == "rank" else 10):  # the others at night
        texts = random_saving_plan(problem, random, split=0, pair=0.3, recompute=0.2, offload=0.5, wait=0.2)
        made.append(Outcome("random", schedule_plan(problem, saving_plan_of(problem, texts))))
    made += [late(one) for one in made if not one.schedule.plan.network]
    found = answers([case(one, explain=True) for one in made])
    for outcome, answer in zip(made, found, strict=True):
        assert_reasons(outcome, answer)
        assert answer["document"] == document_of(outcome), outcome.algorithm
        parse(json.dumps(answer["document"]), "page")
    monkeypatch.setattr("pipesched.render.html.data.MOST_PLAIN", 0)
    assert answers([case(outcome, explain=True) for outcome in made]) == found


def test_legal_places(explanations: list[tuple[Outcome, dict[str, Any]]]) -> None:
    """The legal positions of every slot are those of the core."""
    for outcome, answer in explanations:
        tasks = timed_tasks(outcome.schedule)
        for order, found in zip(outcome.schedule.plan.orders, answer["legal"], strict=True):
            assert [tuple(places) for places in found] == legal_places(tasks, order), outcome.algorithm


def test_documents(explanations: list[tuple[Outcome, dict[str, Any]]]) -> None:
    """The document is that of Python, number by number, and reads back."""
    for outcome, answer in explanations:
        ours = document_of(outcome)
        assert answer["document"] == ours, outcome.algorithm
        parse(json.dumps(answer["document"]), "page")


def test_bidirectional_plans() -> None:
    """Both directions of a bidirectional pipeline have their own devices."""
    random = Random(2)
    problem = pipesched.make_problem(devices=4, microbatches=4, forward=2, backward=3, p2p=1, placement="bidirectional")
    asked = [
        Outcome("random", schedule_plan(problem, pipesched.plan(problem, random_plan(problem, random, pair=0.5))))
        for _ in range(5)
    ]
    for outcome, answer in zip(asked, answers([case(outcome, explain=True) for outcome in asked]), strict=True):
        assert answer["document"] == document_of(outcome)


def test_too_many_digits() -> None:
    """Times that a browser cannot add exactly are refused, not rounded."""
    problem = pipesched.make_problem(devices=2, microbatches=2, forward=["0.000000001", 999999999])
    with pytest.raises(NotApplicable, match="more digits"):
        case(pipesched.run(problem, "1f1b"))

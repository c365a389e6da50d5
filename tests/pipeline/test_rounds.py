"""Rounds of forward passes: a microbatch begins the next one when its last stage is done, and the result is back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import NoSchedule, NotApplicable, Problem, Schedule, check
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.check.check import violations
from pipesched.pipeline.problem.readers import with_budget
from tests.examples import examples

Pass = tuple[int, int]  # a stage, and a microbatch: r * K + k
FORWARDS = ("sequential", "naive", "interleaved", "looped-bfs", "list")


def made(stages: list[float], flight: int, rounds: int, **more: Any) -> Problem:
    """A problem of rounds on as many devices as stages, unless it is said."""
    values = {"devices": len(stages), "stages": len(stages), "forward": stages, "mode": "forward", **more}
    return pipesched.make_problem(**values, microbatches=flight, rounds=rounds)


@pytest.mark.parametrize("algorithm", FORWARDS)
@pytest.mark.parametrize(
    ("stages", "flight", "rounds", "makespan"),
    [([1, 2], 1, 3, 9), ([1, 2], 2, 3, 13), ([2, 2, 2, 2], 2, 3, 26), ([2], 2, 3, 12), ([1e-9, 10**12], 1, 3, 3e12)],
)
def test_known_makespans(algorithm: str, stages: list[float], flight: int, rounds: int, makespan: int) -> None:
    """Known makespans, which every family of forward passes reaches, and the bound; also beyond 64 bits of ticks."""
    outcome = pipesched.run(made(stages, flight, rounds), algorithm)
    assert check(outcome) == []
    assert (outcome.schedule.makespan, outcome.lower_bound) == (makespan, makespan)


@pytest.mark.parametrize(
    ("flight", "time"), [(1, 25.954), (3, 25.954), (6, 25.954), (7, 27.307), (8, 31.208), (12, 46.812)]
)
def test_a_round_takes_the_way_or_the_work(flight: int, time: float) -> None:
    """Eight stages of a model that decodes: a round is the sum of the stages, or all work of the slowest one."""
    stages = [3.153, *[3.15] * 6, 3.901]
    schedule = pipesched.run(made(stages, flight, 40, time_unit="ms"), "naive").schedule
    assert schedule.round_time == pytest.approx(time)
    assert schedule.throughput == pytest.approx(flight / time)
    assert pipesched.run(made(stages, flight, 1), "naive").schedule.round_time is None


class Setup(NamedTuple):
    """A problem as numbers of this test alone."""

    devices: list[int]
    lasts: list[Fraction]
    hops: list[Fraction]
    around: Fraction
    kv: Fraction
    flight: int
    rounds: int

    @property
    def passes(self) -> int:
        return self.flight * self.rounds


def random_setup(random: Random, most: int = 4) -> tuple[Problem, Setup]:
    """Any stages on any devices, with links and speeds, of a few passes."""
    count = random.randint(1, 3)
    devices = [*range(count), *(random.randrange(count) for _ in range(random.randint(0, 2)))]
    random.shuffle(devices)
    stages, half = len(devices), Fraction(1, 2)
    forward = [random.randint(1, 6) * half for _ in devices]
    p2p = [random.choice([0, 0, 1]) * half for _ in devices[1:]]
    speed = [random.choice([Fraction(1), Fraction(2), half]) for _ in range(count)]
    links = [[random.randint(0, 2) * half * (a != b) for b in range(count)] for a in range(count)]
    flight, rounds, kv = random.randint(1, 3), random.randint(1, most), random.choice([Fraction(0), Fraction(1, 4)])
    problem = pipesched.make_problem(
        devices=count, stages=stages, placement=devices, forward=forward, p2p=p2p, speed=speed, links=links,
        microbatches=flight, rounds=rounds, mode="forward", kv=kv, activation=1,
    )  # fmt: skip

    def hop(entry: Fraction, here: int, there: int) -> Fraction:
        return Fraction(0) if here == there else entry + links[here][there]

    hops = [hop(entry, *devices[at : at + 2]) for at, entry in enumerate(p2p)]
    around = hop(p2p[0], devices[-1], devices[0]) if p2p else Fraction(0)
    lasts = [time / speed[device] for time, device in zip(forward, devices, strict=True)]
    return problem, Setup(devices, lasts, hops, around, kv, flight, rounds)


def times(setup: Setup, order: list[Pass]) -> dict[Pass, Fraction]:
    """The end of each pass, where passes begin in this order, each as early as it may."""
    free, ends = [Fraction(0)] * (max(setup.devices) + 1), dict[Pass, Fraction]()
    for stage, number in order:
        start = free[setup.devices[stage]]
        if stage:
            start = max(start, ends[stage - 1, number] + setup.hops[stage - 1])
        elif number >= setup.flight:
            start = max(start, ends[len(setup.devices) - 1, number - setup.flight] + setup.around)
        free[setup.devices[stage]] = ends[stage, number] = start + setup.lasts[stage]
    return ends


def peaks(setup: Setup, order: list[Pass]) -> list[Fraction]:
    """The most that each device holds: an activation in a pass, and keys and values until the last round is done."""
    held, most = [Fraction(0)] * (max(setup.devices) + 1), [Fraction(0)] * (max(setup.devices) + 1)
    for stage, number in order:
        device = setup.devices[stage]
        most[device] = max(most[device], held[device] + 1)
        held[device] += setup.kv - setup.kv * setup.rounds * (number >= setup.passes - setup.flight)
    return most


def ready(setup: Setup, done: set[Pass]) -> list[Pass]:
    """What may come next."""
    found = []
    for k in range(setup.flight):
        gone = sum(
            (stage, r * setup.flight + k) in done for stage in range(len(setup.devices)) for r in range(setup.rounds)
        )
        turn, stage = divmod(gone, len(setup.devices))
        if turn < setup.rounds:
            found.append((stage, turn * setup.flight + k))
    return found


def every_order(setup: Setup, begun: list[Pass]) -> Iterator[list[Pass]]:
    """All orders in which the passes may be begun."""
    following = ready(setup, {*begun})
    if not following:
        yield begun
    for one in following:
        yield from every_order(setup, [*begun, one])


def planned(problem: Problem, setup: Setup, order: list[Pass]) -> Schedule:
    """The schedule of that order, device by device."""
    rows: list[list[str]] = [[] for _ in range(problem.devices)]
    for stage, number in order:
        rows[setup.devices[stage]].append(f"{stage}F{number}")
    return pipesched.schedule_plan(problem, pipesched.plan(problem, rows))


@given(st.integers(0, 10**6))
def test_random_plans(seed: int) -> None:
    """Times, memory, bound, check and document of any legal order are those that this test finds its own way."""
    random = Random(seed)
    problem, setup = random_setup(random)
    order: list[Pass] = []
    while following := ready(setup, {*order}):
        order.append(random.choice(following))
    schedule, ends = planned(problem, setup, order), times(setup, order)
    for (stage, number), end in ends.items():
        assert Fraction(schedule.end_ticks[stage * setup.passes + number], problem.ticks.per_unit) == end
    assert schedule.peak_memory == [*map(float, peaks(setup, order))]
    assert check(schedule) == []
    bound = lower_bound(schedule)
    assert bound.ticks <= schedule.makespan_ticks
    outcome = pipesched.Outcome("mine", schedule)
    content = document(outcome)["problem"]
    assert (content["microbatches"], content.get("rounds", 1)) == (setup.flight, setup.rounds)
    assert parse(dump(document(outcome)), "x.json").schedule.problem == problem


@given(st.integers(0, 10**6))
@examples(25)
def test_what_comes_too_early_is_found(seed: int) -> None:
    """The check, which did not build the schedule, says which pass began before the round before had ended."""
    random = Random(seed)
    flight, rounds = random.randint(1, 3), random.randint(2, 4)
    problem = made([random.randint(1, 4) for _ in range(3)], flight, rounds, p2p=[random.randint(0, 4) / 4] * 2)
    schedule = pipesched.run(replace(problem, placement=pipesched.run(problem, "naive").problem.placement), "naive")
    starts, ends = [*schedule.schedule.start_ticks], [*schedule.schedule.end_ticks]
    number = random.randrange(flight, flight * rounds)
    ready_at = ends[2 * flight * rounds + number - flight] + problem.ticks.mean["p2p"][0]
    length = ends[number] - starts[number]
    starts[number], ends[number] = ready_at - 1, ready_at - 1 + length
    wrong = Schedule(schedule.problem, schedule.schedule.plan, starts, ends)
    assert any(f"0F{number} starts at" in said and "before its input is there" in said for said in violations(wrong))


@given(st.integers(0, 10**6))
@examples(25)
def test_bounds_and_solves_beside_all_orders(seed: int) -> None:
    """No bound is above the best of all orders, and what a solve proves is that, with a budget too."""
    random = Random(seed)
    while True:
        problem, setup = random_setup(random, most=3)
        if setup.passes * len(setup.devices) <= 9:
            break
    found = [(max(times(setup, order).values()), peaks(setup, order)) for order in every_order(setup, [])]
    best = min(time for time, _ in found)
    for algorithm in FORWARDS:
        try:
            outcome = pipesched.run(problem, algorithm)
        except NotApplicable:
            continue
        assert check(outcome) == []
        if outcome.problem.placement == problem.placement:
            assert outcome.lower_bound <= best <= outcome.schedule.makespan
    for budget in (None, Fraction(random.randint(4, 8), 4)):
        fitting = [time for time, most in found if budget is None or max(most) <= budget]
        limited = problem if budget is None else with_budget(problem, budget)
        try:
            solved = pipesched.solve(limited, time_limit=20)
        except NoSchedule:
            assert not fitting
            continue
        assert check(solved) == []
        assert solved.status == "optimal"
        assert solved.schedule.makespan == min(fitting)


@pytest.mark.parametrize(("chunks", "flight", "group"), [*product((1, 2, 3), (1, 2, 3, 5), (None, 1, 2, 4, 9))])
def test_groups_hold_no_two_rounds(chunks: int, flight: int, group: int | None) -> None:
    """Interleaved with any group size and looped breadth-first run on several chunks: no group waits for itself."""
    problem = pipesched.make_problem(devices=2, chunks=chunks, microbatches=flight, rounds=3, mode="forward", p2p=1)
    for algorithm, options in (("interleaved", {"group_size": group} if group else {}), ("looped-bfs", {})):
        outcome = pipesched.run(problem, algorithm, **options)
        assert check(outcome) == []
        assert outcome.lower_bound <= outcome.schedule.makespan


def test_it_is_said_everywhere(tmp_path: Path) -> None:
    """Config, option, document, page, chart and table have the rounds, and the document reads back."""
    (tmp_path / "c.yaml").write_text(
        "devices: 2\nmicrobatches: 3\nmode: forward\nrounds: 4\ncosts: {forward: [1, 2]}\n"
    )
    problem = pipesched.load(tmp_path / "c.yaml")
    assert (problem.rounds, problem.batches, problem.microbatches) == (4, 3, 12)
    assert pipesched.load(tmp_path / "c.yaml", rounds=2).microbatches == 6
    outcome = pipesched.run(problem, "naive")
    assert (outcome.metrics["round_time"], outcome.metrics["throughput"]) == (6, 0.5)
    back = pipesched.read(pipesched.write(outcome, tmp_path / "x.json"))
    assert isinstance(back, pipesched.Outcome)
    assert back.problem == outcome.problem
    assert check(back) == []
    assert '"rounds":4' in outcome.to_html(tmp_path / "x.html").read_text(encoding="utf-8").replace(" ", "")
    swept = pipesched.sweep(tmp_path / "c.yaml", "rounds", [1, 2, 3], ["naive"])
    assert [(point.comparison[0].metrics or {})["makespan"] for point in swept] == [7, 13, 19]

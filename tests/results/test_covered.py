"""No schedule that the words of a printed bound cover is below it; the words are read here, by code of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, strategies as st

from pipesched import (
    ConfigError,
    NoSchedule,
    Outcome,
    Problem,
    Schedule,
    compare,
    explain,
    frontier,
    make_problem,
    pack,
    solve,
)
from pipesched.pipeline.bounds.memory import least_capacity
from pipesched.pipeline.layers.recut import balanced_for, layout_of
from pipesched.pipeline.problem.placement import named_placement, placement_name
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.pipeline.problem.readers import with_budget
from pipesched.render.html.data import schedule_data
from tests.examples import at_night_but, part
from tests.strategies import problems, with_capacities

BACKWARDS = {  # the passes of each way, the longest words first
    "backwards whole or in halves": {*"FBIW"},
    "backwards in halves": {*"FIW"},
    "backwards whole": {*"FB"},
}


class Said(NamedTuple):
    """A bound as it is printed: where, how much, which schedules it is about, and the one that it stands beside."""

    where: str
    bound: Fraction
    covers: str
    beside: Schedule | None = None


def is_there(said: Said, schedule: Schedule) -> bool:
    """Whether a schedule is on a cut and placement that the words of a bound are about."""
    words, problem = said.covers, schedule.problem
    chunks, stages = (re.search(f"{text}", words) for text in (r"all cuts, ([\d or]+) chunks?", r"into (\d+) stages"))
    if chunks is not None and str(problem.stages // problem.devices) not in chunks[1].split(" or "):
        return False
    if stages is not None and problem.stages != int(stages[1]):
        return False
    if "stages balanced" in words:
        limit = float(said.where.split()[1]) if said.where.startswith("frontier") else None
        balanced = balanced_for(problem) if limit is None else with_budget(problem, limit)
        if layout_of(problem) != layout_of(balanced):
            return False
    place = re.search(r"placements? (.+?)(?:, backwards|, within|, without|, activations|$)", words)
    if place is not None and not words.startswith("this"):
        return placement_name(problem.settled_placement, problem.devices) in place[1].split(", ")
    assert said.beside is not None
    assert words.startswith(("this placement", "this cut and placement"))
    own, other = (
        (one.costs.forward, one.memory.activation, one.settled_placement) for one in (said.beside.problem, problem)
    )
    return own == other


def is_covered(said: Said, schedule: Schedule) -> bool:
    """Whether the words of a bound are about a schedule."""
    words, letters = said.covers, {*schedule.plan.index.letters}
    backwards = next((kinds for way, kinds in BACKWARDS.items() if way in words), {"F"})
    if not letters & {*"FBIW"} <= backwards or not is_there(said, schedule):
        return False
    is_kept = "activations kept" not in words or not letters & {*"ROL"}
    is_alone = "without pairs" not in words or not schedule.plan.pairs
    return is_kept and is_alone and ("within the budget" not in words or schedule.fits)


def printed(outcomes: Sequence[Outcome], solved: Sequence[Outcome], problem: Problem) -> Iterator[Said]:
    """Every bound on a makespan that commands print of a problem."""
    for one in [*outcomes, *solved]:
        yield Said(f"run {one.algorithm}", to_fraction(one.lower_bound), one.covers, one.schedule)
        yield Said(f"shown {one.algorithm}", to_fraction(one.claim.bound.value), one.claim.covers, one.schedule)
        found = explain(one)
        yield Said("explain", to_fraction(found.bound.value), found.covers, one.schedule)
        yield Said("explain, here", to_fraction(found.here.bound.value), found.here.covers, one.schedule)
        page, per = schedule_data(one, "")["bound"], one.problem.ticks.per_unit
        yield Said("page", Fraction(page["shown"], per), page["of_shown"], one.schedule)
        yield Said("page, here", Fraction(max(page["ticks"], page["own"]), per), page["covers"], one.schedule)
        yield Said("page, over", Fraction(page["free"], per), page["of_free"], one.schedule)
    for report in (one.report for one in solved):
        assert report is not None
        yield Said("solve", to_fraction(report.bound.value), report.covers)
    with suppress(NoSchedule):
        points = frontier(problem, method="portfolio", time_limit=1)
        for point in points:  # a bound is of the budget of its point
            yield Said(f"frontier {point.budget}", to_fraction(point.bound), points.covers)


def check(problem: Problem) -> None:
    """No algorithm is below a bound that covers it."""
    outcomes = [entry.outcome for entry in compare(problem, "all") if entry.outcome is not None]
    solved: list[Outcome] = []
    for options in ({}, {"split_backward": True}, {"placement": "bidirectional"}):
        with suppress(NoSchedule, ConfigError):
            solved.append(solve(problem, method="portfolio", time_limit=1, advice=False, **options))
    for said in printed(outcomes, solved, problem):
        limit = float(said.where.split()[1]) if said.where.startswith("frontier") else None
        for other in [*outcomes, *solved]:
            schedule = other.schedule
            if is_covered(said, schedule) and (limit is None or max(schedule.memory) <= limit):
                what = f"{other.algorithm} takes {schedule.makespan}, {said.where}: {said.bound} for {said.covers}"
                per_unit, size = schedule.problem.ticks.per_unit, schedule.plan.index.size
                rounded = size if problem.speed is not None else 0  # two stages, or both as one, are unlike
                assert Fraction(schedule.makespan_ticks + rounded, per_unit) >= said.bound, what


@st.composite
def limited(draw: st.DrawFn) -> Problem:
    """A problem by stages, often with a budget, pairs, and devices that differ."""
    problem = draw(problems(("auto", "auto", "loop", "v", "explicit"), most_chunks=2, overlap=True, unlike=True))
    if draw(st.booleans()):
        return problem
    placed = replace(problem, placement=problem.placement or named_placement("linear", problem.devices, problem.stages))
    capacities = [least_capacity(placed, device) for device in range(placed.devices)]
    limits = [one + draw(st.integers(0, 2 * one)) for one in capacities]
    return replace(with_capacities(placed, limits), placement=problem.placement)


@part(3)
@given(limited())
@pytest.mark.slow
def test_no_algorithm_is_below_a_bound_that_covers_it(problem: Problem) -> None:
    check(problem)


def model(random: Random) -> dict[str, Any]:
    """Arguments of a problem by layers whose cut is open, often few microbatches."""
    devices, chunks = random.randint(2, 4), random.choice([1, 2])
    count = random.randint(devices * chunks + 1, devices * chunks + 5)
    halves = random.random() < 0.5
    keys = ["forward", *(["backward_input", "backward_weight"] if halves else ["backward"])]

    def times(most: int) -> dict[str, Any]:
        return {key: random.randint(0, most) for key in keys}

    layer: dict[str, Any] = {key: random.randint(1, 4) for key in keys}
    if random.random() < 0.5:
        layer["forward"] = [random.randint(1, 6) for _ in range(count)]
    layer["activation"] = 1
    budget = random.choice([None, None, random.randint(count // devices + 1, count)])
    return {
        "devices": devices, "chunks": chunks, "layers": count, "layer": layer, "first": times(2), "last": times(8),
        "microbatches": random.randint(1, 6), "p2p": random.choice([0, 0, 1]), "budget": budget,
    }  # fmt: skip


@pytest.mark.parametrize("seed", at_night_but((5,), range(24)))
@pytest.mark.slow
def test_no_algorithm_is_below_a_bound_over_cuts_that_covers_it(seed: int) -> None:
    """Also where the cut is open, and each algorithm has its own."""
    with suppress(NoSchedule):
        check(make_problem(**model(Random(seed))))


@pytest.mark.slow
def test_a_balanced_cut_is_one_for_the_budget() -> None:
    """The bound of a point of a frontier is of the cut that is balanced within its budget, which its words say."""
    layer: dict[str, Any] = {"forward": 1, "activation": 1, "backward_input": 1, "backward_weight": 1}
    last = {"forward": 5, "backward_input": 3, "backward_weight": 2}
    given: dict[str, Any] = {"devices": 2, "layers": 5, "microbatches": 5, "layer": layer, "last": last}
    problem = make_problem(**given, budget=6, slices={"count": 2, "attention": 0.5})
    check(problem)
    assert "balanced for the budget" in frontier(problem, method="portfolio", time_limit=5).covers
    for budget in (3, 4, 5, 6):  # layouts (3, 2), (2, 3), (2, 3) and (3, 2)
        limited = with_budget(problem, budget)
        points = frontier(limited, method="portfolio", time_limit=5).points
        (least,) = (point for point in points if point.budget == 3)
        assert (least.value, least.bound) == (83.25, 81.125)


@pytest.mark.parametrize("seed", at_night_but((4,), (0, 1, 2, 3, 4, 6, 7)))
@pytest.mark.slow
def test_no_packing_is_below_a_bound_that_covers_it(seed: int) -> None:
    """The bound of a packing is about so many microbatches, on its cut and placement, with its way of backwards."""
    random = Random(seed)
    lengths = [random.randint(1, 9) for _ in range(random.randint(4, 5))]
    given = model(random)
    given |= random.choice([{}, {"layout": "balanced"}, {"budget": None}])
    found = []
    for name in ("1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "naive"):
        with suppress(ConfigError, NoSchedule):
            packing = pack(
                lengths, ranks=2, cap=sum(lengths), problem=make_problem(**given), microbatches=2, algorithm=name
            )
            schedule = packing.schedule(packing.slowest)
            found.append((packing, schedule))
            assert packing.cut is not None
            assert len(packing.cut.layout) == schedule.problem.stages
    for packing, beside in found:
        assert "2 microbatches a rank on this cut" in packing.covers
        assert "stages where they are" in packing.covers
        words = packing.covers.replace("2 microbatches a rank on this cut, with", "this cut and placement,")
        for other, schedule in found:
            if packing.cut == other.cut and is_covered(Said("pack", Fraction(0), words, beside), schedule):
                assert to_fraction(other.makespan) >= to_fraction(packing.bound), (packing, other)

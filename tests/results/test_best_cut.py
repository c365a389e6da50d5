"""The best cut against every cut: goldens of the design, 200 random lists, ties, budgets, and what a run says of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest

from pipesched import NoSchedule, NotApplicable, Outcome, Problem, make_problem, run
from pipesched.executors.opening import FEWEST_OPERATIONS
from pipesched.pipeline.layers.layers import least_counts
from pipesched.results.best_cut import work_of
from tests.examples import at_night_but

SETTLED = ("1f1b", "interleaved", "looped-bfs", "zb-h1", "interleaved-zb", "naive", "eager-1f1b", "grouped-interleaved")
COSTLY = ("zb-auto", "zb-v", "list", "hanayo")
MIN = {
    "devices": 4, "chunks": 2, "microbatches": 16, "layer": {"forward": [1, 1, 1, *[3] * 12]}, "last": {"forward": 5},
}  # fmt: skip
TINY = {
    "devices": 4, "chunks": 2, "layers": 16, "microbatches": 8, "layer": {"forward": 1, "backward": 2},
    "last": {"forward": 1, "backward": 2},
}  # fmt: skip
PUBLISHED = {
    "devices": 8, "chunks": 5, "layers": 80, "microbatches": 64, "layer": {"forward": 8.576, "backward": 15.26},
    "first": {"forward": 0.077, "backward": 0.077}, "last": {"forward": 8.634, "backward": 14.376}, "p2p": 1.06,
}  # fmt: skip
PREFILL = {
    "devices": 8, "layers": 61, "microbatches": 1, "mode": "forward", "layer": {"forward": 560},
    "slices": {"count": 32, "attention": 0.6, "overhead": 3},
}  # fmt: skip
FORWARDS = {
    "devices": 2, "layers": 8, "microbatches": 4, "mode": "forward", "budget": 7.5, "unit": "GB",
    "layer": {"forward": 1, "static": 1, "activation": 0.5},
}  # fmt: skip
DEEPSEEK = {
    "devices": 16, "chunks": 2, "microbatches": 48, "p2p": 0.4, "budget": 70, "unit": "GB",
    "layer": {
        "forward": [1.9] * 3 + [4.1] * 58, "backward_input": [2.6] * 3 + [5.3] * 58,
        "backward_weight": [1.6] * 3 + [2.2] * 58, "activation": [0.2] * 3 + [0.34] * 58,
        "static": [1.1] * 3 + [4.5] * 58,
    },
    "first": {"forward": 0.2, "backward_input": 0, "backward_weight": 0.3, "static": 1.9},
    "last": {"forward": 7.3, "backward_input": 8.0, "backward_weight": 5.2, "activation": 0.9, "static": 3.2},
}  # fmt: skip


def layouts(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every layout in which stages have a layer, or the first and the last something beside layers."""
    assert problem.layers is not None
    count, stages = problem.layers.count, problem.stages
    least = least_counts(stages, problem.layers.first, problem.layers.last)
    for ends in combinations(range(count + stages - 1), stages - 1):  # bars between layers
        layout = tuple(end - begin - 1 for begin, end in pairwise((-1, *ends, count + stages - 1)))
        if all(number >= fewest for number, fewest in zip(layout, least, strict=True)):
            yield layout


def rank(outcome: Outcome) -> tuple[bool, Fraction, Fraction, int, list[int]]:
    """What the design says of ties, the smaller the better."""
    schedule, problem = outcome.schedule, outcome.problem
    assert problem.layers is not None
    budget = problem.grains.budget or (0,) * problem.devices
    held = max(peak - limit for peak, limit in zip(schedule.memory_grains, budget, strict=True))
    layout = problem.layers.layout
    times = Fraction(schedule.makespan_ticks, problem.ticks.per_unit), Fraction(held, problem.grains.per_unit)
    return not schedule.fits, *times, sum(count**2 for count in layout), [-count for count in layout]


def best_of_all(given: dict[str, Any], problem: Problem, name: str) -> tuple[bool, Fraction, Fraction, int, list[int]]:
    """The best rank of all cuts, each given by hand and run alone."""
    found = []
    for layout in layouts(problem):
        made = make_problem(**{**given, "layout": layout, "stages": problem.stages, "chunks": None})
        found.append(rank(run(made, name)))
    return min(found)


@pytest.mark.parametrize(
    ("given", "name", "layout", "makespan", "every"),
    [
        (MIN, "interleaved", (4, 2, 2, 2, 2, 2, 1, 0), 597, 6435),
        (TINY, "interleaved", (2, 2, 2, 2, 3, 2, 2, 1), 123, 11440),
        (PREFILL, "naive", (7, 7, 7, 8, 8, 8, 8, 8), 5671.390625, 386_206_920),
        (FORWARDS, "naive", (4, 4), 20, 7),
    ],
)
def test_the_design_names_the_cut(
    given: dict[str, Any], name: str, layout: tuple[int, ...], makespan: float, every: int
) -> None:
    outcome = run(make_problem(**given), name)
    assert outcome.problem.layers is not None
    assert outcome.cut is not None
    assert outcome.schedule.makespan == makespan
    assert outcome.problem.layers.layout == outcome.cut.layout == layout
    assert outcome.cut.all == every
    assert outcome.schedule.fits


@pytest.mark.parametrize(
    ("given", "name", "most"),
    [(PUBLISHED, "interleaved", 16936.218), (DEEPSEEK, "interleaved", 2523.6), (DEEPSEEK, "zb-v", 2423.7)],
)
def test_a_search_finds_cuts_as_short_as_known_ones(given: dict[str, Any], name: str, most: float) -> None:
    outcome = run(make_problem(**given), name)
    assert outcome.schedule.makespan <= most
    assert outcome.schedule.fits
    assert outcome.cut is not None
    assert outcome.cut.all is None
    assert outcome.cut.planned == (17 if name == "zb-v" else None)


def test_cuts_that_are_tried_are_work_for_processes() -> None:
    """All families on their best cuts are enough for processes, a few on few cuts or on a given one are not."""
    cases: list[dict[str, Any]] = [DEEPSEEK, {**DEEPSEEK, "layout": "balanced"}, FORWARDS]
    open_cut, given, small = (make_problem(**case) for case in cases)
    assert 25 * work_of(open_cut) > FEWEST_OPERATIONS > 3 * work_of(open_cut)
    assert work_of(given) == 2 * 32 * 48
    assert 25 * work_of(small) < FEWEST_OPERATIONS


def random_model(random: Random) -> dict[str, Any]:
    """Arguments of make_problem for a small model: layers that are alike or differ, ends, latencies, a budget."""
    devices, chunks = random.randint(1, 3), random.randint(1, 2)
    count = devices * chunks + random.randint(0, 3)
    keys = ["forward", "backward", "activation", "static"]

    def part(*, listed: bool) -> dict[str, Any]:
        return {key: [random.randint(1, 6) for _ in range(count)] if listed else random.randint(0, 5) for key in keys}

    listed = random.random() < 0.6
    return {
        "devices": devices, "chunks": chunks, "microbatches": devices * random.randint(1, 3), "layers": count,
        "layer": part(listed=listed) if listed else {"forward": random.randint(1, 4), "backward": random.randint(1, 7)},
        "first": random.choice([None, part(listed=False)]), "last": random.choice([None, part(listed=False)]),
        "p2p": random.choice([0, 1, [random.randint(0, 3) for _ in range(count - 1)]]) if count > 1 else 0,
        "budget": random.choice([None, None, 12, 40, 80]),
        "speed": random.choice([None, None, [random.choice([0.7, 1, 1.3]) for _ in range(devices)]]),
        "slices": 1,
    }  # fmt: skip


@pytest.mark.parametrize("seed", at_night_but(range(0, 200, 10), range(200)))
def test_the_default_cut_is_the_best_of_all_cuts(seed: int) -> None:
    random = Random(seed)
    given, name = random_model(random), random.choice(SETTLED)
    if name in ("naive", "interleaved") and random.random() < 0.3:
        given |= {"mode": "forward", "slices": random.choice([1, 2])}
    problem = make_problem(**given)
    try:
        outcome = run(problem, name)
    except NotApplicable:
        return
    if outcome.cut is None:
        assert outcome.problem.stages == 1
        return
    assert outcome.problem.layers is not None
    best = best_of_all(given, outcome.problem, name)
    assert rank(outcome) == best
    assert outcome.cut.is_exact
    assert outcome.cut.all == sum(1 for _ in layouts(outcome.problem))


@pytest.mark.parametrize("seed", at_night_but(range(0, 20, 3), range(20)))
def test_where_orders_follow_from_costs_it_is_no_longer_than_balanced_and_equal(seed: int) -> None:
    random = Random(seed)
    given, name = random_model(random), COSTLY[seed % len(COSTLY)]
    try:
        outcome = run(make_problem(**given), name)
    except (NotApplicable, NoSchedule):
        return
    for rule in ("balanced", "equal"):
        try:
            other = run(make_problem(**given, layout=rule), name)
        except NoSchedule:
            continue
        assert rank(outcome)[:2] <= rank(other)[:2]


def test_a_search_among_one_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search ends where no layer may move."""
    monkeypatch.setattr("pipesched.results.best_cut.MOST_TRIED", 0)
    found = run(make_problem(devices=4, layers=4, microbatches=4, layer={"forward": 1, "backward": 2}), "1f1b")
    assert found.cut is not None
    assert (found.cut.layout, found.metrics["makespan"]) == ((1, 1, 1, 1), 21)

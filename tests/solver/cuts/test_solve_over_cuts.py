"""A solve whose cut is open: its bound and its answer beside those of every cut, and what it says of them."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest

import pipesched
from pipesched import NoSchedule
from tests.examples import at_night_but

FORWARD = [round(2.8 + 0.1 * (7 * layer % 15), 1) for layer in range(32)]
LARGE: dict[str, Any] = {
    "devices": 8, "microbatches": 32, "layers": 32, "p2p": 0.25, "budget": 80,
    "layer": {
        "forward": FORWARD, "backward_input": [round(1.06 * time, 4) for time in FORWARD], "backward_weight": FORWARD,
        "activation": 0.42, "static": 11,
    },
    "last": {"forward": 4.4, "backward_input": 4.4, "backward_weight": 4.4},
}  # fmt: skip


def small(random: Random) -> dict[str, Any]:
    """A few layers that differ, maybe with a head, on two devices, maybe of other speeds, with links and a budget."""
    count, is_split = random.randint(4, 5), random.random() < 0.5
    keys = ["forward", "backward_input", "backward_weight"] if is_split else ["forward", "backward"]
    layer: dict[str, Any] = {key: [random.randint(1, 6) for _ in range(count)] for key in [*keys, "activation"]}
    given: dict[str, Any] = {"devices": 2, "microbatches": random.randint(2, 3), "layer": {**layer, "static": 1}}
    if random.random() < 0.5:
        given["last"] = dict.fromkeys(keys, 2)
    if count > 4:  # of four a list would be one by stage, where a layout of four stages is given
        given["p2p"] = [random.randint(0, 2) for _ in range(count - 1)]
    if random.random() < 0.5:
        given["speed"] = [1, random.choice([0.7, 0.5, 1.5])]
    if random.random() < 0.3:
        given["links"] = [[0, 1], [2, 0]]
    if random.random() < 0.5:
        given["budget"] = random.randint(sum(layer["activation"]), 2 * sum(layer["activation"])) + count // 2
    return given


def layouts(given: dict[str, Any], stages: int) -> list[list[int]]:
    """Return every layout in which each stage has something to do."""
    count = len(given["layer"]["forward"])
    items = count + ("last" in given)
    ends = [(0, *inner, items) for inner in combinations(range(1, items), stages - 1)]
    return [[min(end, count) - min(begin, count) for begin, end in pairwise(cut)] for cut in ends]


def best_of_every_cut(given: dict[str, Any], chunks: tuple[int, ...]) -> float:
    """Return the least makespan of all cuts, each solved to the end; infinite where no microbatch fits any."""
    found = [float("inf")]
    for count in chunks:
        for layout in layouts(given, 2 * count):
            problem = pipesched.make_problem(**given, chunks=count, layout=layout)
            try:
                outcome = pipesched.solve(problem, advice=False, polish=False)
            except NoSchedule:
                continue
            assert outcome.status == "optimal"
            found.append(outcome.schedule.makespan)
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [(1,), (1, 2)])
@pytest.mark.parametrize("seed", at_night_but((0,), range(6)))
def test_no_cut_is_below_the_bound_and_optimal_is_the_best_of_all(seed: int, chunks: tuple[int, ...]) -> None:
    given = small(Random(seed))
    best = best_of_every_cut(given, chunks)
    problem = pipesched.make_problem(**given)
    if best == float("inf"):
        with pytest.raises(NoSchedule):
            pipesched.solve(problem, advice=False, polish=False, chunks=chunks)
        return
    outcome = pipesched.solve(problem, advice=False, polish=False, chunks=chunks)
    report = outcome.report
    assert report is not None
    assert report.cuts is not None
    assert report.bound.value <= best <= report.value
    if report.status == "optimal":
        assert report.value == best
    assert report.cuts.status == "optimal"  # such small cases are solved to the end


@pytest.mark.nightly
def test_one_chunk_of_a_large_model_is_proved_over_all_cuts() -> None:
    """Of its seven most balanced cuts one allows 1658.73, the others 1702.08."""
    outcome = pipesched.solve(pipesched.make_problem(**LARGE), advice=False)
    report = outcome.report
    assert report is not None
    assert (report.value, report.bound.value, report.standing) == (1658.73, 1658.73, "optimal over all cuts")
    assert report.cuts is not None
    assert report.cuts.layout == (4, 4, 4, 5, 4, 4, 4, 3)


def test_tried_are_the_balanced_cut_and_the_next_best() -> None:
    problem = pipesched.make_problem(**LARGE, layout="balanced")
    report = pipesched.solve(problem, advice=False, cuts=2).report
    assert report is not None
    assert report.cuts is not None
    assert problem.layers is not None
    assert [(cut.chunks, cut.placement, cut.layout) for cut in report.cuts.tried] == [
        (1, "linear", problem.layers.layout),
        (1, "linear", (4, 4, 4, 5, 4, 4, 4, 3)),
    ]
    assert [cut.work for cut in report.cuts.tried] == [50.49, 50.49]


def test_a_given_cut_is_no_search_over_cuts() -> None:
    problem = pipesched.make_problem(devices=2, layers=4, layout="equal")
    report = pipesched.solve(problem).report
    assert report is not None
    assert report.cuts is None
    assert report.standing == "optimal"

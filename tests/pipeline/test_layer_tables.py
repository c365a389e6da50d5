"""Layers of which each microbatch has its own costs: stages that are given by tables, cut by a layout."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched import ConfigError, Outcome, Problem, make_problem, plan, run, schedule_plan, solve
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse
from pipesched.pipeline.problem.costs import entries_of
from tests.examples import examples

TABLE: dict[str, Any] = {
    "forward": [[1, 2], [3, 4], 1, [5, 6]],
    "p2p": [[1, 2], 0, [3, 1]],
    "activation": [1, [2, 1], 1, [1, 3]],
}


def row(entry: Any, count: int = 2) -> list[Fraction]:
    """What an entry says of each microbatch."""
    return [*entries_of(tuple(entry) if isinstance(entry, list) else entry, count)]


def test_stages_are_sums_of_rows() -> None:
    """The stages of a layout have the sums of their layers' rows, the default backward twice that, and the latency of
    the boundary that they meet at."""
    problem = make_problem(
        devices=2, stages=4, layout=[1, 3], backward_input=[1, 1, [1, 2], 1], backward_weight=1, **TABLE
    )
    costs, memory = problem.costs, problem.memory
    assert (costs.forward, costs.recompute, costs.p2p) == (((1, 2), (9, 11)), ((1, 2), (9, 11)), ((1, 2),))
    assert (costs.backward_input, costs.backward_weight) == ((1, (3, 4)), (1, 3))
    assert memory.activation == (1, (4, 5))
    assert problem.microbatches == 2


def test_rows_that_add_up_to_the_same_are_one_number() -> None:
    """Where all microbatches have the same sum, they are alike on that stage."""
    problem = make_problem(devices=2, stages=4, layout=[2, 2], forward=[[1, 2], [2, 1], 1, 1])
    assert problem.costs.forward == (3, 2)
    assert not problem.has_units


def test_layer_takes_no_tables() -> None:
    """A list of `layer` is by layer: an entry is one number."""
    wrong: Any = [[1, 2], 3]
    with pytest.raises(ConfigError, match=r"^layer.forward\[0\]: must be a number, not \[1, 2\]"):
        make_problem(devices=2, layer={"forward": wrong})


def cuts(layers: int, stages: int) -> Iterator[list[int]]:
    """All ways to cut layers into stages of one or more."""
    for inner in combinations(range(1, layers), stages - 1):
        yield [end - begin for begin, end in pairwise((0, *inner, layers))]


def by_stage(values: list[Any], layout: list[int]) -> list[list[Any]]:
    """The values of the layers of each stage."""
    ends = [sum(layout[:stage]) for stage in range(len(layout) + 1)]
    return [values[begin:end] for begin, end in pairwise(ends)]


numbers = st.integers(1, 9)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """A few layers with tables or numbers, and factors of their microbatches."""
    count, m = draw(st.integers(3, 6)), draw(st.integers(1, 4))
    rows = st.lists(st.one_of(numbers, st.lists(numbers, min_size=m, max_size=m)), min_size=count, max_size=count)
    factors = st.lists(numbers, min_size=m, max_size=m)
    return {
        "stages": count,
        "microbatches": m,
        "forward": draw(rows),
        "backward": draw(rows),
        "activation": draw(rows),
        "sizes": {"work": draw(factors), "activation": draw(factors)},
    }


@given(tables(), st.integers(2, 3))
def test_cuts_weigh_all_microbatches(given: dict[str, Any], devices: int) -> None:
    """No cut has a smaller largest work, which is the sum over all microbatches, their factors included."""
    problem = make_problem(devices=devices, layout="balanced", **given)
    works = []
    for key in ("forward", "backward"):
        rows = (row(entry, given["microbatches"]) for entry in given[key])
        works.append([sum(map(Fraction.__mul__, each, map(Fraction, given["sizes"]["work"]))) for each in rows])
    total = [sum(both) for both in zip(*works, strict=True)]
    least = min(max(map(sum, by_stage(total, layout))) for layout in cuts(given["stages"], devices))
    assert problem.layers is not None
    assert max(map(sum, by_stage(total, [*problem.layers.layout]))) == least


@given(tables(), st.integers(2, 3), st.integers(1, 60))
def test_cuts_hold_the_largest_microbatch(given: dict[str, Any], devices: int, budget: int) -> None:
    """Of the cuts with which 1F1B holds the largest microbatch of each layer, the one with the least largest work."""
    given = {**given, "backward": None, "forward": 1}
    problem = make_problem(devices=devices, layout="balanced", budget=budget, **given)
    m, factors = given["microbatches"], given["sizes"]["activation"]
    largest = [max(size * by for size, by in zip(row(entry, m), factors, strict=True)) for entry in given["activation"]]

    def fits(layout: list[int]) -> bool:
        held = (sum(sizes) * min(devices - stage, m) for stage, sizes in enumerate(by_stage(largest, layout)))
        return all(size <= budget for size in held)

    fitting = [max(layout) for layout in cuts(given["stages"], devices) if fits(layout)]
    assert problem.layers is not None
    if fitting:
        assert fits([*problem.layers.layout])
        assert max(problem.layers.layout) == min(fitting)


def test_families_that_cut_anew_keep_tables() -> None:
    """interleaved cuts the layers into its chunks, whose costs are the sums of their rows; 1f1b is that of the same
    stages without a layout."""
    forward = [[1, 2], [3, 4], 1, [5, 6], 1, 1, 2, 2]
    given: dict[str, Any] = {"devices": 2, "forward": forward, "p2p": [[1, 2], 0, 1, 0, 0, 1, 1]}
    chunks = run(make_problem(stages=8, chunks=2, layout=[1, 1, 3, 3], **given), "interleaved").problem
    assert chunks.costs.forward == ((1, 2), (3, 4), (7, 8), 5)
    anew = run(make_problem(stages=8, chunks=2, layout="balanced", **given), "1f1b").problem
    assert anew.layers is not None
    halves = by_stage(forward, [*anew.layers.layout])
    sums = [[sum(column) for column in zip(*map(row, half), strict=True)] for half in halves]
    assert [row(entry) for entry in anew.costs.forward] == sums
    direct = make_problem(devices=2, forward=sums, p2p=[anew.costs.p2p[0]], activation=anew.memory.activation)
    assert run(anew, "1f1b").metrics == run(direct, "1f1b").metrics


def test_forwards_alone_are_cut_by_forwards() -> None:
    """What a backward would cost weighs nothing where only forwards run."""
    given: dict[str, Any] = {"devices": 2, "layer": {"forward": [1, 1, 1, 3], "backward": [9, 1, 1, 1], "recompute": 3}}
    train, forwards = make_problem(**given), make_problem(mode="forward", **given)
    assert train.layers is not None
    assert forwards.layers is not None
    assert (train.layers.layout, forwards.layers.layout) == ((1, 3), (3, 1))
    assert (forwards.layers.layer.backward, forwards.layers.layer.recompute) == (0, 0)
    assert forwards.costs.backward == (0, 0)


def test_recomputed_layers_of_tables() -> None:
    """A number of layers to recompute takes those rows again, and keeps the rest of the activation, in the mean."""
    problem = make_problem(devices=2, stages=4, layout=[2, 2], **TABLE)
    made = run(problem, "1f1b", recompute=1).problem
    assert made.costs.recompute == ((1, 2), 1)
    assert made.memory.checkpoint == (0.6, Fraction(2, 3))


@pytest.mark.parametrize("mode", ["train", "forward"])
@pytest.mark.parametrize("layout", ["balanced", [1, 3]])
def test_round_trip(layout: Any, mode: str) -> None:
    """A document of blocks has their tables, and is read as the same problem."""
    problem = make_problem(devices=2, stages=4, layout=layout, mode=mode, placement="linear", retain=0.5, **TABLE)
    texts = {"train": "F0 B0 F1 B1", "forward": "F0 F1"}[mode].split()
    rows = [[f"{stage}{text}" for text in texts] for stage in range(2)]
    outcome = Outcome("mine", schedule_plan(problem, plan(problem, rows)))
    text = dump(document(outcome))
    again = parse(text, "x.json")
    assert again.problem == problem
    assert made_of(again.problem) == made_of(problem)
    assert dump(document(again)) == text


def made_of(problem: Problem) -> tuple[Any, ...]:
    """The layers, however their layout was found."""
    layers = problem.layers
    assert layers is not None
    return layers.layer, layers.first, layers.last, layers.layout, layers.p2p, layers.blocks


def test_work_of_slices_by_stage_needs_one_layout() -> None:
    """Parts of the work by stage go with a layout that is given, and with no rule that may cut other stages."""
    cut = {"count": 2, "work": [[0.5, 0.5], [0.4, 0.6]]}
    given: dict[str, Any] = {"devices": 2, "layers": 4, "slices": cut}
    with pytest.raises(ConfigError, match=r"^slices.work.forward: must be one list: lists by stage hold"):
        make_problem(**given)
    assert len(make_problem(layout=[1, 3], **given).slices.forward) == 2


@examples(10)
@given(st.lists(numbers, min_size=3, max_size=4), st.lists(numbers, min_size=2, max_size=2))
@pytest.mark.slow
def test_bound_over_all_cuts(forward: list[int], work: list[int]) -> None:
    """What a solve says of all cuts is no longer than the best schedule of any."""
    given: dict[str, Any] = {"devices": 2, "layer": {"forward": forward}, "sizes": {"work": work}}
    report = solve(make_problem(**given), time_limit=10, method="portfolio").report
    best = min(
        solve(make_problem(layout=layout, **given), time_limit=10).schedule.makespan for layout in cuts(len(forward), 2)
    )
    assert report is not None
    assert report.bound.value <= best

"""Layouts of layers against brute force, and problems by layers, by lists and by tables against the same by stages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched import (
    ConfigError,
    NotApplicable,
    Outcome,
    Placement,
    Problem,
    hand_over,
    make_problem,
    plan,
    run,
    schedule_plan,
)
from pipesched.documents.json_text import dump
from pipesched.documents.problem import problem_document, read_problem
from pipesched.documents.schedule import document, parse
from pipesched.pipeline.layers.layers import BALANCED
from pipesched.pipeline.layers.recut import saved_by_moving
from pipesched.pipeline.problem.costs import entries_of
from pipesched.pipeline.problem.placement import named_placement
from pipesched.pipeline.problem.quantities import to_fraction
from tests.examples import part
from tests.strategies import amounts


@st.composite
def parts(draw: st.DrawFn, *, split: bool) -> dict[str, Any]:
    """What a layer costs, or what stands beside the layers."""
    keys = ["forward", *(["backward_input", "backward_weight"] if split else ["backward"]), "activation", "static"]
    return {key: draw(amounts(0, 5)) for key in keys}


@st.composite
def models(draw: st.DrawFn, placements: Sequence[str] = ("linear", "loop", "v", "bidirectional")) -> dict[str, Any]:
    """Arguments of make_problem for a small model by layers, often under a budget that binds."""
    devices, split = draw(st.integers(1, 3)), draw(st.booleans())
    kind = draw(st.sampled_from(placements))
    chunks = {"v": 2, "bidirectional": 1, "linear": 1}.get(kind) or draw(st.integers(1, 2))
    return {
        "devices": devices,
        "chunks": chunks,
        "placement": kind,
        "microbatches": draw(st.integers(1, 4)),
        "layers": draw(st.integers(devices * chunks, devices * chunks + 4)),
        "layer": draw(parts(split=split)),
        "first": draw(parts(split=split)) if draw(st.booleans()) else None,
        "last": draw(parts(split=split)) if draw(st.booleans()) else None,
        "budget": draw(st.sampled_from([None, 8, 20, 60])),
    }


def layouts(count: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut layers into stages, also with none in some."""
    if stages == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in layouts(count - first, stages - 1):
            yield (first, *rest)


def legal(given: dict[str, Any], layout: tuple[int, ...]) -> Problem | None:
    """The problem of a layout, if every stage has something to do: layers, or what comes first or last."""
    ends = ("first", *["middle"] * (len(layout) - 2), "last") if len(layout) > 1 else ("first",)
    if not all(count or any((given.get(end) or {}).values()) for count, end in zip(layout, ends, strict=True)):
        return None
    try:
        return make_problem(**given, layout=layout)
    except ConfigError:
        return None


def held_by_1f1b(problem: Problem, device: int) -> Fraction:
    """What a device holds with 1F1B, one stage a device."""
    flying = min(problem.devices - device, problem.microbatches)
    memory = problem.memory
    return to_fraction(memory.static[device]) + flying * to_fraction(memory.activation[device])


def held_at_least(problem: Problem, device: int) -> Fraction:
    """What a device holds with one microbatch of each of its stages."""
    stages, memory = problem.settled_placement.stages_on(device), problem.memory
    return sum((to_fraction(memory.static[s]) + to_fraction(memory.activation[s]) for s in stages), Fraction(0))


@given(models(), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_layers_are_the_same_problem_as_lists(given: dict[str, Any], random: Any) -> None:
    """A problem by layers with any layout is the problem whose lists are worked out by hand."""
    problem = make_problem(**given)
    every = [layout for layout in layouts(given["layers"], problem.stages) if legal(given, layout)]
    layout = random.choice(every)
    by_hand: dict[str, Any] = {key: given[key] for key in ("devices", "chunks", "placement", "microbatches", "budget")}
    for key in given["layer"]:
        values = [count * to_fraction(given["layer"][key]) for count in layout]
        values[0] += to_fraction((given["first"] or {}).get(key, 0))
        values[-1] += to_fraction((given["last"] or {}).get(key, 0))
        by_hand[key] = values
    made = make_problem(**given, layout=layout)
    assert made == make_problem(**by_hand)
    assert made.ticks.per_unit % make_problem(**by_hand).ticks.per_unit == 0


MODEL: dict[str, Any] = {
    "devices": 4,
    "microbatches": 8,
    "layers": 16,
    "layer": {"forward": 5, "backward": 10, "activation": 0.1, "static": 1},
    "last": {"forward": 7, "backward": 14, "static": 2},
}


def test_the_first_of_alike_stages_have_more() -> None:
    """The head is worth 1.4 layers: the last stage gives one away, and the first of the others takes it."""
    problem = make_problem(**MODEL)
    assert problem.layers is not None
    assert problem.layers.layout == (5, 4, 4, 3)
    assert problem.costs.forward == (25, 20, 20, 22)
    assert problem.memory.static == (5, 4, 4, 5)


def test_equal_counts() -> None:
    """The first stages have one more where the counts cannot be equal; a stage with a head alone may have none."""
    assert layout_of(layout="equal") == (4, 4, 4, 4)
    assert layout_of(layout="equal", layers=18) == (5, 5, 4, 4)
    assert layout_of(layout="equal", layers=3) == (1, 1, 1, 0)
    assert layout_of(layout="equal", layers=3, last=None, first={"static": 1}) == (0, 1, 1, 1)


def layout_of(**change: Any) -> tuple[int, ...]:
    """The layout of the model above with a change."""
    layers = make_problem(**{**MODEL, **change}).layers
    assert layers is not None
    return layers.layout


@pytest.mark.parametrize(
    ("algorithm", "chunks", "stages"),
    [("1f1b", 1, 4), ("1f1b", 2, 4), ("zb-v", 1, 8), ("interleaved", 2, 8), ("interleaved", 4, 16), ("dualpipe", 2, 4)],
)
def test_each_family_cuts_for_its_own_placement(algorithm: str, chunks: int, stages: int) -> None:
    """The layout of an outcome is the one that is balanced for the stages and the placement of its family."""
    given = {**MODEL, "microbatches": 16, "layers": 32, "layout": "balanced"}
    problem = run(make_problem(**given, chunks=chunks), algorithm).problem
    placement = "bidirectional" if algorithm == "dualpipe" else list(problem.settled_placement.devices)
    assert problem == make_problem(**given, stages=stages, placement=placement)
    assert problem.layers is not None
    assert len(problem.layers.layout) == stages


def test_a_given_layout_is_fused_and_not_cut_anew() -> None:
    """With a layout that a user gave, a family with fewer stages adds up neighbours, as for lists."""
    problem = make_problem(**MODEL, layout=[1, 2, 2, 3, 2, 2, 2, 2])
    assert problem.stages == 8
    fused = run(problem, "1f1b").problem
    assert fused.layers is not None
    assert fused.layers.layout == (3, 5, 4, 4)
    assert fused.costs.forward == (15, 25, 20, 27)
    with pytest.raises(NotApplicable):
        run(make_problem(**MODEL, layout=[4, 4, 4, 4]), "zb-v")


def test_a_problem_with_another_stage_count_is_refused() -> None:
    """Layers that were cut into other stages, or do not make the costs, cannot stand in a problem."""
    problem = make_problem(**MODEL)
    with pytest.raises(ConfigError, match="layers: are cut into 4 stages; the problem has 5"):
        replace(make_problem(devices=5, microbatches=3), layers=problem.layers)
    other = make_problem(devices=4, microbatches=8)
    with pytest.raises(ConfigError, match="layers: do not make these costs"):
        replace(other, layers=problem.layers)
    placed = replace(other, placement=named_placement("linear", 4, 4), layers=problem.layers)
    assert placed.settled_placement == Placement((0, 1, 2, 3))


def test_a_half_that_is_none_is_not_given() -> None:
    """As for a stage, None is the default: the backward is whole, and no family may split it for nothing."""
    layer: dict[str, Any] = {"backward": 2, "backward_input": None}
    problem = make_problem(devices=2, layers=4, layer=layer)
    assert problem == make_problem(devices=2, layers=4, layer={"backward": 2})
    assert not problem.costs.split


EVEN: dict[str, Any] = {"layers": 8, "layer": {"forward": 1, "backward": 2}, "last": {"forward": 1, "backward": 2}}


def test_a_text_is_the_list_that_it_says() -> None:
    """In Megatron-LM's letters, beside measured layers: the same problem, 84, and what is handed over reads back."""
    text = "Et*2|t*3|t*2|tL"
    problem = make_problem(devices=4, microbatches=8, layout=text, **EVEN)
    assert problem == make_problem(devices=4, microbatches=8, layout=[2, 3, 2, 1], **EVEN)
    outcome = run(problem, "1f1b")
    assert outcome.schedule.makespan == 84
    line = hand_over(outcome, "megatron").split("'")[1]
    assert make_problem(devices=4, microbatches=8, layout=line, **EVEN) == problem


@pytest.mark.parametrize(
    ("layout", "makespan"),
    [
        ("Et*3|(tt|)*14|(tt|)*15L", 9916),
        ([3, *[2] * 14, 0, *[2] * 15, 0], 9916),
        ([1, *[2] * 30, 0], 8550),
        ("balanced", 8457),
    ],
)
def test_stages_without_items(layout: Any, makespan: int) -> None:
    """One lasts 0 and passes on what it gets: latencies count on both of its sides."""
    problem = make_problem(
        devices=16, chunks=2, layers=61, microbatches=64, layer={"forward": 10, "backward": 20},
        last={"forward": 8, "backward": 13}, p2p=1, layout=layout,
    )  # fmt: skip
    assert run(problem, "interleaved").schedule.makespan == makespan


def test_losses_on_several_stages() -> None:
    """Three predictions and four losses, as if given as layers; fused they add up; documents and texts hold them."""
    text = "E|(t|)*10m|m|m|LL|LL"
    shape: dict[str, Any] = {"devices": 8, "chunks": 2, "microbatches": 32}
    own: dict[str, Any] = {
        "layers": 10, "layer": {"forward": 1, "backward": 2}, "mtp": {"forward": 1.1, "backward": 2.2},
        "first": {"forward": 0.1}, "last": {"forward": 0.8, "backward": 1.6},
    }  # fmt: skip
    problem = make_problem(**shape, **own, layout=text)
    outcome = run(problem, "interleaved")
    assert outcome.schedule.makespan == 270.6
    pieces = [1.0] * 10 + [1.1] * 3 + [0.8] * 4
    listed = make_problem(
        **shape, layer={"forward": pieces, "backward": [2 * one for one in pieces]}, first={"forward": 0.1},
        layout=[0, *[1] * 13, 2, 2],
    )  # fmt: skip
    assert run(listed, "interleaved").schedule.makespan == 270.6
    fused = run(problem, "1f1b").problem.layers
    assert fused is not None
    assert [tuple(stage) for stage in fused.items[-2:]] == [(0, 0, 2, 0), (0, 0, 0, 4)]
    document: dict[str, Any] = json.loads(json.dumps(problem_document(outcome.problem)), parse_float=Decimal)
    assert (document["layout"], float(document["mtp"]["forward"])) == (text, 1.1)
    assert read_problem(document).layers == outcome.problem.layers


# Layers that differ: published cuts, problems against lists that are worked out by hand, and what is refused.

FORWARD, WEIGHT = [3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]
LAYER = {
    "forward": FORWARD, "backward_input": FORWARD, "backward_weight": WEIGHT, "activation": [1, 2] * 4, "static": 1,
}  # fmt: skip
SMALL: dict[str, Any] = {"devices": 3, "microbatches": 4, "layer": LAYER}


def test_stages_are_the_sums_of_their_layers() -> None:
    """Costs add up, retain and checkpoint are means by activation, and a boundary has the latency of its layers."""
    layer = {**LAYER, "retain": [0.5, 1, 1, 1, 1, 1, 1, 0], "checkpoint": [0, 0.5] * 4}
    given: dict[str, Any] = {
        "devices": 3, "microbatches": 4, "layer": layer, "last": {"activation": 2}, "p2p": [1, 2, 3, 4, 5, 6, 7],
    }  # fmt: skip
    problem = make_problem(**given, retain="0.25", layout=[4, 4, 0])
    spans = [*pairwise(accumulate((4, 4, 0), initial=0))]
    assert problem.costs.forward == tuple(sum(FORWARD[begin:end]) for begin, end in spans)
    assert problem.memory.activation == (6, 6, 2)
    assert [*map(to_fraction, problem.memory.retain)] == [Fraction(11, 12), Fraction(2, 3), Fraction(1, 4)]
    assert [*map(to_fraction, problem.memory.checkpoint)] == [Fraction(1, 3), Fraction(1, 3), 0]
    assert problem.costs.p2p == (4, 7)
    assert make_problem(**{**given, "last": None}, layout=[3, 3, 2]).costs.p2p == (3, 6)
    assert make_problem(**{**given, "p2p": [8, 9]}, layout=[4, 4, 0]).costs.p2p == (8, 9)


def test_lists_of_equal_numbers_are_one_number() -> None:
    """Layers that are listed, and all alike, are the problem that one number for all makes."""
    listed = make_problem(devices=4, microbatches=8, layer={"forward": [2] * 10, "backward": 4}, p2p=[1] * 9)
    alike = make_problem(devices=4, microbatches=8, layers=10, layer={"forward": 2, "backward": 4}, p2p=1)
    assert (listed, listed.layers) == (alike, alike.layers)


def listed(draw: st.DrawFn, part: dict[str, Any], count: int) -> dict[str, Any]:
    """What a layer costs, with some of its numbers as lists."""
    each = {key: draw(st.lists(amounts(0, 5), min_size=count, max_size=count)) for key in part}
    return {key: each[key] if draw(st.booleans()) else value for key, value in part.items()}


@st.composite
def list_models(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of make_problem for a small model whose layers differ, often with slow devices and a budget."""
    given = draw(models())
    speed = draw(st.lists(st.sampled_from([1, 0.5, 0.8, 3]), min_size=given["devices"], max_size=given["devices"]))
    given["speed"] = draw(st.sampled_from([None, speed]))
    return {**given, "layer": listed(draw, given["layer"], given["layers"])}


def slowest(problem: Problem) -> Fraction:
    """The largest work of a device by its speed; of two copies of a stage each runs half of the microbatches."""
    placement, costs = problem.settled_placement, problem.costs
    columns = [[*map(to_fraction, column)] for column in (costs.forward, costs.backward)]
    stages = [sum(parts, Fraction(0)) for parts in zip(*columns, strict=True)]
    works = []
    for device in range(problem.devices):
        parts = [stages[stage] for stage in placement.stages_on(device)]
        halves = 2 if placement.mirrored and 2 * device != placement.last else 1
        works.append(sum(parts, Fraction(0)) / halves / to_fraction((problem.speed or [1] * problem.devices)[device]))
    return max(works)


@part(4)
@given(list_models())
@pytest.mark.slow
def test_balanced_lists_equal_brute_force(given: dict[str, Any]) -> None:
    """No layout has a smaller largest work by the rule of memory: 1F1B fits, else a microbatch, else any."""
    every = [problem for layout in layouts(given["layers"], given["devices"] * given["chunks"])
             if (problem := legal(given, layout))]  # fmt: skip
    linear = given["placement"] == "linear" or (given["placement"] == "loop" and given["chunks"] == 1)
    budget, fitting = given["budget"], every
    for held in [held_by_1f1b] * linear + [held_at_least]:
        within = [p for p in every if budget is None or all(held(p, d) <= budget for d in range(p.devices))]
        if within:
            fitting = within
            break
    is_odd = given["placement"] == "bidirectional" and given["devices"] % 2  # of alike layers: mean work is not weighed
    assume(not is_odd or given["speed"] is not None)
    assert slowest(make_problem(**given)) == min(map(slowest, fitting))


BLOCKS: dict[str, Any] = {
    "devices": 4, "microbatches": 8, "stages": 8, "forward": FORWARD, "backward": WEIGHT,
    "p2p": [0, 1, 2, 3, 4, 5, 6], "retain": [1, 0.5] * 4,
}  # fmt: skip


@pytest.mark.parametrize(
    "change", [{}, {"chunks": 2}, {"layout": "equal"}, {"layout": [1, 2, 2, 3]}, {"budget": 3}], ids=str
)
def test_measured_blocks_are_layers(change: dict[str, Any]) -> None:
    """Stages with a layout are cut as the same lists by layer."""
    blocks = make_problem(**{**BLOCKS, "layout": BALANCED, **change})
    by_layer = {key: BLOCKS[key] for key in ("forward", "backward", "retain")}
    others = {key: value for key, value in BLOCKS.items() if key not in (*by_layer, "stages")}
    meant = make_problem(**{**others, "layers": 8, "layer": by_layer, "layout": BALANCED, **change})
    assert blocks == meant
    assert blocks.layers is not None
    assert blocks.layers.blocks


def test_the_layer_that_would_be_moved_is_at_an_edge() -> None:
    """Of a cut that is not balanced the layer at an edge that saves most counts; of a balanced one none saves."""
    uneven = run(make_problem(**SMALL, layout=[2, 4, 2]), "1f1b").schedule  # 17, 57 and 25; without its first 26 and 48
    assert uneven.bottleneck == 1
    assert saved_by_moving(uneven) == (57 - 48) * 4
    assert saved_by_moving(run(make_problem(**SMALL), "1f1b").schedule) == 0


def test_recompute_of_layers_takes_the_first_of_each_stage() -> None:
    """A number of layers to recompute runs the first of each stage again, which keep nothing but their checkpoint."""
    layer = {**LAYER, "recompute": [1, 2, 3, 4, 5, 6, 7, 8], "checkpoint": [0.5, 0] * 4}
    problem = make_problem(**{**SMALL, "layer": layer}, layout=[4, 2, 2])
    again = run(problem, "1f1b", recompute=1).problem
    assert again.costs.recompute == (1, 5, 7)
    assert again.memory.checkpoint == tuple(1 - Fraction(1, 2) / size for size in (6, 3, 3))


def test_a_stage_without_layers_retains_nothing() -> None:
    """The part that is retained is a mean over layers, which an empty stage of a given layout has not."""
    layer = {"forward": 1, "backward": 2, "retain": 0.5}
    assert make_problem(devices=3, layers=8, layer=layer, layout=[4, 0, 4]).memory.retain == (0.5, 0, 0.5)


# Layers of which each microbatch has its own costs: stages that are given by tables, cut by a layout.

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

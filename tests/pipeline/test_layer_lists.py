"""Layers that differ: published cuts, problems against lists that are worked out by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from pipesched.errors import ConfigError
from pipesched.pipeline.layers.layers import BALANCED
from pipesched.pipeline.layers.recut import balance, saved_by_moving
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.outcome import run
from tests.examples import part
from tests.pipeline.test_layout import held_at_least, held_by_1f1b, layouts, legal, models
from tests.strategies import amounts

FORWARD, WEIGHT = [3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]
LAYER = {
    "forward": FORWARD, "backward_input": FORWARD, "backward_weight": WEIGHT, "activation": [1, 2] * 4, "static": 1,
}  # fmt: skip
SMALL: dict[str, Any] = {"devices": 3, "microbatches": 4, "layer": LAYER}
TIMES = [Fraction(28, 10) + Fraction(7 * layer % 15, 10) for layer in range(32)]
LARGE: dict[str, Any] = {
    "devices": 8,
    "microbatches": 32,
    "layer": {
        "forward": TIMES,
        "backward_input": [Fraction(106, 100) * time for time in TIMES],
        "backward_weight": TIMES,
        "activation": "0.42",
        "static": 11,
    },
    "last": dict.fromkeys(("forward", "backward_input", "backward_weight"), "4.4"),
    "p2p": "0.25",
}


def layout_of(problem: Problem) -> tuple[int, ...]:
    """The layers of each stage."""
    assert problem.layers is not None
    return problem.layers.layout


def work_of(problem: Problem) -> Fraction:
    """The largest work of a device on a microbatch."""
    found = balance(problem if problem.placement else replace(problem, placement=line(problem.stages)))
    assert found is not None
    return found.work


def line(stages: int) -> Placement:
    """A stage a device."""
    return Placement(tuple(range(stages)))


@pytest.mark.parametrize(
    ("change", "work", "cuts"),
    [
        ({}, 38, {(4, 2, 2): 202}),
        ({"budget": 9}, 48, {(3, 3, 2): 228}),
        ({"budget": [20, 8, 8]}, 51, {(3, 2, 3): 252}),
        ({"speed": [1, 0.5, 1]}, 51, {(4, 1, 3): 264, (3, 2, 3): 274}),
    ],
    ids=str,
)
def test_one_stage_a_device(change: dict[str, Any], work: int, cuts: dict[tuple[int, ...], int]) -> None:
    """The least largest work under each rule of memory, and with a slow device; 1F1B of the cut that has it."""
    problem = make_problem(**SMALL, layout="balanced", **change)
    assert work_of(problem) == work
    assert layout_of(problem) in cuts
    assert run(problem, "1f1b").schedule.makespan == cuts[layout_of(problem)]


@pytest.mark.parametrize(
    ("placement", "change", "work"),
    [
        ("loop", {}, 34), ("loop", {"budget": 9}, 35), ("loop", {"speed": [1, 0.5, 1]}, 43), ("v", {}, 35),
        ("v", {"speed": [1, 0.5, 1]}, 46),
    ],
    ids=str,
)  # fmt: skip
def test_two_stages_a_device(placement: str, change: dict[str, Any], work: int) -> None:
    """The least largest work of all cuts into two stages a device, which each placement has its own."""
    assert work_of(make_problem(**SMALL, chunks=2, placement=placement, **change)) == work


@pytest.mark.parametrize(
    ("change", "work", "makespan"),
    [
        ({}, "50.49", 1915.972),
        ({"budget": 60}, "50.49", 1915.972),
        ({"budget": 58}, "52.368", 1980.686),
        ({"budget": 57}, "52.368", 1980.686),
        ({"layout": "equal"}, "52.368", 1980.686),
        ({"layout": [4, 4, 4, 4, 4, 4, 5, 3]}, "50.49", 1915.972),
    ],
    ids=str,
)
def test_a_model_with_a_head(change: dict[str, Any], work: str, makespan: float) -> None:
    """32 layers of fifteen different times and a head on 8 devices, with less and less memory."""
    problem = make_problem(**{"layout": "balanced", **LARGE, **change})
    assert work_of(problem) == Fraction(work)
    assert run(problem, "1f1b").schedule.makespan == makespan


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
    assert layout_of(blocks) == layout_of(meant)


def test_each_family_cuts_lists_anew() -> None:
    """A family with two stages a device has a cut of its own, no halves of stages."""
    problem = make_problem(**SMALL, p2p=[0, 0, 0, 0, 0, 0, 1])
    fitted = run(problem, "zb-v").problem
    assert layout_of(fitted) == layout_of(make_problem(**SMALL, chunks=2, placement="v"))
    assert fitted == make_problem(**SMALL, p2p=[0, 0, 0, 0, 0, 0, 1], chunks=2, placement="v")


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": {**LAYER, "static": [1, 2]}}, "layer.static: lists 2 layers; `layer.forward` lists 8"),
        ({"layers": 9}, "layer.forward: lists 8 layers; `layers` is 9"),
        ({"layer": {**LAYER, "static": [1, -1]}}, "layer.static[1]: must be at least 0, not -1"),
        ({"layer": {**LAYER, "static": []}}, "layer.static: must list 1 to 10,000 layers"),
        ({"layer": {"forward": [1], "checkpoint": [2]}}, "layer.checkpoint[0]: must be between 0 and 1, not 2"),
        ({"first": {"forward": [1, 2]}}, "first.forward: must be a number, not [1, 2]"),
        ({"first": {"retain": 1}}, "first.retain: is not given for a `layer`"),
        ({"p2p": [1, 2, 3]}, "p2p: must be one number, or a list of 7 numbers (one a boundary between layers: `layer`"),
        (
            {"p2p": [1, 2, 3], "layout": [3, 3, 2]},
            "p2p: must be one number, or a list of 7 numbers (one a boundary between layers: `layer` says 8) or 2",
        ),
        ({"retain": [1, 1, 1]}, "retain: must be one number"),
        ({"layer": {**LAYER, "retain": 1}, "retain": [1]}, "retain: must be one number beside `layer.retain`"),
        ({"layout": [3, 3, 3]}, "layout: lists 9 layers"),
        ({"devices": 9}, "layers: must be at least 9 for 9 stages, not 8"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    """A bad list is one message, which names both keys where two disagree."""
    with pytest.raises(ConfigError) as caught:
        make_problem(**{**SMALL, **change})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forward": [1, 2]}, "forward: a list here needs 8 numbers (one a stage); this one has 2"),
        ({"layout": [4, 4, 4, 4]}, "layout: lists 16 layers; `stages` is 8"),
        ({"devices": 9}, "stages: must be at least the number of devices (9), not 8"),
        ({"layout": None}, None),
        ({"layout": None, "chunks": 2}, "chunks: give either `stages`, or the `chunks` of a device"),
    ],
)
def test_what_is_refused_of_blocks(change: dict[str, Any], message: str | None) -> None:
    """Blocks are refused by the parameters that gave them; without a layout they are stages as ever."""
    given = {**BLOCKS, "layout": BALANCED, **change}
    if message is None:
        assert make_problem(**given).layers is None
        return
    with pytest.raises(ConfigError) as caught:
        make_problem(**given)
    assert str(caught.value).startswith(message)


def test_a_stage_without_layers_retains_nothing() -> None:
    """The part that is retained is a mean over layers, which an empty stage of a given layout has not."""
    layer = {"forward": 1, "backward": 2, "retain": 0.5}
    assert make_problem(devices=3, layers=8, layer=layer, layout=[4, 0, 4]).memory.retain == (0.5, 0, 0.5)


def test_latencies_between_as_many_layers_as_stages() -> None:
    """A list by boundary of layers also holds where each stage is a layer, and a document has it once."""
    one = make_problem(devices=2, layers=2, layer={"forward": [1, 2]}, p2p=[1])
    assert (one.costs.p2p, one.layers is not None and one.layers.layout) == ((1,), (1, 1))

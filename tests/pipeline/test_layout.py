"""Layouts of layers against brute force, and problems by layers against the same by lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pipesched.documents.problem import problem_document, read_problem
from pipesched.errors import ConfigError, NotApplicable
from pipesched.pipeline.layers.layers import BALANCED
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.placement import Placement, named_placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import to_fraction
from pipesched.results.handover.hand_over import hand_over
from pipesched.results.outcome import run
from tests.strategies import amounts

TIMES = ("forward", "backward_input", "backward_weight")


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


def works(problem: Problem) -> tuple[Fraction, Fraction]:
    """The largest work of a device on all microbatches but for a common factor, and the largest of a stage."""
    placement = problem.settled_placement
    times = [[to_fraction(time) for time in getattr(problem.costs, key)] for key in TIMES]
    stages = [sum(parts, Fraction(0)) for parts in zip(*times, strict=True)]
    on_device = [sum((stages[s] for s in placement.stages_on(d)), Fraction(0)) for d in range(problem.devices)]
    return max(on_device), max(stages)


def held_by_1f1b(problem: Problem, device: int) -> Fraction:
    """What a device holds with 1F1B, one stage a device."""
    flying = min(problem.devices - device, problem.microbatches)
    memory = problem.memory
    return to_fraction(memory.static[device]) + flying * to_fraction(memory.activation[device])


def held_at_least(problem: Problem, device: int) -> Fraction:
    """What a device holds with one microbatch of each of its stages."""
    stages, memory = problem.settled_placement.stages_on(device), problem.memory
    return sum((to_fraction(memory.static[s]) + to_fraction(memory.activation[s]) for s in stages), Fraction(0))


def best_by_brute_force(given: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """The least largest work over all layouts that keep the budget, as far as any do."""
    every = [problem for layout in layouts(given["layers"], given["devices"] * given["chunks"])
             if (problem := legal(given, layout))]  # fmt: skip
    linear = given["placement"] == "linear" or (given["placement"] == "loop" and given["chunks"] == 1)
    for held in [held_by_1f1b] * linear + [held_at_least]:
        budget = given["budget"]
        fitting = [p for p in every if budget is None or all(held(p, d) <= budget for d in range(p.devices))]
        if fitting:
            return min(map(works, fitting))
    return min(map(works, every))


@given(models())
@pytest.mark.slow
def test_balanced_equals_brute_force(given: dict[str, Any]) -> None:
    """No layout has a smaller largest device, or then a smaller largest stage; the budget is kept where it can be."""
    problem = make_problem(**given, layout=BALANCED)
    assert problem.layers is not None
    assert (problem.layers.rule, sum(problem.layers.layout)) == (BALANCED, given["layers"])
    assert works(problem) == best_by_brute_force(given)


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


def test_too_few_layers_for_a_family() -> None:
    """A family that needs more stages than there are layers does not apply, and says how many are needed."""
    given = {**MODEL, "layers": 6, "last": None}
    with pytest.raises(NotApplicable, match="8 stages need at least 8 layers; the model has 6"):
        run(make_problem(**given), "zb-v")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": {"forwrad": 1}}, "layer.forwrad: unknown key 'forwrad'; did you mean 'forward'?"),
        ({"layer": {"forward": "x"}}, "layer.forward: must be a number, not 'x'"),
        ({"layer": {"forward": -1}}, "layer.forward: must be at least 0, not -1"),
        ({"layer": 5}, "layer: must be numbers by their names"),
        (
            {"layer": {"backward_input": 1}},
            "layer.backward_input: is half of the backward; `backward_weight` is needed",
        ),
        (
            {"layer": {"backward": 1, "backward_input": 1}},
            "layer.backward_input: is half of the backward; `backward_weight` is needed",
        ),
        ({"layer": {"reload": 1}}, "layer.reload: is the way back from host memory; `offload` is needed too"),
        ({"last": {"offload": 1}}, "last.offload: is not given for a `layer`"),
        ({"last": {"backward_input": 1, "backward_weight": 1}}, "last.backward_input: is not given for a `layer`"),
        ({"forward": 5}, "forward: is one a stage; with `layers`, give it in `layer`, `first` and `last`"),
        ({"static": [1, 2, 3, 4]}, "static: is one a stage"),
        ({"p2p": [1, 2, 3]}, "p2p: must be one number"),
        ({"layers": 2}, "layers: must be at least 3 for 4 stages, not 2"),
        ({"layers": 10_001}, "layers: must be at most 10,000, not 10001"),
        ({"layers": 0}, "layers: must be a whole number of at least 1, not 0"),
        (
            {"layout": 5},
            "layout: must be best, balanced, equal, a list of the layers of each stage, or a text such as Et*2|t*2L, ",
        ),
        ({"layout": "even"}, "layout: unknown layout 'even'"),
        ({"layout": [4, 4, 4]}, "layout: lists the layers of 3 stages; there are 4"),
        ({"layout": [4, 4, 4, 3]}, "layout: lists 15 layers; `layers` is 16"),
        ({"layout": "Et*8|t*4|m|t*4L"}, "layout: all t (layers) must come before the first m (MTP layer)"),
        (
            {"layout": "Et*8|t*4|t*4|mL"},
            "layout: has m, a layer of multi-token prediction: give what one costs in `mtp`",
        ),
        ({"mtp": {"forward": 1}}, "mtp: has no effect without m (MTP layers) in `layout`"),
        ({"mtp": {"forward": -1}}, "mtp.forward: must be at least 0"),
        ({"mtp": {"forwad": 1}}, "mtp.forwad: unknown key 'forwad'; did you mean 'forward'?"),
        ({"layout": "Et*8|t*4|t*3L"}, "layout: lists 15 layers; `layers` is 16"),
        ({"layout": [8.5, 0, 4, 4]}, "layout: must be whole numbers, not 8.5"),
        ({"layers": None}, "layer: has no effect without `layers`"),
        ({"stages": 8, "chunks": 2}, "chunks: give either `stages`, or the `chunks` of a device"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    """A bad value is one message about its parameter, and about the entry of a mapping."""
    stages = {"stages": 4} if isinstance(change.get("layout"), list) else {}
    with pytest.raises(ConfigError) as caught:
        make_problem(**{**MODEL, **stages, **change})
    assert str(caught.value).startswith(message)


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

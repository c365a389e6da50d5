"""A step beside its passes in the JSON document: what the problem's part says, and reading it back."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched.documents.problem import problem_document, read_problem
from pipesched.documents.schedule import document
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.problem import Problem
from tests.strategies import amounts, one_or_list

STEP: dict[str, Any] = {
    "devices": 2, "microbatches": 3, "gather": 1, "optimizer": [1, 2.5], "weights": 2, "states": "1/3", "unit": "GB",
    "shard": {"level": "weights", "ranks": 8, "ahead": [1, 2]},
    "side": [{"name": "vision", "forward": [1, 2, 3], "output": "100MB"}, {"forward": 2, "backward": 4, "into": 1}],
}  # fmt: skip


def through_text(problem: Problem) -> dict[str, Any]:
    """The document of a problem, as a reader of JSON gets it."""
    content: dict[str, Any] = json.loads(json.dumps(problem_document(problem)), parse_float=Decimal)
    return content


def test_whole_problem() -> None:
    """Every key of a step is filled in: null for a cost that is not given, null for no backward, devices listed."""
    content = problem_document(pipesched.make_problem(**STEP))
    assert {key: content["costs"][key] for key in ("gather", "reduce", "optimizer", "tied")} == {
        "gather": 1, "reduce": None, "optimizer": [1, 2.5], "tied": None,
    }  # fmt: skip
    memory = content["memory"]
    assert (memory["weights"], memory["gradients"], memory["states"], memory["static"]) == (2, 0, 1 / 3, 0)
    assert content["shard"] == {"level": "weights", "ranks": 8, "ahead": [1, 2], "reduce": "last"}
    late = pipesched.make_problem(devices=2, shard={"level": "weights", "gather": "each"})
    assert problem_document(late)["shard"] == {
        "level": "weights", "ranks": 1, "ahead": 3, "reduce": "last", "gather": "each",
    }  # fmt: skip
    again = pipesched.load(json.dumps({"devices": 2, "shard": {"level": "weights", "gather": "each"}}))
    assert again == late
    assert content["step"] == {"clip": False}
    rest = {"devices": [0, 1], "p2p": 0, "activation": 0, "static": 0}
    assert content["side"] == [
        {"name": "vision", "forward": [1, 2, 3], "backward": None, "into": 0, "output": 0.1, **rest},
        {"name": "", "forward": 2, "backward": 4, "into": 1, "output": 0, **rest},
    ]


def test_versions() -> None:
    """A step makes a document one of version 2; memory by its kinds alone does not, and has no other new key."""
    plain = document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    kept = document(pipesched.run(pipesched.make_problem(devices=2, weights=1), "1f1b"))
    step = document(pipesched.run(pipesched.make_problem(devices=2, shard="optimizer"), "1f1b"))
    assert [one["version"] for one in (plain, kept, step)] == [1, 1, 2]
    assert kept["problem"]["memory"].keys() - plain["problem"]["memory"].keys() == {"weights", "gradients", "states"}
    assert kept["problem"].keys() == plain["problem"].keys()
    assert kept["problem"]["costs"] == plain["problem"]["costs"]
    assert step["problem"].keys() - plain["problem"].keys() == {"shard", "step", "side"}
    assert "order" not in step


def test_forwards_alone() -> None:
    """Their document says the gather beside their own costs, and no backward of side work."""
    given: dict[str, Any] = {"gather": 2, "weights": 3, "side": [{"forward": 1}], "shard": "weights"}
    problem = pipesched.make_problem(devices=2, mode="forward", **given)
    assert problem_document(problem)["costs"] == {"forward": 1, "p2p": 0, "gather": 2}
    assert read_problem(through_text(problem)) == problem


def test_layers() -> None:
    """What each layer has of a step stands in `layer`, with what stands beside the layers."""
    layer: dict[str, Any] = {"forward": 1, "gather": [1, 2, 3, 4], "weights": "1/3"}
    problem = pipesched.make_problem(devices=2, layers=4, layer=layer, first={"optimizer": 2, "states": 1}, tied=3)
    content = problem_document(problem)
    assert (content["layer"]["gather"], content["layer"]["optimizer"]) == ([1, 2, 3, 4], 0)
    assert (content["first"]["optimizer"], "reduce" in content["layer"]) == (2, False)
    again = read_problem(through_text(problem))
    assert again == problem
    assert again.layers == replace(problem.layers, rule="given")  # type: ignore[type-var]


@st.composite
def steps(draw: st.DrawFn) -> Problem:
    """A problem with some parts of a step, or none of them."""
    devices, count = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    stages = devices * draw(st.integers(1, 2))
    given: dict[str, Any] = {}
    for key in ("gather", "reduce", "optimizer", "weights", "gradients", "states"):
        if draw(st.booleans()):
            given[key] = one_or_list(draw, amounts(), stages)
    if draw(st.booleans()):
        given["tied"] = draw(amounts())
    if draw(st.booleans()):
        level = draw(st.sampled_from(["optimizer", "gradients", "weights", *(() if "gather" in given else ("none",))]))
        given["shard"] = {"level": level, "ranks": draw(st.integers(1, 9))}
        if level == "weights":
            ahead = st.one_of(st.integers(1, 4), st.sampled_from(["full", "auto"]))
            given["shard"]["ahead"] = draw(st.one_of(ahead, st.just([2] * devices)))
        if level in ("gradients", "weights"):
            given["shard"]["reduce"] = draw(st.sampled_from(["last", "each"]))
    if "optimizer" in given and draw(st.booleans()):
        given["clip"] = draw(st.booleans())
    if draw(st.booleans()):
        given["side"] = [_item(draw, devices, stages, count) for _ in range(draw(st.integers(1, 2)))]
    return pipesched.make_problem(devices=devices, stages=stages, microbatches=count, **given)


def _item(draw: st.DrawFn, devices: int, stages: int, count: int) -> dict[str, Any]:
    item: dict[str, Any] = {"forward": one_or_list(draw, amounts(), count), "into": draw(st.integers(0, stages - 1))}
    if draw(st.booleans()):
        item["backward"] = one_or_list(draw, amounts(), count)
    if draw(st.booleans()):
        item["devices"] = draw(st.permutations(range(devices)))[: draw(st.integers(1, devices))]
    item |= {key: draw(amounts()) for key in ("p2p", "activation", "output", "static") if draw(st.booleans())}
    return item | ({"name": draw(st.sampled_from(["vision", "1", "a b"]))} if draw(st.booleans()) else {})


@given(steps())
def test_read_back(problem: Problem) -> None:
    """The problem that is read is the one that was written, exactly."""
    assert read_problem(through_text(problem)) == problem


def test_thirds_are_read_back() -> None:
    """A size that is no decimal is written as its nearest float, and read as what it was."""
    problem = pipesched.make_problem(**{**STEP, "gradients": Fraction(2, 7)})
    assert read_problem(through_text(problem)) == problem


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("costs", "gather", [1], "problem.costs.gather: a list here needs 2 numbers"),
        ("memory", "weights", None, "problem.memory.weights: must not be null"),
        ("shard", "level", "zero", "problem.shard.level: unknown level 'zero'"),
        ("shard", "ahead", None, "problem.shard.ahead: must not be null"),
        ("shard", "more", 1, "problem.shard.more: unknown key 'more'"),
        ("step", "clip", 3, "problem.step.clip: must be true or false, not 3"),
        ("step", "clpi", True, "problem.step.clpi: unknown key; known here are clip"),
        ("side", 0, {"forward": "x"}, "problem.side[0].forward: must be a number, not 'x'"),
    ],
)
def test_bad_document(section: str, key: Any, value: Any, said: str) -> None:
    """A wrong value of a document is told where it stands."""
    content = through_text(pipesched.make_problem(**STEP))
    content[section][key] = value
    with pytest.raises(ConfigError) as caught:
        read_problem(content)
    assert said in str(caught.value)

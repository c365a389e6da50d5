"""Schedules as documents and back: numbers, networks, units and steps."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import pipesched
from pipesched import ConfigError, Problem
from pipesched.documents.comparison import comparison_document
from pipesched.documents.json_text import dump
from pipesched.documents.problem import MAY_BE_NULL, problem_document, read_problem
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.pipeline.problem.quantities import to_fraction
from tests.stepped import REDUCED, SHARDED, SIDE, SMALL
from tests.strategies import amounts, one_or_list


def made(algorithm: str, **problem: Any) -> dict[str, Any]:
    """The document of a schedule, through its text."""
    text = dump(document(pipesched.run(pipesched.make_problem(**problem), algorithm)))
    content: dict[str, Any] = json.loads(text)
    return content


def test_whole_document() -> None:
    """Every field of a small 1F1B schedule, worked out by hand, in the user's units."""
    slots = [
        [("0F0", 0, 1.5), ("0F1", 1.5, 3), ("0B0", 6, 9), ("0B1", 10.5, 13.5)],
        [("1F0", 1.5, 3), ("1B0", 3, 6), ("1F1", 6, 7.5), ("1B1", 7.5, 10.5)],
    ]
    assert made("1f1b", devices=2, microbatches=2, forward=1.5, name="mine", time_unit="ms", budget=2.5) == {
        "format": "pipesched.schedule",
        "version": 1,
        "algorithm": "1f1b",
        "status": "optimal",
        "problem": {
            "name": "mine", "devices": 2, "stages": 2, "microbatches": 2, "placement": [0, 1], "time_unit": "ms",
            "lanes": "device",
            "costs": {
                "forward": 1.5, "backward": 3, "recompute": 1.5, "overlap": None, "p2p": 0, "offload": None,
                "reload": None,
            },
            "memory": {"unit": "microbatch", "activation": 1, "retain": 1, "checkpoint": 0, "static": 0, "budget": 2.5},
        },
        "metrics": {
            "makespan": 13.5, "span": 13.5, "ideal": 9, "bubble": pytest.approx(1 / 3), "bubble_over_ideal": 0.5,
            "bubble_span": pytest.approx(1 / 3), "lower_bound": 13.5, "gap": 0, "idle": [4.5, 4.5], "busy": [9, 9],
            "peak_memory": [2, 1], "memory": [2, 1], "imbalance": 0, "utilization": pytest.approx(2 / 3),
            "bottleneck": 0, "fits": True,
        },
        "covers": "this placement, backwards whole, within the budget, activations kept",
        "devices": [[{"op": op, "start": start, "end": end} for op, start, end in row] for row in slots],
    }  # fmt: skip


@pytest.mark.parametrize(("budget", "fits"), [(1.4, True), (1.3, False), (None, True)])
def test_fits_counts_static_memory(budget: float | None, fits: bool) -> None:
    """`fits` compares the peak and the static memory with the budget; the peak is of activations only."""
    metrics = made("1f1b", devices=1, activation=0.9, static=0.5, budget=budget, unit="GB")["metrics"]
    assert (metrics["peak_memory"], metrics["fits"]) == ([0.9], fits)


def test_one_line_a_slot() -> None:
    """The text has a line for each slot, so that two files can be compared line by line."""
    outcome = pipesched.run(pipesched.make_problem(devices=2, microbatches=3), "1f1b")
    lines = dump(document(outcome)).splitlines()
    assert sum('"op"' in line for line in lines) == 12
    assert all(line.count('"op"') <= 1 for line in lines)


SHAPES: list[dict[str, Any]] = [{}, {"a": []}, {"a": [[], [{"b": 1}]], "c": None}, {"é": "\u2028\x00"}, {"a": [{}]}]


@pytest.mark.parametrize("content", SHAPES)
def test_dump_is_json(content: dict[str, Any]) -> None:
    """What is dumped is JSON, whatever the shape, ends with a line break and is ASCII."""
    text = dump(content)
    assert json.loads(text) == content
    assert text.endswith("}\n")
    assert text.isascii()


def test_dump_refuses_what_json_lacks() -> None:
    """NaN and infinity never get into a document."""
    with pytest.raises(ValueError, match="Out of range"):
        dump({"a": float("nan")})


def test_foreign_document_with_defaults() -> None:
    """A document with nothing but the required parts is read, with the defaults of a config."""
    ops = [("0F0", 0, 1), ("0B0", 1, 3), ("0F1", 3, 4), ("0B1", 4, 6)]
    content = {
        "format": "pipesched.schedule",
        "version": 1,
        "problem": {"devices": 1, "placement": "linear", "costs": {}, "memory": {}},
        "devices": [[{"op": op, "start": start, "end": end} for op, start, end in ops]],
    }
    outcome = parse(json.dumps(content), "x")
    assert pipesched.check(outcome) == []
    assert (outcome.schedule.makespan_ticks, outcome.schedule.problem.microbatches) == (6, 2)


WRITTEN = [("0.1", Fraction(1, 10)), (repr(1 / 3), Fraction(1, 3)), ("2", Fraction(2))]


@pytest.mark.parametrize(("written", "meant"), WRITTEN)
def test_memory_of_a_document_is_exact(written: str, meant: Fraction) -> None:
    """A third that was written as a float is read as a third, and a decimal as that decimal."""
    text = dump(document(pipesched.run(pipesched.make_problem(devices=1, microbatches=1, activation=7), "1f1b")))
    problem = parse(text.replace('"activation": 7', f'"activation": {written}'), "x").problem
    assert Fraction(problem.grains.largest["activation"][0], problem.grains.per_unit) == meant
    assert to_fraction(problem.memory.activation[0]) == meant


def test_a_bound_that_is_not_known() -> None:
    """`null` for the bound and the gap of a document says that they are not known: ours count, and nothing is wrong."""
    content = document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    metrics = {**content["metrics"], "lower_bound": None, "gap": None}
    text = dump({**content, "metrics": metrics})
    read = parse(text, "x")
    assert read.lower_bound == content["metrics"]["lower_bound"]
    assert not [*wrong_claims(text, read)]


ALL_THREE: dict[str, Any] = {"forward": 1, "backward": 2, "backward_input": 1.5, "backward_weight": 1.5}


@pytest.mark.parametrize("algorithm", ["1f1b", "zb-h1", "dualpipe-v", "list", "zb-auto"])
@pytest.mark.parametrize(
    "more",
    [
        ALL_THREE,
        {"layers": 9, "layer": ALL_THREE, "last": {"forward": 1, "backward": 2}, "layout": "balanced"},
        {**ALL_THREE, "sizes": {"work": [1, 2, 1, 2, 3, 1, 1, 1]}},
        {**ALL_THREE, "optimizer": 1, "reduce": 0.5},
    ],
)
def test_read_back(algorithm: str, more: dict[str, Any]) -> None:
    """The document has all three costs and how many backwards are whole, and is read back as it was."""
    problem = pipesched.make_problem(devices=4, chunks=1 + (algorithm == "dualpipe-v"), microbatches=8, **more)
    outcome = pipesched.run(problem, algorithm)
    text = dump(document(outcome))
    content = json.loads(text)
    assert content["version"] == 3
    assert {"backward", "backward_input", "backward_weight"} <= content["problem"]["costs"].keys()
    ops = [op for row in content["devices"] for entry in row for op in entry["op"].strip("()").split("O")[0].split(";")]
    assert content["metrics"]["joined"] == sum("B" in op for op in ops)
    read = parse(text, "a.json")
    assert read.problem == outcome.problem
    assert dump(document(read)) == text
    assert not [*wrong_claims(text, read)]
    assert not pipesched.check(read)


def test_one_way_is_no_version_3() -> None:
    """A solve that was asked for one way gives that alone; a whole that is the sum of its halves is not said."""
    problem = pipesched.make_problem(devices=2, microbatches=2, **ALL_THREE)
    for split, keys in ((True, {"backward_input", "backward_weight"}), (False, {"backward"})):
        outcome = pipesched.solve(problem, split_backward=split, advice=False)
        content = document(outcome)
        assert content["version"] == 1
        assert {key for key in content["problem"]["costs"] if "backward" in key} == keys
        assert dump(document(parse(dump(content), "a.json"))) == dump(content)
    same = pipesched.make_problem(devices=2, microbatches=2, **{**ALL_THREE, "backward": 3})
    assert "joined" not in document(pipesched.run(same, "zb-h1"))["metrics"]


def test_layers_with_both() -> None:
    """Stages of layers have the sums of all three, and families run on them as on stages that are given so."""
    layer: dict[str, Any] = {
        "forward": [1, 2, 1, 1, 1, 1],
        "backward": 2,
        "backward_input": 1.5,
        "backward_weight": [1, 1, 1, 1, 2, 1],
    }
    last = {"forward": 1, "backward_input": 1, "backward_weight": 1}
    problem = pipesched.make_problem(devices=2, microbatches=4, layers=6, layer=layer, last=last, layout="best")
    outcome = pipesched.run(problem, "zb-h1")
    costs, cut = outcome.problem.costs, outcome.problem.layers
    assert cut is not None
    assert costs.backward == (2 * cut.layout[0], 2 * cut.layout[1] + 2)
    given = {key: getattr(costs, key) for key in ("forward", "backward", "backward_input", "backward_weight")}
    again = pipesched.make_problem(devices=2, microbatches=4, **given)
    assert pipesched.run(again, "zb-h1").schedule.makespan == outcome.schedule.makespan
    solved = pipesched.solve(problem, time_limit=5, advice=False, workers=1)
    assert solved.schedule.makespan <= outcome.schedule.makespan
    assert solved.lower_bound <= solved.schedule.makespan


PROBLEM = pipesched.make_problem(devices=2, microbatches=2, forward=5, backward=10, budget=3, offload=2, overlap=12)
LAYERS = pipesched.make_problem(devices=2, microbatches=2, layers=5, layer={"forward": 2}, last={"forward": 1})
DOCUMENTS: dict[str, Any] = {
    "schedule": document(pipesched.run(PROBLEM, "1f1b", offload="full")),
    "layers": document(pipesched.run(LAYERS, "1f1b")),
    "solved": document(pipesched.solve(PROBLEM, advice=False)),
    "comparison": comparison_document(pipesched.compare(PROBLEM, ["1f1b", "naive"])),
}
NULL = {*(f"problem.{key}" for key in MAY_BE_NULL), "cut.all"}
UNKNOWN = ("metrics.lower_bound", "metrics.gap")  # of a schedule, and of a row of a comparison


def numbers_in(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers."""
    if isinstance(node, dict):
        for key in node:
            yield from numbers_in(node[key], (*path, key))
    elif isinstance(node, list):
        for place, one in enumerate(node):
            yield from numbers_in(one, (*path, place))
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


@pytest.mark.parametrize("value", [None, "text", [], {}], ids=str)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_replaced(name: str, value: Any) -> None:
    """Null, a text, a list or an object in its place is a ConfigError, but null where a value may be absent."""
    content = json.loads(dump(DOCUMENTS[name]))
    paths = [*numbers_in(content)]
    assert len(paths) > 30
    for path in paths:
        changed = deepcopy(content)
        inside = changed
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = value
        at = ".".join(map(str, path))
        if value is None and (at in NULL or at.endswith(UNKNOWN)):
            continue
        try:
            pipesched.read(io.StringIO(json.dumps(changed)))
        except ConfigError:
            continue
        pytest.fail(f"{path} may be {value}")


CASES: list[tuple[str, dict[str, Any]]] = [
    ("1f1b", REDUCED),
    ("1f1b", SMALL),
    ("zb-h2", {**REDUCED, "backward_input": 10, "backward_weight": 10, "clip": True}),
    ("interleaved", SHARDED),
    ("looped-bfs", SHARDED),
    ("1f1b", {"devices": 2, "microbatches": 3, "optimizer": 0.5}),
    ("1f1b", SIDE),
]


def text_of(name: str, given: dict[str, Any]) -> tuple[pipesched.Outcome, str]:
    """A schedule, and the text of its document."""
    outcome = pipesched.run(pipesched.make_problem(**given), name)
    return outcome, dump(document(outcome))


@pytest.mark.parametrize(("name", "given"), CASES)
def test_round_trip(name: str, given: dict[str, Any]) -> None:
    """A document read back has the same plan, times and metrics, and the same text."""
    outcome, text = text_of(name, given)
    back = parse(text, "a.json")
    assert dump(document(back)) == text
    assert [*wrong_claims(text, back)] == []
    one, other = outcome.schedule, back.schedule
    assert (one.plan.index, one.plan.orders, one.plan.network) == (
        other.plan.index,
        other.plan.orders,
        other.plan.network,
    )
    assert ([*one.start_ticks], [*one.end_ticks]) == ([*other.start_ticks], [*other.end_ticks])


def test_waits_may_name_operations_of_the_step() -> None:
    """A wait edge from an optimizer to a reduction of another lane is written and read."""
    problem = pipesched.make_problem(devices=2, microbatches=2, reduce=3, optimizer=1)
    orders = ["0F0 0F1 0B0 0B1 0OPTIMIZER", "1F0 1B0 1F1 1B1 1OPTIMIZER"]
    plan = pipesched.plan(
        problem,
        orders,
        waits=[("0REDUCE_GRAD", "1OPTIMIZER")],
        network=[[("0REDUCE_GRAD", "0B1")], [("1REDUCE_GRAD", "1B1")]],
    )
    outcome = pipesched.Outcome("by hand", pipesched.schedule_plan(problem, plan))
    text = dump(document(outcome))
    assert json.loads(text)["waits"] == [["0REDUCE_GRAD", "1OPTIMIZER"]]
    assert parse(text, "a.json").schedule.plan.waits == plan.waits


def test_network_without_a_step() -> None:
    """A problem without a step has no network lanes."""
    content = document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    with pytest.raises(ConfigError, match="'network' is for a problem with a step"):
        parse(json.dumps({**content, "network": [[], []]}), "a.json")


@pytest.mark.parametrize("wrong", [{"network": 46}, {"exposed": ["0UNSHARD0"]}, {"tied": {"time": [], "exposed": 0}}])
def test_wrong_claims_of_a_step(wrong: dict[str, Any]) -> None:
    """What a document says the step costs is compared with its schedule."""
    _, text = text_of("1f1b", REDUCED)
    content = json.loads(text)
    content["metrics"]["step"] |= wrong
    claims = [*wrong_claims(json.dumps(content), parse(text, "a.json"))]
    assert len(claims) == 1
    assert claims[0].startswith("metrics.step.")


STEP: dict[str, Any] = {
    "devices": 2, "microbatches": 3, "gather": 1, "optimizer": [1, 2.5], "weights": 2, "states": "1/3", "unit": "GB",
    "shard": {"level": "weights", "ranks": 8, "ahead": [1, 2]},
    "side": [{"name": "vision", "forward": [1, 2, 3], "output": "100MB"}, {"forward": 2, "backward": 4, "into": 1}],
}  # fmt: skip


def through_text(problem: Problem) -> dict[str, Any]:
    """The document of a problem, as a reader of JSON gets it."""
    content: dict[str, Any] = json.loads(json.dumps(problem_document(problem)), parse_float=Decimal)
    return content


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
def test_a_step_is_read_back(problem: Problem) -> None:
    """The problem that is read is the one that was written, exactly."""
    assert read_problem(through_text(problem)) == problem


def test_thirds_are_read_back() -> None:
    """A size that is no decimal is written as its nearest float, and read as what it was."""
    problem = pipesched.make_problem(**{**STEP, "gradients": Fraction(2, 7)})
    assert read_problem(through_text(problem)) == problem

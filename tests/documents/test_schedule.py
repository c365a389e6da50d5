"""The JSON document of a schedule: its fields, in the user's units, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document, parse, wrong_claims
from pipesched.errors import ConfigError
from pipesched.pipeline.plan.plan import plan_from_slots
from pipesched.pipeline.problem.ops import parse_slot
from pipesched.pipeline.problem.quantities import to_fraction


def made(algorithm: str, **problem: Any) -> dict[str, Any]:
    """The document of a schedule, through its text."""
    text = dump(document(pipesched.run(pipesched.make_problem(**problem), algorithm)))
    content: dict[str, Any] = json.loads(text)
    return content


def planned(rows: Sequence[Sequence[str]], **problem: Any) -> pipesched.Outcome:
    """The schedule of a plan that is written out in op texts."""
    given = pipesched.make_problem(**{"placement": "linear", **problem})
    plan = plan_from_slots([[parse_slot(text) for text in row] for row in rows], given.stages, given.microbatches)
    return pipesched.Outcome("by hand", pipesched.schedule_plan(given, plan))


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
            "name": "mine",
            "devices": 2,
            "stages": 2,
            "microbatches": 2,
            "placement": [0, 1],
            "time_unit": "ms",
            "lanes": "device",
            "costs": {
                "forward": 1.5,
                "backward": 3,
                "recompute": 1.5,
                "overlap": None,
                "p2p": 0,
                "offload": None,
                "reload": None,
            },
            "memory": {"unit": "microbatch", "activation": 1, "retain": 1, "checkpoint": 0, "static": 0, "budget": 2.5},
        },
        "metrics": {
            "makespan": 13.5,
            "span": 13.5,
            "ideal": 9,
            "bubble": pytest.approx(1 / 3),
            "bubble_over_ideal": 0.5,
            "bubble_span": pytest.approx(1 / 3),
            "lower_bound": 13.5,
            "gap": 0,
            "idle": [4.5, 4.5],
            "busy": [9, 9],
            "peak_memory": [2, 1],
            "memory": [2, 1],
            "imbalance": 0,
            "utilization": pytest.approx(2 / 3),
            "bottleneck": 0,
            "fits": True,
        },
        "covers": "this placement, backwards whole, within the budget, activations kept",
        "devices": [[{"op": op, "start": start, "end": end} for op, start, end in row] for row in slots],
    }


def test_status_and_gap() -> None:
    """A schedule above its bound is heuristic, with the gap over the bound."""
    metrics = made("sequential", devices=2, microbatches=2)
    assert metrics["status"] == "heuristic"
    assert metrics["metrics"]["makespan"] == 12
    assert metrics["metrics"]["lower_bound"] == 9
    assert metrics["metrics"]["gap"] == pytest.approx(1 / 3)


def test_split_backward() -> None:
    """With a split backward the problem has the two halves, and the ops are I and W."""
    content = made("list", devices=1, microbatches=1, backward_input=0.5, backward_weight=[0.25])
    costs = content["problem"]["costs"]
    assert "backward" not in costs
    assert (costs["backward_input"], costs["backward_weight"]) == (0.5, 0.25)
    assert [slot["op"] for slot in content["devices"][0]] == ["0F0", "0I0", "0W0"]
    assert content["devices"][0][-1]["end"] == 1.75


def test_lists_where_values_differ() -> None:
    """Values that differ are lists, equal ones a number, and thirds are the nearest floats."""
    problem = made(
        "list",
        devices=2,
        stages=3,
        forward=[1, 2, 3],
        p2p=[0.1, 0.2],
        retain=[1, 0.5, 0],
        static=[1, 1, 1],
        budget=[9, 8.5],
    )["problem"]
    assert problem["costs"]["forward"] == [1, 2, 3]
    assert problem["costs"]["backward"] == [2, 4, 6]
    assert problem["costs"]["p2p"] == [0.1, 0.2]
    assert problem["memory"]["activation"] == 2 / 3
    assert problem["memory"]["retain"] == [1, 0.5, 0]
    assert problem["memory"]["static"] == 1
    assert problem["memory"]["budget"] == [9, 8.5]


def test_one_device_has_no_boundary() -> None:
    """With one stage there is no p2p boundary, and the document still has a number, never null."""
    assert made("1f1b", devices=1, p2p=3)["problem"]["costs"]["p2p"] == 0


def test_fused_problem_is_the_one_that_ran() -> None:
    """A family that fuses stages documents the fused problem: sums of costs and activations, fewer boundaries."""
    problem = made("1f1b", devices=2, stages=4, forward=[1, 2, 3, 4], p2p=[5, 6, 7], static=1, name="x")["problem"]
    assert (problem["stages"], problem["placement"], problem["name"]) == (2, [0, 1], "x")
    assert (problem["costs"]["forward"], problem["costs"]["p2p"]) == ([3, 7], 6)
    assert (problem["memory"]["activation"], problem["memory"]["static"]) == (1, 2)


def test_bidirectional_placement_by_name() -> None:
    """A bidirectional problem says so by name, since its stages live on two devices each."""
    content = made("list", devices=2, microbatches=2, placement="bidirectional")
    assert content["problem"]["placement"] == "bidirectional"
    assert {slot["op"] for slot in content["devices"][0]} == {"0F0", "0B0", "1F1", "1B1"}


@pytest.mark.parametrize(("budget", "fits"), [(1.4, True), (1.3, False), (None, True)])
def test_fits_counts_static_memory(budget: float | None, fits: bool) -> None:
    """`fits` compares the peak and the static memory with the budget; the peak is of activations only."""
    metrics = made("1f1b", devices=1, activation=0.9, static=0.5, budget=budget, unit="GB")["metrics"]
    assert (metrics["peak_memory"], metrics["fits"]) == ([0.9], fits)


def test_overlapped_pair() -> None:
    """An overlapped pair is one slot that starts and ends both, and comes back as one."""
    rows = [["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]]
    outcome = planned(rows, devices=1, microbatches=2, forward=1, backward=2, overlap=2.5)
    text = dump(document(outcome))
    assert json.loads(text)["devices"] == [
        [
            {"op": "0F0", "start": 0, "end": 1},
            {"op": "(0F1;0B0)OVERLAP_F_B", "start": 1, "end": 3.5},
            {"op": "0B1", "start": 3.5, "end": 5.5},
        ]
    ]
    again = parse(text, "x")
    assert dump(document(again)) == text
    assert pipesched.check(again) == []


def test_full_and_split_backward_in_one_plan() -> None:
    """A plan that mixes B with I and W comes back as it was."""
    text = dump(document(planned([["0F0", "0F1", "0B0", "0I1", "0W1"]], devices=1, microbatches=2, retain=0.3)))
    again = parse(text, "x")
    assert dump(document(again)) == text
    assert [str(slot) for slot in again.schedule.plan.slots(0)] == ["0F0", "0F1", "0B0", "0I1", "0W1"]


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


def test_error_names_the_file_and_the_key() -> None:
    """A bad value is told with the name of the document and the key."""
    text = dump(document(pipesched.run(pipesched.make_problem(devices=1), "1f1b")))
    with pytest.raises(ConfigError, match=r"^some\.json: problem\.costs\.forward: must be at least 0, not -1"):
        parse(text.replace('"forward": 1', '"forward": -1'), "some.json")


def test_a_bound_that_is_not_known() -> None:
    """`null` for the bound and the gap of a document says that they are not known: ours count, and nothing is wrong."""
    content = document(pipesched.run(pipesched.make_problem(devices=2), "1f1b"))
    metrics = {**content["metrics"], "lower_bound": None, "gap": None}
    text = dump({**content, "metrics": metrics})
    read = parse(text, "x")
    assert read.lower_bound == content["metrics"]["lower_bound"]
    assert not [*wrong_claims(text, read)]

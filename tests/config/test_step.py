"""Configs of a step beside its passes: what files, overrides and both together mean, and what a bad value is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pipesched.config.load import load as load_problem, load_config
from pipesched.config.starter import json_schema
from pipesched.pipeline.plan.step import Shard
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem

Load = Callable[..., Problem]

COSTS = "devices: 2\ntime_unit: ms\ncosts: {gather: 1, reduce: [1, 250us], optimizer: 2, tied: 3}\nstep: {clip: true}\n"
COSTS_GIVEN: dict[str, Any] = {
    "time_unit": "ms", "gather": 1, "reduce": [1, 0.25], "optimizer": 2, "tied": 3, "clip": True,
}  # fmt: skip
KEPT = "devices: 2\nmemory: {weights: 2, gradients: [3, 4], states: 5}\n"
SHARD = "devices: 2\nshard: {level: weights, ranks: 8, ahead: 2, reduce: each}\n"
LATE = "devices: 2\nshard: {level: weights, ranks: 8, gather: each}\n"
SIDE = "devices: 2\nside:\n  - {name: '3', forward: 1}\n  - forward: 2\n    backward: [1, 2, 3]\n"


@pytest.mark.parametrize(
    ("text", "overrides", "meant"),
    [  # a file, what is laid over it, the same for make_problem
        (COSTS, {}, COSTS_GIVEN),
        (COSTS, {"clip": False}, {**COSTS_GIVEN, "clip": False}),
        (COSTS, {"gather": None, "tied": "1us"}, {**COSTS_GIVEN, "gather": None, "tied": 0.001}),
        (COSTS, {"optimizer": (1, 2)}, {**COSTS_GIVEN, "optimizer": [1, 2]}),
        (KEPT, {"weights": "1/3"}, {"weights": "1/3", "gradients": [3, 4], "states": 5}),
        (KEPT, {"states": None}, {"weights": 2, "gradients": [3, 4]}),
        (SHARD, {}, {"shard": Shard("weights", 8, 2, "each")}),
        (SHARD, {"shard": {"ahead": "full"}}, {"shard": Shard("weights", 8, "full", "each")}),
        (SHARD, {"shard": "gradients"}, {"shard": Shard("gradients", 8, reduce="each")}),
        (SHARD, {"shard": {"gather": "each"}}, {"shard": Shard("weights", 8, reduce="each", gather="each")}),
        (LATE, {"shard": {"ahead": 2}}, {"shard": Shard("weights", 8, 2)}),
        (LATE, {"shard": "gradients"}, {"shard": Shard("gradients", 8)}),
        (SHARD, {"shard": "optimizer"}, {"shard": Shard("optimizer", 8)}),
        (SHARD, {"shard": {"ranks": None}}, {"shard": Shard("weights", 1, 2, "each")}),
        (SHARD, {"shard": Shard("none")}, {"shard": Shard("none")}),
        (SHARD, {"shard": None}, {}),
        ("devices: 2\nshard: weights", {"shard": {"ahead": 1}}, {"shard": Shard("weights", 1, 1)}),
        ("devices: 2\nshard: weights", {"shard": "optimizer"}, {"shard": "optimizer"}),
        ("devices: 2\nshard: {ranks: 8}", {"shard": "gradients"}, {"shard": Shard("gradients", 8)}),
        ("devices: 2\ncosts: {gather: 1}\nshard: {ranks: 8}", {}, {"gather": 1, "shard": Shard("optimizer", 8)}),
        (SIDE, {}, {"side": [{"name": "3", "forward": 1}, {"forward": 2, "backward": [1, 2, 3]}]}),
        (SIDE, {"side": [{"forward": 1}]}, {"side": [{"forward": 1}]}),
        (SIDE, {"side": None}, {}),
        ("devices: 2\nside: [{forward: 1, devices: all, backward: }]", {}, {"side": [{"forward": 1}]}),
        ("devices: 2\nstep:\nshard:\nside:\n", {}, {}),
    ],
)  # fmt: skip
def test_meaning(load: Load, text: str, overrides: dict[str, Any], meant: dict[str, Any]) -> None:
    """A file and what is laid over it mean the same as the parameters; the schema accepts the file."""
    assert load(text, **overrides) == make_problem(devices=2, **meant)
    assert is_valid(text)


def is_valid(text: str) -> bool:
    """Whether the schema accepts a config."""
    return bool(Draft202012Validator(json_schema()).is_valid(yaml.safe_load(text)))


def test_lists_of_side_work_replace_the_microbatches_of_the_built_in_default() -> None:
    """As other lists of one a microbatch do; other side work does not."""
    assert load_problem(side=[{"forward": [1, 2, 3]}]).microbatches == 3
    assert load_problem(side=[{"forward": 1}]).microbatches == 8


@pytest.mark.parametrize(
    "text",
    ["costs: {tied: [1, 2]}", "costs: {gather: '1'}", "costs: {reduce: [1, x]}", "memory: {states: -1}", "shard: zero3",
     "shard: {level: weights, ranks: '8'}", "shard: {level: weights, ahead: all}", "shard: {rank: 8}",
     "step: {clip: maybe}", "side: {forward: 1}", "side: []", "side: [{forward: 1}, {forward: 1, backwards: 2}]",
     "side: [{forward: '1'}]", "side: [{backward: 1}]", "side: [3]"],
)  # fmt: skip
def test_the_schema_refuses(text: str) -> None:
    """What is bad by itself; tests/golden/said/configs-units.txt has what the reader says of it."""
    assert not is_valid(f"devices: 2\n{text}")


def test_digits_that_count() -> None:
    """Numbers of side work with too many digits are rounded, and that is said, as of all others."""
    text = "devices: 2\nside:\n  - {name: a, forward: 1}\n  - {name: b, forward: [1.23456789012, 2, 3, 4]}\n"
    config = load_config(text, {})
    assert config.problem.side[1].forward[0] == 1.23456789
    assert config.rounded == "<text>:2: side[1].forward[0]: more than 9 digits, rounded to 1.23456789"

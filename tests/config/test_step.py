"""Configs of a step beside its passes: what files, overrides and both together mean, and what a bad value is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pipesched.config.load import load as load_problem, load_config
from pipesched.config.starter import json_schema
from pipesched.errors import ConfigError
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import Shard

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
    ("text", "said"),
    [
        ("devices: 2\ncosts:\n  tied: [1, 2]", "c.yaml:3: costs.tied: must be one number"),
        ("devices: 2\ncosts:\n  gather: '1'", "c.yaml:3: costs.gather: must be a number, not '1'"),
        ("devices: 2\ncosts:\n  reduce: [1, x]", "c.yaml:3: costs.reduce[1]: must be a number, not 'x'"),
        ("devices: 2\nmemory:\n  states: -1", "c.yaml:3: memory.states: must be at least 0"),
        ("devices: 2\nshard: zero3", "c.yaml:2: shard.level: unknown level 'zero3'"),
        ("devices: 2\nshard:\n  level: weights\n  ranks: '8'", "c.yaml:4: shard.ranks: must be a whole number"),
        ("devices: 2\nshard:\n  level: weights\n  ahead: all", "c.yaml:4: shard.ahead: must be a whole number of"),
        ("devices: 2\nshard:\n  gather: each", "c.yaml:3: shard.gather: each needs level weights"),
        ("devices: 2\nshard:\n  rank: 8", "c.yaml:3: shard.rank: unknown key 'rank'; did you mean 'ranks'?"),
        ("devices: 2\nshard:\n  reduce: each", "c.yaml:3: shard.reduce: each needs level gradients or weights"),
        ("devices: 2\nstep:\n  clip: maybe", "c.yaml:3: step.clip: must be true or false, not 'maybe'"),
        ("devices: 2\nstep:\n  clip: true", "c.yaml:3: step.clip: needs `costs.optimizer`"),
        ("devices: 2\nside: {forward: 1}", "c.yaml:2: side: must list items"),
        ("devices: 2\nside: []", "c.yaml:2: side: must list items"),
        ("devices: 2\nside:\n  - forward: 1\n  - {forward: 1, backwards: 2}", "c.yaml:4: side[1].backwards: unknown"),
        ("devices: 2\nside:\n  - forward: '1'", "c.yaml:3: side[0].forward: must be a number, not '1'"),
        ("devices: 2\nside:\n  - backward: 1", "c.yaml:3: side[0].forward: is missing"),
        ("devices: 2\nside: [3]", "c.yaml:2: side[0]: must be a mapping"),
    ],
)  # fmt: skip
def test_bad_value(load: Load, text: str, said: str) -> None:
    """A bad value of a file is told with its line and its key; the schema refuses it too, if it is bad by itself."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(said)
    assert not is_valid(text) or "needs" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("devices: 2\ngather: 1", "unknown key 'gather'; did you mean 'costs.gather'?"),
        ("devices: 2\nclip: true", "unknown key 'clip'; did you mean 'step.clip'?"),
        ("devices: 2\nranks: 8", "unknown key 'ranks'; did you mean 'shard.ranks'?"),
        ("devices: 2\nstep: {clpi: true}", "unknown key 'step.clpi'; did you mean 'clip'?"),
        ("devices: 2\nstep: 3", "step: must hold `key: value` lines, not 3"),
    ],
)
def test_keys_that_stand_elsewhere(load: Load, text: str, said: str) -> None:
    """A key at a wrong place is told where it belongs."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert said in str(caught.value)


def test_digits_that_count() -> None:
    """Numbers of side work with too many digits are rounded, and that is said, as of all others."""
    text = "devices: 2\nside:\n  - {name: a, forward: 1}\n  - {name: b, forward: [1.23456789012, 2, 3, 4]}\n"
    config = load_config(text, {})
    assert config.problem.side[1].forward[0] == 1.23456789
    assert config.rounded == "<text>:2: side[1].forward[0]: more than 9 digits, rounded to 1.23456789"

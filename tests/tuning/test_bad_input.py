"""What is said of bad input of a search: one message that names the key at fault."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pipesched
from pipesched.errors import ConfigError
from tests.tuning.spaces import ALGORITHMS, GPU, SPACE, Config


@pytest.mark.parametrize("value", [[], [0], ["x"], [math.nan], [1.5], [-2], 0, [True], {"a": 1}, [[1]], "many", [None]])
@pytest.mark.parametrize("key", ["parallel.tensor", "parallel.chunks", "batch.micro"])
def test_illegal_candidates_name_their_key(key: str, value: Any) -> None:
    """Whatever is wrong with them."""
    section, _, name = key.partition(".")
    with pytest.raises(ConfigError) as caught:
        pipesched.tune(None, ALGORITHMS, **{**SPACE, section: {**SPACE[section], name: value}})
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"training": {"recompute": []}}, "training.recompute"),
        ({"training": {"recompute": ["ful"]}}, "training.recompute"),
        ({"training": {"recompute": [{"full": 0}]}}, "training.recompute"),
        ({"training": {"recompute": [{"half": 1}]}}, "training.recompute"),
        ({"parallel": {"gpus": [8, 16]}}, "parallel.gpus"),
        ({"parallel": {"tensor": [1]}}, "parallel.gpus"),
        ({"parallel": {**SPACE["parallel"], "data": [1, 2]}}, "parallel.data"),
        ({"parallel": {**SPACE["parallel"], "tensr": 2}}, "parallel.tensr"),
        ({"batch": {"sequence": 1024}}, "batch.global"),
        ({"batch": {"sequence": "auto", "global": 8}}, "batch.sequence"),
        ({"hardware": {**GPU, "memory": 0.5}}, "hardware.memory"),
        ({"model": None}, "model"),
        ({"devices": 4}, "devices"),
        ({"stages": 4}, "stages"),
        ({"layers": 32}, "layers"),
        ({"time_unit": "us"}, "time_unit"),
        ({"budget": 0}, "budget"),
        ({"budget": "2ms"}, "budget"),
        ({"placement": "w"}, "placement"),
        ({"p2p": "x"}, "p2p"),
        ({"p2p": [1, 2, 3, 4, 5]}, "p2p"),
        ({"forward": -1}, "forward"),
        ({"lanes": "x"}, "lanes"),
        ({"top": 0}, "top"),
        ({"top": 2.5}, "top"),
        ({"jobs": -1}, "jobs"),
        ({"executor": "lokal"}, "executor"),
        ({"executor": 7}, "executor"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": math.nan}, "time_limit"),
        ({"stop": 1}, "stop"),
        ({"listener": 1}, "listener"),
        ({"resume": 1}, "resume"),
    ],
)
def test_bad_input_names_its_key(given: Config, key: str) -> None:
    """Arguments and sections."""
    with pytest.raises(ConfigError) as caught:
        pipesched.tune(None, ALGORITHMS, **{**SPACE, **given})
    assert caught.value.key == key


@pytest.mark.parametrize("names", [[], ["solve"], ["1f1c"], ["block"], "1f1b", [1], [None], 3])
def test_bad_algorithms(names: Any) -> None:
    """None, unknown ones, ones that need options, and what is no list."""
    with pytest.raises(ConfigError) as caught:
        pipesched.tune(None, names, **SPACE)
    assert caught.value.key == "algorithms"

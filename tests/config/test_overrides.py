"""Overrides on top of a config, and on top of the built-in default."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipesched.config.load import load as load_problem
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.declared import PARAMETERS
from pipesched.pipeline.problem.problem import Problem
from tests.every_number import FILE, GIVEN

Load = Callable[..., Problem]

OVERRIDES = [  # a parameter, its value, the same value for make_problem, in another spelling where there is one
    ("name", "mine", "mine"),
    ("devices", 4, 4),
    ("stages", "6", 6),
    ("microbatches", 5.0, 5),
    ("placement", "linear", "linear"),
    ("placement", "auto", "auto"),
    ("placement", (1, 0, 0, 1), [1, 0, 0, 1]),
    ("time_unit", "ms", "ms"),
    ("lanes", "pair", "pair"),
    ("speed", ["0.5", 1], [0.5, 1]),
    ("links", [[0, 1], ["2", 0]], [[0, 1], [2, 0]]),
    ("forward", "0.5", Fraction(1, 2)),
    ("forward", (1, 1, 2, 1), [1, 1, 2, 1]),
    ("backward", ["1", 2.0, Decimal(3), Fraction(4)], [1, 2, 3, 4]),
    ("recompute", 1, 1),
    ("overlap", 0, 0),
    ("p2p", [1, 0, 1], [1, 0, 1]),
    ("offload", 5, 5),
    ("reload", Decimal("0.5"), 0.5),
    ("unit", "GB", "GB"),
    ("activation", [1, 2, 3, "1/3"], [1, 2, 3, Fraction(1, 3)]),
    ("retain", [0, 1, 0, 1], [0, 1, 0, 1]),
    ("checkpoint", 1, 1),
    ("static", 0.5, "0.5"),
    ("budget", [30, 40], [30, 40]),
    ("messages", {"queue": "rank", "order": "best"}, {"queue": "rank", "order": "best"}),
]
BY_STEP = {  # tests/config/test_step.py
    *("gather", "reduce", "optimizer", "tied", "weights", "gradients", "states", "shard", "clip", "side")
}
BY_MICROBATCH = {"sizes", "slices", "mode", "rounds", "kv"}  # tests/config/test_units.py
BY_QUEUE = {"receive"}  # tests/pipeline/test_messages.py
HALVES = {"backward_input", "backward_weight"}
BY_LAYERS = {"chunks", "layers", "layer", "first", "last", "mtp", "layout"}  # tests/config/test_layers.py


@pytest.mark.parametrize(("name", "value", "meant"), OVERRIDES)
def test_an_override_replaces_the_value_of_the_file(load: Load, name: str, value: object, meant: object) -> None:
    """An override replaces one value of the file, and leaves every other as it is."""
    changed: dict[str, Any] = {**GIVEN, name: meant}
    assert load(FILE, **{name: value}) == make_problem(**changed)


def test_every_parameter_is_tested() -> None:
    """The table above, and the tests of halves, layers, microbatches that differ and steps, have each parameter;
    `algorithm` is no part of a problem."""
    parameters = {*PARAMETERS}
    assert {name for name, _, _ in OVERRIDES} | HALVES | BY_LAYERS | BY_MICROBATCH | BY_QUEUE | BY_STEP == parameters


@pytest.mark.parametrize("name", sorted({"budget", "overlap", "recompute", "microbatches", "placement"}))
def test_none_stands_for_the_default(load: Load, name: str) -> None:
    """None takes a value of the file away."""
    changed: dict[str, Any] = {key: value for key, value in GIVEN.items() if key != name}
    assert load(FILE, **{name: None}) == make_problem(**changed) != load(FILE)


def test_halves_replace_the_backward(load: Load) -> None:
    """The two halves as overrides take the place of the file's backward."""
    problem = load(FILE, backward_input=1, backward_weight=[2, 3, 4, 5])
    expected: dict[str, Any] = {**GIVEN, "backward": None, "backward_input": 1, "backward_weight": [2, 3, 4, 5]}
    assert problem == make_problem(**expected)


def test_backward_replaces_the_halves(load: Load) -> None:
    """A backward as an override takes the place of the file's two halves."""
    text = "devices: 2\ncosts: {backward_input: 1, backward_weight: 2}"
    assert load(text, backward=7) == make_problem(devices=2, backward=7)


@pytest.mark.parametrize("half", sorted(HALVES))
def test_one_half_keeps_the_other(load: Load, half: str) -> None:
    """One half as an override replaces that half of the file only."""
    text = "devices: 2\ncosts: {backward_input: 1, backward_weight: 2}"
    halves: dict[str, Any] = {"backward_input": 1, "backward_weight": 2, half: 9}
    assert load(text, **{half: 9}) == make_problem(devices=2, **halves)


ALL_THREE = "devices: 2\ncosts: {backward: 2, backward_input: 1.5, backward_weight: 1.25}"


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        (ALL_THREE, {"backward": 3}, (3, "1.5", "1.25")),
        (ALL_THREE, {"backward_input": 1}, (2, 1, "1.25")),
        (ALL_THREE, {"backward": 3, "backward_weight": 2}, (3, "1.5", 2)),
        ("devices: 2\ncosts: {backward: 2}", {"backward": 3, "backward_input": 2, "backward_weight": 2}, (3, 2, 2)),
        ("devices: 2\ncosts: {backward_input: 1, backward_weight: 1}", {"backward": 3}, (3, None, None)),
        ("devices: 2\ncosts: {backward_input: 1, backward_weight: 1}", {"backward": 3, "backward_input": 2}, (3, 2, 1)),
    ],
)
def test_the_whole_beside_its_halves(
    load: Load, text: str, changed: dict[str, Any], expected: tuple[Any, Any, Any]
) -> None:
    """Where all three are there, an override changes one of them; else one way replaces the other."""
    keys = ("backward", "backward_input", "backward_weight")
    given = {key: value for key, value in zip(keys, expected, strict=True) if value is not None}
    assert load(text, **changed) == make_problem(devices=2, **given)


def test_defaults_follow_the_options(load: Load) -> None:
    """What the file leaves open follows the overridden values: stages and microbatches the devices, B the forward."""
    problem = load("devices: 2", devices=3, forward=5)
    assert problem == make_problem(devices=3, stages=3, microbatches=6, forward=5, backward=10)


BUILT_IN: list[tuple[dict[str, Any], dict[str, Any]]] = [  # overrides, the problem they give without a file
    ({}, {"devices": 4, "stages": 8, "microbatches": 8}),
    ({"devices": 8}, {"devices": 8, "stages": 16, "microbatches": 8}),
    ({"devices": "8"}, {"devices": 8, "stages": 16, "microbatches": 8}),
    ({"stages": 4}, {"devices": 4, "stages": 4, "microbatches": 8}),
    ({"devices": 3, "stages": 9}, {"devices": 3, "stages": 9, "microbatches": 8}),
    ({"microbatches": 2}, {"devices": 4, "stages": 8, "microbatches": 2}),
    ({"forward": 1}, {"devices": 4, "stages": 8, "microbatches": 8, "forward": 1}),
    ({"activation": 3}, {"devices": 4, "stages": 8, "microbatches": 8, "activation": 3}),
]


@pytest.mark.parametrize(("overrides", "expected"), BUILT_IN)
def test_built_in_default(overrides: dict[str, Any], expected: dict[str, Any]) -> None:
    """Without a file: 4 devices, two stages each, M 8, F 5, B 10, no budget; stages and activation follow."""
    assert load_problem(None, **overrides) == make_problem(**{"forward": 5, "backward": 10, **expected})


def test_built_in_activation_follows_the_stages() -> None:
    """Without a file a stage's activation is P/S of the final devices and stages."""
    problem = load_problem(devices=3, stages=9)
    assert {Fraction(size, problem.grains.per_unit) for size in problem.grains.largest["activation"]} == {
        Fraction(1, 3)
    }
    assert problem.grains.budget is None


def test_list_in_the_file_that_an_override_made_wrong(load: Load) -> None:
    """A list that no longer suits the overridden stages is told by its place in the file."""
    with pytest.raises(ConfigError, match=r"^c\.yaml:2: costs\.forward: .* needs 8 numbers .* has 4"):
        load("devices: 4\ncosts: {forward: [1, 2, 3, 4]}", stages=8)


def test_a_config_is_a_file_or_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name, a Path, and YAML of one line or of several are the same config."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(FILE)
    expected = make_problem(**GIVEN)
    assert [load_problem(config) for config in ("c.yaml", Path("c.yaml"), FILE)] == [expected] * 3
    assert load_problem("devices: 2") == load_problem("{devices: 2}") == load_problem(" {devices: 2}")

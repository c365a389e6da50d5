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
from pipesched.pipeline.arguments import make_problem
from pipesched.pipeline.declared import PARAMETERS
from pipesched.pipeline.problem import Problem
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


@pytest.mark.parametrize("half", sorted(HALVES))
def test_one_half_in_place_of_the_backward_needs_the_other(load: Load, half: str) -> None:
    """One half on top of a whole backward is refused, and the message names the half that is missing."""
    (other,) = HALVES - {half}
    with pytest.raises(ConfigError, match=f"^{half}: .*`{other}` is needed"):
        load(FILE, **{half: 9})


@pytest.mark.parametrize("half", sorted(HALVES))
def test_the_whole_and_a_half_need_the_other_half(load: Load, half: str) -> None:
    """Overrides that give the whole and a half are refused where the file has no halves."""
    (other,) = HALVES - {half}
    with pytest.raises(ConfigError, match=f"^{half}: .*`{other}` is needed"):
        load("devices: 2\ncosts: {backward: 2}", backward=3, **{half: 9})


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


BAD = [  # a parameter, its value, what the message holds beside the parameter
    ("devices", 0, ["whole number of at least 1", "not 0"]),
    ("devices", None, ["whole number of at least 1", "not null"]),
    ("devices", [1, 2], ["whole number of at least 1", "[1, 2]"]),
    ("devices", True, ["whole number of at least 1", "true"]),
    ("devices", "x", ["whole number of at least 1", "'x'"]),
    ("devices", Decimal("9e999999"), ["whole number of at least 1"]),
    ("devices", "1e99999999999999999999", ["whole number of at least 1"]),
    ("stages", 3, ["at least the number of devices (4)", "not 3"]),
    ("microbatches", 5_000_000, ["80,000,000 operations", "at most 10,000,000"]),
    ("placement", "Loop", ["'Loop'", "did you mean 'loop'?"]),
    ("placement", [0, 1, 2], ["each of the 8 stages", "has 3"]),
    ("placement", [0, 1, 2, 3, 0, 1, 2, 9], ["device 9", "0 to 3"]),
    ("placement", {0: 1}, ["a name or a list of devices"]),
    ("forward", "", ["must be a number", "''"]),
    ("forward", float("nan"), ["must be a number", "nan"]),
    ("forward", "inf", ["must be a number", "'inf'"]),
    ("forward", "1/3", ["must be decimals", "1/3"]),
    ("forward", True, ["must be a number", "true"]),
    ("forward", {"a": 1}, ["must be a number"]),
    ("forward", [1, 2], ["needs 8 numbers (one a stage)", "has 2"]),
    ("forward", [1, 1, "", 1, 1, 1, 1, 1], ["[2]", "must be a number", "''"]),
    ("forward", "1e99999999999999999999", ["is too large: at most 1e12"]),
    ("backward", -1, ["at least 0", "not -1"]),
    ("p2p", [1, 1], ["needs 7 numbers (one a boundary", "has 2"]),
    ("overlap", "x", ["must be a number", "'x'"]),
    ("recompute", 1_234_567_890_123, ["1.23456789e+12 is too large: at most 1e12"]),
    ("offload", -0.1, ["at least 0", "not -0.1"]),
    ("reload", 1, ["`offload` is needed too"]),
    ("activation", 1e-10, ["1e-10 is too small: at least 1e-9, or 0"]),
    ("checkpoint", 1.1, ["between 0 and 1", "not 1.1"]),
    ("checkpoint", -1, ["between 0 and 1", "not -1"]),
    ("budget", 0, ["more than 0", "not 0"]),
    ("budget", -1, ["not -1"]),
    ("budget", [4, 4], ["needs 4 numbers (one a device)", "has 2"]),
    ("name", 5, ["one line of text", "5"]),
    ("lanes", "pairs", ["'pairs'"]),
    ("forwards", 1, ["unknown parameter", "did you mean 'forward'?"]),
    ("algorithm", "naive", ["unknown parameter"]),
]


@pytest.mark.parametrize(("name", "value", "fragments"), BAD)
def test_bad_override(name: str, value: object, fragments: list[str]) -> None:
    """A bad value is told by the parameter, what was found and what is allowed, on one line."""
    with pytest.raises(ConfigError) as error:
        load_problem(None, **{name: value})
    message = str(error.value)
    assert message.startswith(name)
    assert error.value.key == name
    assert error.value.where is None
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message


def test_list_in_the_file_that_an_override_made_wrong(load: Load) -> None:
    """A list that no longer suits the overridden stages is told by its place in the file."""
    with pytest.raises(ConfigError, match=r"^c\.yaml:2: costs\.forward: .* needs 8 numbers .* has 4"):
        load("devices: 4\ncosts: {forward: [1, 2, 3, 4]}", stages=8)


def test_a_config_is_a_file_or_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name, a Path, and YAML of one line or of several are the same config; anything else is none."""
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(FILE)
    expected = make_problem(**GIVEN)
    assert [load_problem(config) for config in ("c.yaml", Path("c.yaml"), FILE)] == [expected] * 3
    assert load_problem("devices: 2") == load_problem("{devices: 2}") == load_problem(" {devices: 2}")
    for config in (5, b"devices: 4", {"devices": 4}):
        with pytest.raises(ConfigError, match=r"^path_or_text: must be the name of a file, or YAML, not ") as refusal:
            load_problem(config)  # type: ignore[arg-type]
        assert refusal.value.key == "path_or_text"


def test_an_error_in_a_text_names_its_line() -> None:
    """YAML that is no file is called <text>; a name that is no file is the argument's fault."""
    with pytest.raises(ConfigError, match=r"^<text>:2: unknown key 'device'"):
        load_problem("devices: 4\ndevice: 4\n")
    with pytest.raises(ConfigError, match=r"^<text>:2: costs\.forward: ") as bad:
        load_problem("devices: 4\ncosts: {forward: x}\n")
    assert (bad.value.key, bad.value.where) == ("forward", "<text>:2: costs.forward")
    with pytest.raises(ConfigError, match=r"^path_or_text: cannot read 'devices\.yaml'") as missing:
        load_problem("devices.yaml")
    assert missing.value.key == "path_or_text"

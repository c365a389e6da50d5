"""Overrides, the key algorithm, and that each key is declared once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, NotApplicable, Problem, algorithms, make_problem
from pipesched.config.load import load as load_problem, load_config
from pipesched.config.values import Algorithm
from pipesched.schedulers.options import OPTIONS, options_of

FILE = """\
devices: 2
stages: 4
microbatches: 3
placement: loop
costs: {forward: 7, backward: 8, recompute: 9, overlap: 10, p2p: 11, offload: 12, reload: 13}
memory: {activation: 14, retain: 0.5, checkpoint: 0.6, static: 15, budget: 100}
"""
GIVEN: dict[str, Any] = {
    "devices": 2, "stages": 4, "microbatches": 3, "placement": "loop", "forward": 7, "backward": 8, "recompute": 9,
    "overlap": 10, "p2p": 11, "offload": 12, "reload": 13, "activation": 14, "retain": Fraction(1, 2),
    "checkpoint": Fraction(3, 5), "static": 15, "budget": 100,
}  # fmt: skip

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
    ("lanes", "device", "device"),
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
BY_STEP = {  # tests/config/test_setup.py
    *("gather", "reduce", "optimizer", "tied", "weights", "gradients", "states", "shard", "clip", "side")
}
BY_MICROBATCH = {"sizes", "slices", "mode", "rounds", "kv"}  # tests/config/test_numbers.py
BY_QUEUE = {"receive"}  # tests/pipeline/test_messages.py
HALVES = {"backward_input", "backward_weight"}
BY_LAYERS = {"chunks", "layers", "layer", "first", "last", "mtp", "layout"}  # tests/config/test_setup.py


@pytest.mark.parametrize(("name", "value", "meant"), OVERRIDES)
def test_an_override_replaces_the_value_of_the_file(load: Load, name: str, value: object, meant: object) -> None:
    """An override replaces one value of the file, and leaves every other as it is."""
    changed: dict[str, Any] = {**GIVEN, name: meant}
    assert load(FILE, **{name: value}) == make_problem(**changed)


def test_every_parameter_is_tested() -> None:
    """The table above, and the tests of halves, layers, microbatches that differ and steps, have each parameter;
    `algorithm` is no part of a problem."""
    tested = HALVES | BY_LAYERS | BY_MICROBATCH | BY_QUEUE | BY_STEP
    assert {name for name, _, _ in OVERRIDES} | tested == {*signature(make_problem).parameters}


@pytest.mark.parametrize("name", sorted({"budget", "overlap", "recompute", "microbatches", "placement"}))
def test_none_stands_for_the_default(load: Load, name: str) -> None:
    """None takes a value of the file away."""
    changed: dict[str, Any] = {key: value for key, value in GIVEN.items() if key != name}
    assert load(FILE, **{name: None}) == make_problem(**changed) != load(FILE)


ALL_THREE = "devices: 2\ncosts: {backward: 2, backward_input: 1.5, backward_weight: 1.25}"


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        (ALL_THREE, {"backward": 3}, (3, "1.5", "1.25")),
        (ALL_THREE, {"backward_input": 1}, (2, 1, "1.25")),
        (ALL_THREE, {"backward": 3, "backward_weight": 2}, (3, "1.5", 2)),
        ("devices: 2\ncosts: {backward_input: 1, backward_weight: 2}", {"backward_input": 9}, (None, 9, 2)),
        ("devices: 2\ncosts: {backward_input: 1, backward_weight: 2}", {"backward_weight": 9}, (None, 1, 9)),
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


BUILT_IN: list[tuple[dict[str, Any], dict[str, Any]]] = [  # overrides, the problem they give without a file
    ({}, {"devices": 4, "stages": 8, "microbatches": 8}),
    ({"devices": 8}, {"devices": 8, "stages": 16, "microbatches": 8}),
    ({"stages": 4}, {"devices": 4, "stages": 4, "microbatches": 8}),
    ({"devices": 3, "stages": 9}, {"devices": 3, "stages": 9, "microbatches": 8}),
    ({"activation": 3}, {"devices": 4, "stages": 8, "microbatches": 8, "activation": 3}),
]


@pytest.mark.parametrize(("overrides", "expected"), BUILT_IN)
def test_built_in_default(overrides: dict[str, Any], expected: dict[str, Any]) -> None:
    """Without a file: 4 devices, two stages each, M 8, F 5, B 10, no budget; stages and activation follow."""
    assert load_problem(None, **overrides) == make_problem(**{"forward": 5, "backward": 10, **expected})


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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configs are written to an empty folder, where messages call them c.yaml."""
    monkeypatch.chdir(tmp_path)


def read(text: str) -> Algorithm | None:
    """The algorithm of a config for 4 devices that ends with this text, which starts on line 2."""
    Path("c.yaml").write_text(f"devices: 4\n{text}\n")
    return load_config("c.yaml", {}).algorithm


ASKED: list[tuple[str, str, dict[str, Any]]] = [  # what the file says, the family, its options
    ("algorithm: zb-v", "zb-v", {}),
    ("algorithm: 1f1b", "1f1b", {}),
    ("algorithm: GPipe", "naive", {}),
    ("algorithm: {zb-v: }", "zb-v", {}),
    ("algorithm: {interleaved: {group_size: 8}}", "interleaved", {"group_size": 8}),
    ("algorithm: {interleaved: {group_size: best}}", "interleaved", {"group_size": "best"}),
    ("algorithm: {gpipe: {lifo: true}}", "naive", {"lifo": True}),
    ("algorithm:\n  list:\n    tie: random\n    seed: 0\n    priority:", "list", {"tie": "random", "seed": 0}),
    (
        "algorithm: {block: {period: 6.5, forward: [0, 1.5], peak: 4, squeeze: false}}",
        "block",
        {"period": Decimal("6.5"), "forward": [0, Decimal("1.5")], "peak": 4, "squeeze": False},
    ),
]


@pytest.mark.parametrize(("text", "name", "options"), ASKED)
def test_a_name_or_one_name_with_options(text: str, name: str, options: dict[str, Any]) -> None:
    """Both forms give the family's own name and the options as they are written; an empty option is absent."""
    asked = read(text)
    assert asked is not None
    assert (asked.name, asked.options) == (name, options)


@pytest.mark.parametrize("text", ["", "algorithm:", "algorithm: ~"])
def test_no_algorithm(text: str) -> None:
    """Without the key, or with an empty one, the file asks for none; so does the built-in default."""
    assert read(text) is None
    assert load_config(None, {}).algorithm is None


CONFIGURED = Algorithm("interleaved", {"group_size": 8}, {"group_size": "c.yaml:2: algorithm.interleaved.group_size"})
CHOICES: list[tuple[str | None, dict[str, Any], str, dict[str, Any]]] = [
    (None, {}, "interleaved", {"group_size": 8}),
    ("interleaved", {}, "interleaved", {"group_size": 8}),
    (None, {"group_size": 4}, "interleaved", {"group_size": 4}),
    ("grouped-interleaved", {}, "grouped-interleaved", {}),
    ("gis", {"group_size": 4}, "grouped-interleaved", {"group_size": 4}),
]


@pytest.mark.parametrize(("name", "options", "expected", "left"), CHOICES)
def test_the_command_line_goes_first(
    name: str | None, options: Mapping[str, Any], expected: str, left: Mapping[str, Any]
) -> None:
    """Another name replaces the config's algorithm with its options; options replace the same ones."""
    asked = CONFIGURED.or_named(name, options)
    assert (asked.name, asked.options) == (expected, left)


def test_errors_say_where_the_option_stands() -> None:
    """An error in an option of the file is located, also inside of a list, and keeps its kind."""
    located = r"^c\.yaml:2: algorithm\.interleaved\.group_size\[3\]: why$"
    with pytest.raises(NotApplicable, match=located), CONFIGURED.located():
        raise NotApplicable("why", "group_size", entry=3)


@pytest.mark.parametrize("key", ["stages", None, "group_size"])
def test_other_errors_stay_as_they_are(key: str | None) -> None:
    """An error that is in no option of the file is not said to be there, nor one in an option that was replaced."""
    asked = CONFIGURED.overridden({"group_size": 4}) if key == "group_size" else CONFIGURED
    error = ConfigError("why", key)
    with pytest.raises(ConfigError) as caught, asked.located():
        raise error
    assert caught.value is error
    assert error.where is None


def test_every_option_of_a_family_has_a_field() -> None:
    """The table of options, from which come the command line, the schema and the reader, knows all of them."""
    assert {option for one in algorithms() for option in options_of(one)} == set(OPTIONS)


PACKAGE = Path(pipesched.__file__).parent
COST = '    flush: tuple[Exact, ...] | None = declare(TIMES, "time to flush a stage", None, example="1.5")\n'
TRAINING = (
    '    rounding: str = declare(OneOf("nearest", "chance"), "how weights are rounded", "nearest", example="nearest")\n'
)
SETUP = "\n".join((
    "model: llama-3-8b", "hardware: h100-sxm", "parallel: {gpus: 8, pipeline: 4}",
    "batch: {sequence: 4096, global: 16}", "training: {rounding: chance}",
))  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with a cost of problems and a word of training runs, each declared in a line."""
    folder = tmp_path_factory.mktemp("scratch")
    shutil.copytree(PACKAGE, folder / "pipesched", ignore=shutil.ignore_patterns("__pycache__"))
    for file, before, line in (
        ("pipeline/problem/costs.py", "    tied: Exact | None = declare(", COST),
        ("estimation/setup.py", "    full_layers: int | None = None  # no key", TRAINING),
    ):
        path = folder / "pipesched" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1
        path.write_text(text.replace(before, f"{line}{before}"), encoding="utf-8")
    return folder


def said(scratch: Path, *arguments: str, code: int = 0, start: str = "-m pipesched") -> str:
    """What a command of the copy prints, or says of a mistake."""
    command = [sys.executable, *start.split(), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(scratch), "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.slow
def test_a_cost_follows_from_its_declaration(scratch: Path) -> None:
    """Starter, JSON Schema, option with help, refusal, document and Python have a new cost."""
    assert "time to flush a stage" in said(scratch, "run", "--help")
    refused = said(scratch, "run", "1f1b", "--stages", "4", "--flush", "1,2", code=2)
    assert "--flush: a list here needs 4 numbers (one a stage); this one has 2" in refused
    (scratch / "layers.yaml").write_text("devices: 2\nlayer: {forward: 1, flush: [1, 2, 4]}\nlayout: [1, 2]\n")
    layered = json.loads(said(scratch, "run", "1f1b", "-c", "layers.yaml", "--json"))["problem"]
    assert (layered["layer"]["flush"], layered["costs"]["flush"]) == ([1, 2, 4], [1, 6])
    python = "import json; from pipesched import json_schema, load, make_problem, starter; print(json.dumps([starter(),"
    python += " json_schema()['properties']['costs']['properties'], 'flush: Time' in make_problem.__doc__,"
    python += " make_problem(devices=2, flush=3) == load('devices: 2', flush=3)]))"
    starter, costs, *is_there = json.loads(said(scratch, python, start="-c"))
    assert "# flush: 1.5                 # time to flush a stage" in starter
    assert costs["flush"] == {**costs["gather"], "description": "time to flush a stage"}
    assert is_there == [True, True]


@pytest.mark.nightly
def test_a_word_of_a_training_run_follows(scratch: Path) -> None:
    """Reader, refusal, options, JSON Schema, starter and list of keys have a new key of `training`."""
    (scratch / "setup.yaml").write_text(SETUP)
    assert "tokens/s" in said(scratch, "estimate", "-c", "setup.yaml")
    assert "unknown" in said(scratch, "estimate", "-c", "setup.yaml", "--rounding", "chanc", code=2)
    training = json.loads(said(scratch, "init", "--schema"))["properties"]["training"]["anyOf"][0]["properties"]
    assert training["rounding"]["description"] == "how weights are rounded"
    assert "# rounding: nearest" in said(scratch, "init", "--from-model", "llama-3-8b")
    assert "training.rounding" in said(scratch, "list", "--keys")

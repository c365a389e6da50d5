"""The config's key `algorithm`: a name, or one name with its options, beside the problem."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipesched.comparing.sweep import sweep_points, varied_field
from pipesched.config.load import algorithm_of, load, load_config, load_values
from pipesched.config.values import Algorithm
from pipesched.errors import ConfigError, NotApplicable
from pipesched.schedulers.options import OPTIONS, options_of
from pipesched.schedulers.registry import algorithms


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


def test_the_problem_knows_no_algorithm() -> None:
    """The problem of a file is the same with and without an algorithm."""
    read("algorithm: {interleaved: {group_size: 8}}")
    problem = load("c.yaml")
    read("")
    assert problem == load("c.yaml")


def test_a_sweep_keeps_the_algorithm() -> None:
    """The algorithm of the file stands beside the problems of a sweep, and cannot be swept itself."""
    read("algorithm: {interleaved: {group_size: 8}}")
    values = load_values("c.yaml", {})
    asked = algorithm_of(values)
    assert asked is not None
    assert (asked.name, asked.options) == ("interleaved", {"group_size": 8})
    swept = sweep_points(values, varied_field("microbatches"), [4, 8])
    assert [(value, problem.microbatches) for value, problem in swept] == [(4, 4), (8, 8)]
    with pytest.raises(ConfigError, match="'algorithm' cannot be varied"):
        varied_field("algorithm")


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

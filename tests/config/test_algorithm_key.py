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


BAD = [  # what the file says, the message
    ("algorithm: zbv", "c.yaml:2: algorithm: unknown algorithm 'zbv'; did you mean 'zb-v'? the nearest are "),
    ("algorithm: 5", "c.yaml:2: algorithm: must be a name, or one name with its options: {interleaved: {group_size"),
    ("algorithm: [1f1b]", "c.yaml:2: algorithm: must be a name, or one name with its options"),
    ("algorithm: {}", "c.yaml:2: algorithm: must be a name, or one name with its options"),
    ("algorithm: {1f1b: , naive: }", "not 2 names"),
    (
        "algorithm:\n  interleave: {group_size: 8}",
        "c.yaml:3: algorithm: unknown algorithm 'interleave'; did you mean 'in",
    ),
    (
        "algorithm:\n  interleaved:\n    group-size: 8",
        "c.yaml:4: algorithm.interleaved.group-size: interleaved has no option `group-size`;"
        " did you mean `group_size`? it takes `group_size`",
    ),
    (
        "algorithm: {1f1b: {lifo: true}}",
        "c.yaml:2: algorithm.1f1b.lifo: 1f1b has no option `lifo`; it takes `recompute`, `offload`",
    ),
    ("algorithm: {interleaved: 8}", "c.yaml:2: algorithm.interleaved: must hold `option: value` lines, not 8"),
    (
        "algorithm: {interleaved: {group_size: 0}}",
        "c.yaml:2: algorithm.interleaved.group_size: must be best or a whole number of at least 1, not 0",
    ),
    ("algorithm: {interleaved: {group_size: 1.5}}", "whole number of at least 1, not 1.5"),
    ("algorithm: {interleaved: {group_size: eight}}", "whole number of at least 1, not 'eight'"),
    ("algorithm: {interleaved: {group_size: bset}}", "of at least 1, not 'bset'; did you mean 'best'?"),
    ("algorithm: {interleaved: {group_size: -1}}", "must be best or a whole number of at least 1, not -1"),
    ("algorithm: {1f1b: {recompute: fulll}}", "of at least 1, not 'fulll'; did you mean 'full'?"),
    ("algorithm: {interleaved: {group_size: '8'}}", "whole number of at least 1, not '8'"),
    ("algorithm: {interleaved: {group_size: [8]}}", "whole number of at least 1, not [8]"),
    ("algorithm: {interleaved: {group_size: true}}", "whole number of at least 1, not true"),
    ("algorithm: {list: {seed: -1}}", "c.yaml:2: algorithm.list.seed: must be a whole number of at least 0, not -1"),
    ("algorithm: {naive: {lifo: 1}}", "c.yaml:2: algorithm.naive.lifo: must be true or false, not 1"),
    ("algorithm: {list: {tie: 1}}", "c.yaml:2: algorithm.list.tie: must be a name, one of input, reverse, fifo, "),
    ("algoritm: 1f1b", "c.yaml:2: unknown key 'algoritm'; did you mean 'algorithm'?"),
    ("costs: {algorithm: 1f1b}", "unknown key 'costs.algorithm'; did you mean 'algorithm'?"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_algorithm(text: str, message: str) -> None:
    """One message: file, line, key, what was found, what is allowed and nearest."""
    with pytest.raises(ConfigError) as error:
        read(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


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

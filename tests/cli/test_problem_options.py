"""Options of the problem: their texts on top of a config, and what a bad one is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from pipesched.cli.groups import GROUPS, PROBLEM_FLAGS
from pipesched.cli.options import parse_value
from pipesched.cli.reading import given_config
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.pipeline.problem.problem import Problem
from tests.config.test_overrides import OVERRIDES as BY_NAME
from tests.every_number import FILE, GIVEN

Cli = Callable[..., "CompletedProcess[str]"]


def spelled(value: object) -> str:
    """A value as it is typed."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


OVERRIDES: list[tuple[str, str, dict[str, Any]]] = [  # an option, its text, the argument of make_problem it stands for
    *((PROBLEM_FLAGS[name], spelled(value), {name: meant}) for name, value, meant in BY_NAME if name in PROBLEM_FLAGS),
    ("--placement", "1,0,0,1", {"placement": [1, 0, 0, 1]}),
    ("--backward", "1,2, 3 ,4", {"backward": [1, 2, 3, 4]}),
    ("--backward-input", "1", {"backward": None, "backward_input": 1, "backward_weight": 2}),
    ("--backward-weight", "2", {"backward": None, "backward_input": 1, "backward_weight": 2}),
    ("--speed", "{1: 0.8}", {"speed": [1, 0.8]}),
    ("--speed", " {0: 2,1 : 0.5}", {"speed": [2, 0.5]}),
]
HALVES = {"--backward-input": "1", "--backward-weight": "2"}


def problem_of(options: dict[str, str], config: str | None = None) -> Problem:
    """The problem of a config with these options on top, read as a command reads them."""
    by_flag = {flag: name for name, flag in PROBLEM_FLAGS.items()}
    texts = {by_flag[flag]: text for flag, text in options.items()}
    return given_config(GROUPS["problem"].read({"config": config, **texts})).problem


@pytest.mark.parametrize(("option", "text", "change"), OVERRIDES)
def test_option_replaces_the_value_of_the_file(
    tmp_path: Path, option: str, text: str, change: dict[str, object]
) -> None:
    """An option replaces one value of the file, and leaves every other as it is; a half of B comes with the other."""
    config = tmp_path / "c.yaml"
    config.write_text(FILE)
    options = {**(HALVES if option in HALVES else {}), option: text}
    arguments: dict[str, Any] = {**GIVEN, **change}
    assert problem_of(options, str(config)) == make_problem(**arguments)


def test_every_option_is_tested() -> None:
    """The table above has each option that overrides a value."""
    by_layers = {"--chunks", "--layers", "--layout"}  # tests/cli/test_layers.py
    by_microbatch = {"--slices", "--mode", "--rounds", "--kv"}  # tests/cli/test_units.py
    by_queue = {"--receive"}  # below
    by_step = {f"--{key}-cost" for key in ("gather", "reduce", "optimizer", "tied")}  # tests/cli/test_step.py
    by_step |= {"--weights", "--gradients", "--states", "--clip"}
    others = by_layers | by_microbatch | by_queue | by_step
    assert {option for option, _, _ in OVERRIDES} | others == set(PROBLEM_FLAGS.values())


def test_receive_buffers_go_with_a_queue(cli: Cli) -> None:
    """With messages that queue they are a part of the problem."""
    queued = cli("run", "--algo", "1f1b", "--messages", "rank", "--receive", "0.25", "--json")
    assert json.loads(queued.stdout)["problem"]["memory"]["receive"] == 0.25


sane = st.sampled_from(
    ["0", "1", "2", "4", "8", "0.5", "1/3", "1,2,3,4", "1,1", "-1", "x", "", "auto", "loop", "1e3", "0.1,,"]
)
options = st.dictionaries(st.sampled_from(sorted(PROBLEM_FLAGS.values())), sane | st.text(max_size=8), max_size=4)


@given(options)
@example({"--devices": "9e999999"})
@example({"--forward": "1e999999999999999999999"})
def test_random_options(overrides: dict[str, str]) -> None:
    """Random texts of options give a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(problem_of(overrides), Problem)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5))
def test_option_list_round_trips(numbers: list[int]) -> None:
    """A list of numbers joined by commas is read back as it was."""
    text = ",".join(map(str, numbers))
    assert parse_value(text) == (numbers if len(numbers) > 1 else numbers[0])

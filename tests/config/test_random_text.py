"""Random text as a config: a problem or a ConfigError, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

from hypothesis import example, given, strategies as st

from pipesched.config.load import load_config
from pipesched.config.values import Source
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.declared import BY_KEY, BY_NAME
from pipesched.pipeline.problem.problem import Problem
from pipesched.text.yaml_reader import decode, parse_yaml

PIECES = [
    *(key.rpartition(".")[2] for key in BY_KEY),
    *(
        "costs",
        "memory",
        ": ",
        ":",
        "\n",
        "\n  ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        '"',
        "'",
        "&a ",
        "*a",
        "!!int ",
        "! ",
    ),
    *("|\n  ", ">-\n ", "#", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "...\n", "4", "0.5", "-1", "1e5", ".nan", ".inf"),
    *("~", "true", "\t", "? ", "<<", "\\U", "\\x4", "\\uD800", "FFFFFFFF", "\u2028", "\x85", "\ufeff", "\x07", "@"),
    *("1e999999999999999999999", "9" * 30, "_", "linear", "loop", "[0, 1]"),
]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@given(texts)
@example('"\\UFFFFFFFF"')
@example("1e999999999999999999999")
def test_random_yaml(text: str) -> None:
    """Reading random YAML gives data or a ConfigError."""
    with suppress(ConfigError):
        assert parse_yaml(text, "x").line >= 1


@given(texts.map(str.encode) | st.binary(max_size=30))
@example(b"devices: 1\ncosts: {forward: 1e999999999999999999999}")
def test_random_config(content: bytes) -> None:
    """Loading random bytes gives a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(load_config(Source(decode(content, "x"), "x"), {}).problem, Problem)


sane = st.sampled_from(
    ["0", "1", "2", "4", "8", "0.5", "1/3", "1,2,3,4", "1,1", "-1", "x", "", "auto", "loop", "1e3", "0.1,,"]
)
numbers = st.integers() | st.floats() | st.decimals() | st.fractions() | st.booleans() | st.none() | sane
names = st.sampled_from(sorted(BY_NAME)) | st.text(max_size=8)
anything = numbers | st.text(max_size=8) | st.lists(numbers, max_size=8) | st.dictionaries(sane, numbers, max_size=2)


@given(st.dictionaries(names, anything, max_size=4))
@example({"devices": Decimal("9e999999")})
@example({"forward": "1e999999999999999999999"})
def test_random_overrides(overrides: dict[str, Any]) -> None:
    """Random values of parameters give a problem or a ConfigError."""
    with suppress(ConfigError):
        assert isinstance(load_config(None, overrides).problem, Problem)


@given(st.binary(max_size=200))
def test_random_bytes_are_text_or_refused(data: bytes) -> None:
    """Bytes are UTF-8 text without NULs, or a ConfigError."""
    with suppress(ConfigError):
        assert "\0" not in decode(data, "x")

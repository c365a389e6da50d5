"""What commands read from standard input, as a file of the name <stdin>."""

from __future__ import annotations

import io
import types

import pytest

from pipesched.cli.options import ProblemSource
from pipesched.cli.reading import given_config
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.arguments import make_problem
from pipesched.text.yaml_reader import MOST_BYTES


def given_on_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path "-" reads a config from standard input, and options go on top."""
    given_on_stdin(monkeypatch, b"\xef\xbb\xbfdevices: 3\n")
    assert given_config(ProblemSource("-", {"stages": 6})).problem == make_problem(devices=3, stages=6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "<stdin> is empty"),
        (b"devices: 4\ndevice: 3", "<stdin>:2: unknown key 'device'"),
        (b"devices: 0", "<stdin>:1: devices: must be a whole number"),
        (b"\xff", "<stdin> is no text file"),
        (b"devices: [", "<stdin>:1"),
    ],
)
def test_bad_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes, message: str) -> None:
    """A bad config on standard input is told as one of the file <stdin>."""
    given_on_stdin(monkeypatch, content)
    with pytest.raises(ConfigError) as error:
        given_config(ProblemSource("-", {}))
    assert str(error.value).startswith(message)


def test_standard_input_has_the_same_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless standard input is cut off where a file would be refused, not read into memory."""
    given_on_stdin(monkeypatch, b"devices: 4\n" + b"#" * MOST_BYTES)
    with pytest.raises(ConfigError, match="1,000,000"):
        given_config(ProblemSource("-", {}))


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was started without a standard input says so."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ConfigError, match="standard input is closed"):
        given_config(ProblemSource("-", {}))

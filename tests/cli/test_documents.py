"""Documents that were tampered with: `show` and `check` refuse them in one line, or list the rules they break."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

import pipesched
from pipesched.documents.json_text import dump
from pipesched.documents.schedule import document

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def printed() -> str:
    """The document of a small 1F1B schedule: 2 devices, 2 microbatches, F 1.5, B 3."""
    problem = pipesched.make_problem(devices=2, stages=2, microbatches=2, forward=1.5, backward=3)
    return dump(document(pipesched.run(problem, "1f1b")))


TEXTS = [  # what stands in the place of the whole document
    "",
    " ",
    "null",
    "[]",
    "5",
    '"text"',
    "{}",
    "{",
    '{"format": "pipesched.schedule"',
    "[" * 100_000,
    "devices: 4",
    "\0",
    b"\xff\xfe",
    "NaN",
]


@pytest.mark.parametrize("command", ["show", "check"])
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_no_document(cli: Cli, command: str, text: str | bytes) -> None:
    """What is no JSON object at all is refused in one line, and is not called a config."""
    result = cli(command, "-", stdin=text)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: <stdin>")
    assert result.stderr.count("\n") == 1
    assert "YAML" not in result.stderr


def test_truncated(cli: Cli, printed: str) -> None:
    """A document that ends too early, wherever, is refused."""
    for length in range(0, len(printed) - 3, len(printed) // 25):
        result = cli("show" if length % 4 else "check", "-", stdin=printed[:length])
        assert (result.returncode, result.stdout) == (2, "")
        assert "<stdin> is no JSON document" in result.stderr


HUGE = "99999999999999999999"
NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "1e-400", f"1e{HUGE}", f"1e-{HUGE}", "9" * 5000]


@pytest.mark.parametrize("key", ['"start": 0', '"forward": 1.5', '"activation": 1', '"devices": 2', '"version": 1'])
def test_number_out_of_range(cli: Cli, printed: str, key: str) -> None:
    """A number that no schedule holds is refused, wherever it stands."""
    assert key in printed
    for place, number in enumerate(NUMBERS):
        text = printed.replace(key, f"{key.partition(':')[0]}: {number}", 1)
        result = cli("check" if place % 4 else "show", "-", stdin=text)
        assert (result.returncode, result.stdout) == (2, ""), number[:30]
        assert result.stderr.startswith("pipesched: <stdin>")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("digits", [20, 30, 400, 4290])
def test_far_future(cli: Cli, printed: str, digits: int) -> None:
    """An operation that starts absurdly late is legal or refused, and nothing breaks on the way."""
    late = json.loads(printed)
    del late["metrics"], late["status"]  # which would be wrong
    late["devices"][0][-1].update(start=10**digits, end=10**digits + 3)
    for command in ("show", "check"):
        result = cli(command, "-", stdin=json.dumps(late))
        assert result.returncode in (0, 2)
        assert len(result.stderr) < 1000


def test_key_twice(cli: Cli, printed: str) -> None:
    """A key that stands twice in one object is refused, since one of the two would be lost."""
    result = cli("show", "-", stdin=printed.replace('"version": 1', '"version": 1, "version": 1'))
    assert (result.returncode, result.stdout) == (2, "")
    assert "twice" in result.stderr


@pytest.mark.parametrize("key", ["metrics", "status", "algorithm"])
def test_what_can_be_computed_is_not_believed(cli: Cli, printed: str, key: str) -> None:
    """Metrics and status are worked out again, so that a document without them, or with wrong ones, is shown right."""
    less = json.loads(printed)
    del less[key]
    again = json.loads(cli("show", "-", "--json", stdin=json.dumps(less)).stdout)
    expected = json.loads(printed)
    if key == "algorithm":
        again["algorithm"] = "1f1b"
    assert again == expected


@pytest.mark.parametrize("forward", ["99999999", "9999999.3", "123456789"])
def test_many_digits_survive(cli: Cli, forward: str) -> None:
    """Long times next to tiny ones: the document can be read back, or the costs are refused from the start."""
    made = cli("run", "--forward", forward, "--p2p", "0.00000001", "--json")
    if made.returncode == 2:
        assert "digits" in made.stderr
        return
    result = cli("show", "-", "--json", stdin=made.stdout)
    assert (result.returncode, result.stdout) == (0, made.stdout)

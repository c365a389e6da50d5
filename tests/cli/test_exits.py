"""Exit codes: 0 done, 1 the answer is no, 2 bad input, 130 interrupted; one message on stderr, no traceback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipesched.cli.exits import ExitStatus

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", ["n" * 300 + ".json", "n" * 250 + ".json"])
@pytest.mark.parametrize("command", [["run", "-o"], ["init"]], ids=" ".join)
def test_name_too_long(cli: Cli, command: list[str], name: str) -> None:
    """A file name that the system does not take is bad input (or just fits), never a traceback."""
    result = cli(*command, name)
    assert result.returncode == 2
    assert "name too long" in result.stderr


def test_infeasible_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    """A run without a schedule writes no file, and leaves one that is there as it was."""
    assert cli("run", "--algo", "list", "--mem-budget", "0.1", "-o", "out.json").returncode == 1
    assert not list(tmp_path.iterdir())
    Path("out.json").write_text("mine")
    assert cli("run", "--algo", "list", "--mem-budget", "0.1", "-o", "out.json", "--force").returncode == 1
    assert Path("out.json").read_text() == "mine"


def test_budget_that_would_fit_fits(cli: Cli) -> None:
    """The floor that the infeasible document names is a budget that works, and nothing below it is."""
    arguments = ("run", "--algo", "list", "--activation", "0.3", "--json", "--mem-budget")
    floor = json.loads(cli(*arguments, "0.1").stdout)["floor"]
    assert floor == 0.6
    assert cli(*arguments, str(floor)).returncode == 0
    assert cli(*arguments, "0.59").returncode == 1


@pytest.mark.parametrize("command", ["run", "compare"])
def test_interrupt(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Ctrl-C with nothing to show ends with 130 and one line."""

    def interrupted(*_: object, **_values: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipesched.config.load.load_config", interrupted)
    result = cli(command)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "pipesched: interrupted\n")


def test_statuses_are_the_documented_ones() -> None:
    """The exit codes are those of the manual."""
    assert {status.name: int(status) for status in ExitStatus} == {
        "DONE": 0,
        "ANSWER_IS_NO": 1,
        "BAD_INPUT": 2,
        "INTERRUPTED": 130,
    }

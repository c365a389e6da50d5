"""The command group: version, help, and names that are not commands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

import pipesched
from pipesched.cli import exits
from pipesched.cli.app import COMMANDS
from pipesched.core.arrays import form_of_kernels

Cli = Callable[..., subprocess.CompletedProcess[str]]


def test_version(cli: Cli) -> None:
    """--version prints the version of the package and the form of its kernels, and nothing else."""
    result = cli("--version")
    text = f"pipesched {pipesched.__version__}, kernels: {form_of_kernels()}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, text, "")


def test_slow_commands_say_how_to_get_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note follows a command of five seconds in plain Python; none a fast one, or one that waits for people."""
    monkeypatch.setattr(exits, "compiled_kernels", lambda: None)
    for seconds, name, notes in ((6, "run", 1), (4, "run", 0), (6, "explore", 0)):
        monkeypatch.setattr(exits, "elapsed", lambda seconds=seconds: seconds)

        def command() -> None: ...

        command.__module__ = f"pipesched.cli.{name}"
        exits.guarded(command)()
        assert capsys.readouterr().err.count("install a C compiler, and pipesched again") == notes


def test_help_names_every_command(cli: Cli) -> None:
    """--help names every command."""
    result = cli("--help")
    assert result.returncode == 0
    assert all(f" {name} " in result.stdout for name in COMMANDS)


def test_help_loads_no_numpy(process: Cli) -> None:
    """Help and refusals go without arrays, whose library takes as long to load as all else."""
    for arguments in (("--help",), ("run", "--help"), ("run", "--devices", "none")):
        assert "numpy" not in process(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr


def test_no_command_shows_the_help(cli: Cli) -> None:
    """Without a command there is help, not an error message."""
    result = cli()
    assert "Usage" in result.stdout + result.stderr
    assert "Error" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(cli: Cli, command: str) -> None:
    """Each command has help with the sentence that says what it does."""
    result = cli(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"pipesched {command}" in result.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["nosuch"],
        ["init", "a", "b"],
        ["run", "--nosuch"],
        ["run", "--devices"],
        ["run", "--json=yes"],
        ["show"],
        ["check"],
        ["list", "--all"],
    ],
    ids=" ".join,
)
def test_usage_error(cli: Cli, args: list[str]) -> None:
    """A command line that cannot be read is bad input: exit 2, a message on stderr, nothing on stdout."""
    result = cli(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr

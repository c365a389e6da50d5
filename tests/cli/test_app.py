"""The command group: help, versions, words without a flag, standard input, and exit codes."""

from __future__ import annotations

import io
import json
import re
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipesched
from pipesched import ConfigError, make_problem
from pipesched.cli import groups
from pipesched.cli.app import COMMANDS, make_fast
from pipesched.cli.exits import ExitStatus
from pipesched.cli.options import ProblemSource
from pipesched.cli.reading import given_config
from pipesched.core.arrays import form_of_kernels
from pipesched.text.yaml_reader import MOST_BYTES
from tests.cli.conftest import Cli


def test_version(cli: Cli) -> None:
    """--version prints the version of the package and the form of its kernels, and nothing else."""
    result = cli("--version")
    text = f"pipesched {pipesched.__version__}, kernels: {form_of_kernels()}\n"
    assert (result.returncode, result.stdout, result.stderr) == (0, text, "")


def test_slow_commands_say_how_to_get_compiled_kernels(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note follows a command of five seconds in plain Python; none a fast one, or one that waits for people."""
    monkeypatch.setattr(groups, "compiled_kernels", lambda: None)
    for seconds, name, notes in ((6, "run", 1), (4, "run", 0), (6, "explore", 0)):
        monkeypatch.setattr(groups, "elapsed", lambda seconds=seconds: seconds)
        with groups.guarded(name):
            pass
        assert capsys.readouterr().err.count("install a C compiler, and pipesched again") == notes


def test_help_loads_no_numpy(process: Cli) -> None:
    """Help and refusals go without arrays, whose library takes as long to load as all else."""
    for arguments in (("--help",), ("run", "--help"), ("run", "--devices", "none")):
        loaded = process(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"}).stderr
        assert ("numpy" in loaded, "cli.options" in loaded) == (False, arguments != ("--help",))


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
    assert "--quiet" in result.stdout


@pytest.mark.parametrize(
    "args", [["nosuch"], ["init", "a", "b"], ["run", "--devices"], ["run", "--json=yes"], ["show"]], ids=" ".join
)
def test_usage_error(cli: Cli, args: list[str]) -> None:
    """A command line that cannot be read is bad input: exit 2, a message on stderr, nothing on stdout."""
    result = cli(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [["run", "-o"], ["init"]], ids=" ".join)
def test_name_too_long(cli: Cli, command: list[str]) -> None:
    """A file name that the system does not take is bad input, never a traceback."""
    result = cli(*command, "n" * 250 + ".json")
    assert result.returncode == 2
    assert "name too long" in result.stderr


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


class Parameter(SimpleNamespace):
    """What a parameter of Click has that matters here."""

    def process_value(self, context: object, value: Any) -> Any:
        raise AssertionError("the validation library was asked")


def parameter(**attributes: Any) -> Parameter:
    return Parameter(**{"required": False, "multiple": False, "nargs": 1, "callback": None, **attributes})


def own(context: object, parameter: Parameter, value: object) -> object:
    """A callback."""
    return context, parameter.nargs, value


@pytest.mark.parametrize(
    ("attributes", "value", "meant"),
    [
        *(({}, value, value) for value in ("5", "", True, None, ("a", "b"))),
        ({"multiple": True}, None, ()),
        ({"nargs": -1}, None, ()),
        ({"nargs": -1}, ("a",), ("a",)),
        ({"callback": own}, "text", ("context", 1, "text")),
    ],
)
def test_what_was_parsed_is_the_value(attributes: dict[str, Any], value: object, meant: object) -> None:
    """Texts, flags and lists are handed on as they are; a list is empty where none is given; callbacks are called."""
    one = Parameter(**{"required": False, "multiple": False, "nargs": 1, "callback": None, **attributes})
    make_fast([one])
    assert one.process_value("context", value) == meant


def test_what_is_left_to_typer() -> None:
    """A missing value is for Typer to say; a parameter of another Typer is given no method."""
    one, foreign = Parameter(required=True, multiple=False), SimpleNamespace(required=False)
    make_fast([one, foreign])
    with pytest.raises(AssertionError, match="was asked"):
        one.process_value(None, "text")
    assert vars(foreign) == {"required": False}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["run", "zb-h1", "model.yaml"], ["run", "--algo", "zb-h1", "-c", "model.yaml"]),
        (["run", "model.yaml", "zb-h1"], ["run", "--algo", "zb-h1", "-c", "model.yaml"]),
        (["compare", "naive, 1f1b", "zb-h1", "model.yaml"], ["compare", "naive", "1f1b", "zb-h1", "-c", "model.yaml"]),
        (["solve", "model.yaml", "--quiet"], ["solve", "-c", "model.yaml", "--quiet"]),
    ],
)
def test_words_are_what_flags_are(cli: Cli, words: list[str], flags: list[str]) -> None:
    Path("model.yaml").write_text("devices: 2\nmicrobatches: 3\n")
    assert cli(*words).stdout == cli(*flags).stdout != ""


def test_only_what_pytorch_runs(cli: Cli) -> None:
    """--only leaves out what needs two copies of the weights, and says in every row what runs it."""
    listed = json.loads(cli("compare", "--all", "--json", "--only", "pytorch").stdout)["rows"]
    every = json.loads(cli("compare", "--all", "--json").stdout)["rows"]
    left = {row["algorithm"] for row in every} - {row["algorithm"] for row in listed}
    assert left == {"dualpipe", "chimera", "bitpipe"}
    assert {row["weights"] for row in every if row["algorithm"] in left} == {2}
    assert all(row["runs_in"] == ["pytorch"] and row["weights"] == 1 for row in listed)
    drawn = cli("compare", "dualpipe", "1f1b", "zb-h1", "--devices", "8", "--stages", "8", "--charts", "none").stdout
    assert "none, weights x2" in drawn
    assert "the best that PyTorch runs" in drawn


def test_rows_of_the_same_time_are_folded(cli: Cli) -> None:
    """--all counts what takes the same time and runs in the same trainers; --all-rows lists it."""
    folded = cli("compare", "--all", "--stages", "4", "--charts", "none").stdout
    assert re.search(r"^\S+ and \d+ more ", folded, re.MULTILINE)
    listed = cli("compare", "--all", "--stages", "4", "--charts", "none", "--all-rows").stdout
    assert " more " not in listed
    counts = sum(int(number) for number in re.findall(r" and (\d+) more", folded))
    rows = [line for line in folded.splitlines() if "%" in line]
    assert len(rows) + counts == len([line for line in listed.splitlines() if "%" in line])


def given_on_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path "-" reads a config from standard input, and options go on top."""
    given_on_stdin(monkeypatch, b"\xef\xbb\xbfdevices: 3\n")
    assert given_config(ProblemSource("-", {"stages": 6})).problem == make_problem(devices=3, stages=6)


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

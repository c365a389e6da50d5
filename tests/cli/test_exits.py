"""Exit codes: 0 done, 1 the answer is no, 2 bad input, 130 interrupted; one message on stderr, no traceback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pipesched.cli.exits import ExitStatus

Cli = Callable[..., subprocess.CompletedProcess[str]]

BAD = [  # the command line, what the message holds
    (["run", "--devices", "0"], ["--devices", "whole number of at least 1", "not 0"]),
    (["run", "--devices", "1e99999999999999999999"], ["--devices"]),
    (["run", "--forward", "1,2"], ["--forward", "needs 8 numbers", "has 2"]),
    (["run", "--forward", "-5"], ["--forward", "at least 0", "not -5"]),
    (["run", "--mem-budget", "0"], ["--mem-budget", "more than 0", "not 0"]),
    (["run", "--mem-budget=-1"], ["--mem-budget", "not -1"]),
    (["run", "--placement", "looop"], ["--placement", "did you mean 'loop'?"]),
    (["run", "-c", "missing.yaml"], ["missing.yaml", "No such file"]),
    (["run", "-c", "."], ["directory"]),
    (["run", "-c", "bad.yaml"], ["bad.yaml:2: ", "'microbatch'", "did you mean 'microbatches'?"]),
    (
        ["run", "--algo", "1f1c"],
        ["unknown algorithm '1f1c'", "did you mean '1f1b'?", "1f1b, 1f1b-v, seq-1f1b", "`pipesched list`"],
    ),
    (["run", "--algo", ""], ["unknown algorithm ''", "`pipesched list`"]),
    (["run", "--algo", "interleaved", "--stages", "5"], ["interleaved", "4 or 8", "are 5"]),
    (["run", "--algo", "1f1b", "--stages", "6"], ["1f1b", "4 or 8", "are 6"]),
    (["run", "--algo", "1f1b", "--placement", "loop"], ["1f1b", "linear", "placement: auto"]),
    (["run", "--algo", "1f1b", "--lifo"], ["1f1b", "lifo", "takes --recompute, --offload"]),
    (["run", "--algo", "interleaved", "--lifo"], ["interleaved", "lifo", "group"]),
    (["run", "--algo", "interleaved", "--group-size", "0"], ["--group-size", "whole number", "0"]),
    (["run", "--algo", "interleaved", "--group-size", "2.5"], ["--group-size", "whole number", "2.5"]),
    (["run", "--algo", "interleaved", "--group-size", "x"], ["--group-size", "number", "'x'"]),
    (["run", "--algo", "list", "--priority", "asp"], ["priority 'asp'", "did you mean 'asap'?", "alap"]),
    (["run", "--algo", "list", "--tie", "ffo"], ["tie 'ffo'", "did you mean 'fifo'?", "dfs"]),
    (["run", "--algo", "list", "--tie", "random", "--seed", "-1"], ["--seed", "whole number", "-1"]),
    (["run", "--width", "19"], ["--width", "whole number", "20", "19"]),
    (["run", "--width", "x"], ["--width", "number", "'x'"]),
    (["run", "--width", "80.5"], ["--width", "whole number", "80.5"]),
    (["run", "--width", "99999999999999"], ["--width", "99999999999999"]),
    (["run", "--zoom", "0.5"], ["--zoom", "at least 1", "0.5"]),
    (["run", "--zoom", "-1"], ["--zoom", "at least 1"]),
    (["run", "--zoom", "nan"], ["--zoom", "number", "'nan'"]),
    (["run", "--zoom", "1e400"], ["--zoom", "1e400"]),
    (["run", "--zoom", "1e99999999999999999999"], ["--zoom"]),
    (["run", "--from", "x"], ["--from", "number", "'x'"]),
    (["run", "--from", "330"], ["--from", "0 to 330"]),
    (["run", "--to", "0"], ["--to", "0 to 330"]),
    (["run", "--from", "5", "--to", "5"], ["--to", "later than --from (5)", "not 5"]),
    (["run", "--from", "9", "--to", "5"], ["--to", "later than --from (9)", "not 5"]),
    (["run", "--label", "name"], ["--label", "auto, microbatch, op, stage, none", "'name'"]),
    (["run", "-o", "out.txt"], ["--output", "'out.txt'", ".json"]),
    (["run", "-o", ""], ["--output", ".json"]),
    (["compare", "1f1c", "naive"], ["unknown algorithm '1f1c'", "did you mean '1f1b'?"]),
    (["compare", "1f1b", "naive", "--group-size", "4"], ["1f1b", "naive", "--group-size"]),
    (["compare", "--from", "330"], ["--from", "0 to 330"]),
    (["compare", "--sweep", "microbatch"], ["--sweep", "unknown field 'microbatch'"]),
    (["compare", "--sweep", "microbatches=0"], ["--microbatches", "at least 1"]),
    (["compare", "--sweep", "microbatches=4,x"], ["--sweep", "'x' is no number"]),
    (["show", "missing.json"], ["missing.json", "No such file"]),
    (["show", "."], ["directory"]),
    (["show", "-"], ["<stdin>", "no JSON document"]),
    (["check", "bad.yaml"], ["bad.yaml", "no JSON document"]),
    (["init", "missing/starter.yaml"], ["missing/starter.yaml", "No such file"]),
    (["init", "bad.yaml"], ["bad.yaml exists", "--force"]),
    (["init", "."], ["exists"]),
]


@pytest.mark.parametrize(("args", "fragments"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input(cli: Cli, tmp_path: Path, args: list[str], fragments: list[str]) -> None:
    """Bad input exits with 2 and one line on stderr that says what is wrong; stdout is empty and no file appears."""
    Path("bad.yaml").write_text("devices: 4\nmicrobatch: 3\n")
    result = cli(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: ")
    assert result.stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


RUNS = [args for args, _ in BAD if args[0] == "run" and "-o" not in args]


@pytest.mark.parametrize("args", RUNS, ids=" ".join)
def test_bad_input_writes_nothing(cli: Cli, tmp_path: Path, args: list[str]) -> None:
    """A run that ends with exit 2 has not written its output file either."""
    Path("bad.yaml").write_text("devices: 4\nmicrobatch: 3\n")
    assert cli(*args, "-o", "out.json").returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]


@pytest.mark.parametrize("name", ["n" * 300 + ".json", "n" * 250 + ".json"])
@pytest.mark.parametrize("command", [["run", "-o"], ["init"]], ids=" ".join)
def test_name_too_long(cli: Cli, command: list[str], name: str) -> None:
    """A file name that the system does not take is bad input (or just fits), never a traceback."""
    result = cli(*command, name)
    assert result.returncode == 2
    assert "name too long" in result.stderr


def test_infeasible_budget(cli: Cli) -> None:
    """A budget below the floor is an answer, and it is no: exit 1, with the device, its floor and what would fit."""
    result = cli("run", "--algo", "list", "--mem-budget", "0.1")
    assert (result.returncode, result.stdout) == (1, "")
    for fragment in ("device 0", "at least 1 microbatch", "budget is 0.1", "would fit"):
        assert fragment in result.stderr


def test_infeasible_budget_as_json(cli: Cli) -> None:
    """With --json the answer no is one document on stdout."""
    result = cli("run", "--algo", "list", "--mem-budget", "0.1,9,9,9", "--stages", "4", "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert list(document) == ["format", "version", "reason", "device", "floor", "budget", "would_fit"]
    assert (document["format"], document["version"]) == ("pipesched.infeasible", 1)
    assert (document["device"], document["floor"], document["budget"]) == (0, 1, 0.1)
    assert document["reason"] in result.stderr
    assert all(isinstance(entry, str) for entry in document["would_fit"])
    assert document["would_fit"]


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


def test_over_budget_is_drawn(cli: Cli) -> None:
    """A family that knows no budget runs over it all the same: exit 0, marked."""
    arguments = ("run", "--algo", "naive", "--mem-budget", "2")
    assert json.loads(cli(*arguments, "--json").stdout)["metrics"]["fits"] is False
    result = cli(*arguments)
    assert result.returncode == 0
    assert "over budget" in result.stdout
    assert json.loads(cli("run", "--algo", "naive", "--mem-budget", "8", "--json").stdout)["metrics"]["fits"] is True


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

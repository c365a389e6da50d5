"""Families of users on the command line: from files, by `module:function`, by the environment."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.documents.comparison import comparison_of
from pipesched.schedulers.own import PATHS
from tests.cli.conftest import Completed

pytestmark = pytest.mark.usefixtures("no_own_families")

FILE = '''import pipesched


@pipesched.family("slow-last", placement="linear")
def slow_last(problem):
    """All forwards, then all backwards."""
    every = range(problem.microbatches)
    return [[f"{d}{kind}{m}" for kind in "FB" for m in every] for d in range(problem.devices)]


def crash(problem):
    return problem.nothing
'''
Cli = Callable[..., Completed]


@pytest.fixture(autouse=True)
def _file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE, encoding="utf-8")


@pytest.mark.parametrize("words", [["slow-last", "--family", "mine.py"], ["--algo", "mine.py:slow_last"]])
def test_run(cli: Cli, words: list[str]) -> None:
    """A file named by an option, and a function of it: the document has the family's name and naive's makespan."""
    made, ours = (json.loads(cli("run", *one, "--json").stdout) for one in (words, ["naive"]))
    assert made["algorithm"] == "slow-last"
    assert made["metrics"]["makespan"] == ours["metrics"]["makespan"]


def test_a_module(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the current folder; what it has not is said."""
    (tmp_path / "plans_of_a_test.py").write_text(FILE, encoding="utf-8")
    monkeypatch.setattr("sys.path", [*sys.path])
    assert cli("run", "plans_of_a_test:slow_last").returncode == 0
    done = cli("run", "plans_of_a_test:fast_last")
    assert (done.returncode, done.stdout) == (2, "")
    assert "plans_of_a_test has no function 'fast_last'" in done.stderr
    assert "nothing_such: cannot be loaded: ModuleNotFoundError" in cli("run", "--algo", "nothing_such:f").stderr


@pytest.mark.parametrize(
    "command",
    [["compare", "1f1b", "slow-last", "--charts", "none"], ["robust", "slow-last", "--samples", "2"], ["list"],
     ["explain", "slow-last"], ["solve", "--hint", "slow-last", "--time-limit", "5"], ["list", "slow-last"],
     ["export", "slow-last", "--to", "pytorch-csv"], ["solve", "--hint", "mine.py:slow_last", "--time-limit", "5"],
     ["compare", "slow-last", "--sweep", "microbatches=4,8"]],
    ids=" ".join,
)  # fmt: skip
def test_commands_take_its_name(cli: Cli, command: list[str]) -> None:
    """Each command that takes a name takes that of a file in PIPESCHED_FAMILIES."""
    done = cli(*command, env={PATHS: "mine.py"})
    assert done.returncode == 0, done.stderr
    assert command[0] in ("export", "solve") or "slow-last" in done.stdout


def test_what_it_does_wrong(cli: Cli) -> None:
    """A function that fails is a message with its line and exit code 2, and in a comparison a row."""
    done = cli("run", "mine.py:crash")
    assert (done.returncode, done.stdout) == (2, "")
    said = "mine.py:12: crash: AttributeError: 'Problem' object has no attribute 'nothing'"
    assert done.stderr == f"pipesched: {said}\n"
    rows = json.loads(cli("compare", "1f1b", "mine.py:crash", "--json").stdout)["rows"]
    assert [(row["algorithm"], row.get("reason")) for row in rows] == [("1f1b", None), ("crash", said)]
    assert [row.get("failed") for row in rows] == [None, True]
    assert cli("robust", "1f1b", "mine.py:crash", "--samples", "2", "-o", "both.json").returncode == 1
    both: list[Any] = [pipesched.read("both.json"), comparison_of({"rows": rows})]
    assert [row.failed for result in both for row in result] == [False, True] * 2


@pytest.mark.parametrize(
    "command", [["run", "--json"], ["export", "--to", "json", "-o", "-"], ["compare", "1f1b", "--json"]]
)
def test_what_it_prints_stands_beside_documents(cli: Cli, tmp_path: Path, command: list[str]) -> None:
    """Prints of a file that is loaded, and of its function, go to standard error: the output is one document."""
    text = FILE.replace("    every", '    print("called")\n    every') + '\nprint("loaded")\n'
    (tmp_path / "says.py").write_text(text, encoding="utf-8")
    done = cli(*command, "slow-last", "--family", "says.py")
    assert done.returncode == 0
    assert json.loads(done.stdout)["format"].startswith("pipesched.")
    assert {"loaded", "called"} <= set(done.stderr.split())


NO = """import pipesched


def says_no(problem):
    raise pipesched.NotApplicable("the moon is full")


def deadlock(problem):
    return [["0F0", "0B0"], ["1B0", "1F0"]]
"""


@pytest.mark.parametrize(
    "command", [["compare"], ["compare", "--pareto"], ["robust", "--samples", "2"], ["compare", "--only", "pytorch"],
                ["compare", "--sweep", "forward=5,6"]], ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize(
    ("function", "said"), [("mine.py:crash", "mine.py:12: crash: AttributeError"), ("no.py:deadlock", "no.py:8: ")]
)
def test_failure_is_no_refusal(cli: Cli, command: list[str], function: str, said: str) -> None:
    """What crashes or waits for itself has failed, with file and line, and exit code 1; a refusal has code 0."""
    Path("no.py").write_text(NO, encoding="utf-8")
    name, more = command[0], [*command[1:], "--devices", "2", "--microbatches", "1"]
    done = cli(name, "1f1b", function, *more)
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert f"{function.partition(':')[2]} failed" in text
    assert said in text
    assert "does not apply" not in text
    if "--only" not in command:
        done = cli(name, "1f1b", "no.py:says_no", *more)
        assert (done.returncode, "failed" in done.stdout) == (0, False)
        assert "the moon is full" in done.stdout


@pytest.mark.parametrize(
    "command", ["run", "compare", "compare --pareto", "compare --sweep microbatches=4,8", "robust --samples 5",
                "explain", "compare --stages 5", "export --to chrome-trace", "list"]
)  # fmt: skip
def test_its_title(cli: Cli, command: str) -> None:
    """A family with a title is called so in whatever a person reads: charts, tables, plots, reasons, a trace."""
    Path("mine.py").write_text(FILE.replace('"slow-last",', '"slow-last", title="SLOW",'), encoding="utf-8")
    name, *more = command.split()
    done = cli(name, "slow-last", "--family", "mine.py", *more)
    assert "SLOW" in done.stdout
    assert "slow-last" not in done.stdout.replace("slow-last needs", "") or name in ("list", "export")


def test_list_says_where_it_is_from(cli: Cli) -> None:
    """Its row has its file and line, and its first sentence."""
    done = cli("list", "--family", "mine.py")
    assert re.search(r"^slow-last \(mine.py:4\) +linear +All forwards", done.stdout, re.MULTILINE)

    [row] = json.loads(cli("list", "slow-last", "--family", "mine.py", "--json").stdout)["rows"]
    assert (row["origin"], row["summary"], row["title"]) == ("mine.py:4", "All forwards, then all backwards.", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [(FILE.replace("slow-last", "1f1b"), "wrong.py:4: cannot be loaded: name: '1f1b' is taken"),
     ("import nothing_such\n", "wrong.py:1: cannot be loaded: ModuleNotFoundError"),
     ("x = 1\n", "wrong.py registers no family: write @pipesched.family above a function")],
)  # fmt: skip
def test_a_file_that_is_wrong(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    """What a file does wrong while it is loaded is one message with its name, and nothing runs."""
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    done = cli("run", "1f1b", "--family", "wrong.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "no such file" in cli("run", "1f1b", "--family", "absent.py").stderr


def test_documents_and_configs_load_nothing(cli: Cli, tmp_path: Path) -> None:
    """The name in a document is text; in a config `module:function` is an unknown name, which nothing imports."""
    (tmp_path / "evil.py").write_text("raise SystemExit('loaded')\n", encoding="utf-8")
    (tmp_path / "model.yaml").write_text("devices: 4\nalgorithm: evil:f\n", encoding="utf-8")
    assert "model.yaml:2: algorithm: unknown algorithm 'evil:f'" in cli("run", "-c", "model.yaml").stderr
    document = json.loads(cli("run", "1f1b", "--json").stdout)
    (tmp_path / "a.json").write_text(json.dumps({**document, "algorithm": "evil:f"}), encoding="utf-8")
    done = cli("show", "a.json")
    assert done.returncode == 0
    assert "evil:f" in done.stdout

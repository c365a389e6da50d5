"""Families of users on the command line: from files, by `module:function`, by the environment."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import pipesched
from pipesched.documents.comparison import comparison_of
from pipesched.schedulers.own import PATHS
from tests.cli.conftest import Cli

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
    [["robust", "slow-last", "--samples", "2"], ["list"], ["list", "slow-last"],
     ["solve", "--hint", "slow-last", "--time-limit", "5"], ["compare", "slow-last", "--sweep", "microbatches=4,8"]],
    ids=" ".join,
)  # fmt: skip
def test_commands_take_its_name(cli: Cli, command: list[str]) -> None:
    """Each command that takes a name takes that of a file in PIPESCHED_FAMILIES."""
    done = cli(*command, env={PATHS: "mine.py"})
    assert done.returncode == 0, done.stderr
    assert command[0] in ("export", "solve") or "slow-last" in done.stdout


def test_what_it_does_wrong(cli: Cli) -> None:
    """A function that fails is a row of a comparison, with its line."""
    said = "mine.py:12: crash: AttributeError: 'Problem' object has no attribute 'nothing'"
    rows = json.loads(cli("compare", "1f1b", "mine.py:crash", "--json").stdout)["rows"]
    assert [(row["algorithm"], row.get("reason")) for row in rows] == [("1f1b", None), ("crash", said)]
    assert [row.get("failed") for row in rows] == [None, True]
    assert cli("robust", "1f1b", "mine.py:crash", "--samples", "2", "-o", "both.json").returncode == 1
    both: list[Any] = [pipesched.read("both.json"), comparison_of({"rows": rows})]
    assert [row.failed for result in both for row in result] == [False, True] * 2


@pytest.mark.parametrize("command", [["run", "--json"], ["compare", "1f1b", "--json"]])
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
    "command", [["compare", "--pareto"], ["robust", "--samples", "2"], ["compare", "--only", "pytorch"],
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
    "command", ["compare --pareto", "robust --samples 5", "compare --stages 5", "export --to chrome-trace", "list"]
)
def test_its_title(cli: Cli, command: str) -> None:
    """A family with a title is called so in whatever a person reads: charts, tables, plots, reasons, a trace."""
    Path("mine.py").write_text(FILE.replace('"slow-last",', '"slow-last", title="SLOW",'), encoding="utf-8")
    name, *more = command.split()
    done = cli(name, "slow-last", "--family", "mine.py", *more)
    assert "SLOW" in done.stdout
    assert "slow-last" not in done.stdout.replace("slow-last needs", "") or name in ("list", "export")


AHEAD = """import pipesched


@pipesched.family("ahead", placement="linear")
def ahead(problem, *, depth=1, mode="warm", lead=None):
    if mode != "warm" or lead not in (None, 0.5, [1, 2], True):
        raise pipesched.NotApplicable(f"got {mode!r}, {lead!r}")
    orders = []
    for device in range(problem.devices):
        first = min(problem.devices - device - 1 + depth, problem.microbatches)
        order = [f"{device}F{m}" for m in range(first)]
        for m in range(problem.microbatches):
            order += [f"{device}F{m + first}"] * (m + first < problem.microbatches) + [f"{device}B{m}"]
        orders.append(order)
    return orders


def needy(problem, depth):
    return ahead(problem, depth=depth)
"""


@pytest.mark.parametrize(
    "command", ["compare 1f1b --sweep microbatches=4,8 --show memory", "list 1f1b", "robust 1f1b --samples 2"]
)
def test_its_options(cli: Cli, command: str) -> None:
    """An option of one's own counts in each command that makes its schedule; one that it has not is said by name."""
    Path("ahead.py").write_text(AHEAD, encoding="utf-8")
    name, *more = command.split()
    arguments = (name, "ahead", "--family", "ahead.py", *more)
    if name == "list":
        assert "No such option: --option" in cli(*arguments, "--option", "depth=3").stderr
        return
    found = []
    for depth in ("1", "3"):
        done = cli(*arguments, "--option", f"depth={depth}", "--devices=2")
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] != found[1]
    done = cli(*arguments, "--option", "dpth=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"^pipesched: --option dpth: .*did you mean `?depth`?\?", done.stderr)


def test_an_option_without_a_default(cli: Cli) -> None:
    """A sweep over one reads back."""
    Path("ahead.py").write_text(AHEAD, encoding="utf-8")
    assert cli("compare", "ahead", "--family", "ahead.py", "--sweep", "depth=0:2", "-o", "swept.json").returncode == 0
    assert [line.split()[0] for line in cli("show", "swept.json").stdout.splitlines()[-4:]] == ["depth", "0", "1", "2"]


def test_list_says_where_it_is_from(cli: Cli) -> None:
    """Its row has its file and line, and its first sentence."""
    done = cli("list", "--family", "mine.py")
    assert re.search(r"^slow-last \(mine.py:4\) +linear +All forwards", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "said"),
    [("\0", "wrong.py: cannot be loaded: "),  # a SyntaxError since 3.11.4
     ("def f():\n    f()\nf()\n", "wrong.py:2: cannot be loaded: RecursionError")],
)  # fmt: skip
def test_a_file_that_is_wrong(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    """What depends on the version of Python begins alike; tests/golden/said/own-families.txt has what else is wrong."""
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    done = cli("run", "1f1b", "--family", "mine.py", "--family", "wrong.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pipesched: {said}")
    assert done.stderr.count("\n") == 1


def test_what_is_no_file(cli: Cli, tmp_path: Path) -> None:
    """A file that is absent is no folder; a function goes by its attribute, an unknown one has the nearest name."""
    (tmp_path / "folder.py").mkdir()
    assert "folder.py: is a folder; name a file in it" in cli("run", "1f1b", "--family", "folder.py").stderr
    said = cli("list", env={PATHS: "absent.py"}).stderr
    assert said == "pipesched: PIPESCHED_FAMILIES: absent.py: there is no such file of Python\n"
    more = "from functools import partial\n\nslow = partial(slow_last)\nbad = lambda: 0\n"
    (tmp_path / "more.py").write_text(FILE.replace("slow-last", "more") + more, encoding="utf-8")
    assert json.loads(cli("run", "more.py:slow", "--stages=4", "--json").stdout)["algorithm"] == "slow"
    assert re.match(r"pipesched: more.py:\d+: bad: function: takes no problem; ", cli("run", "more.py:bad").stderr)


def test_a_file_imports_what_stands_beside_it(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script does: a helper of a file in another folder is found."""
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "rows_of_paper.py").write_text("KINDS = 'FB'\n", encoding="utf-8")
    text = FILE.replace("import pipesched\n", "import pipesched\nfrom rows_of_paper import KINDS\n", 1)
    (tmp_path / "paper" / "own.py").write_text(text.replace('in "FB"', "in KINDS"), encoding="utf-8")
    assert cli("run", "slow-last", "--family", "paper/own.py").returncode == 0


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

"""`pipesched list` and `pipesched init`: the algorithms, starters and the schema."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from pipesched import algorithms, json_schema, starter
from pipesched.cli.groups import ALGORITHM_FLAGS
from pipesched.cli.init import family_starter
from pipesched.comparing.compare import every_name
from pipesched.schedulers.options import COMMON, OPTIONS
from pipesched.schedulers.registry import FAMILIES, aliases, family
from pipesched.testing import check_family
from tests.cli.conftest import Cli
from tests.examples import at_night_but


def test_json_options_work(cli: Cli) -> None:
    """The options that the list names for a family are keys, and each is an option of the command line that the family
    takes, but for those that stand in a config."""
    values = {"lifo": [], "tie": ["fifo"], "priority": ["alap"], "objective": ["makespan"]}
    tried = set()
    for row in json.loads(cli("list", "--json").stdout)["rows"]:
        for key in (key for key in row["options"] if OPTIONS[key].flag is not None):
            assert cli("run", "-a", row["name"], ALGORITHM_FLAGS[key], *values.get(key, ["8"])).returncode == 0
            tried.add(key)
    assert tried == set(ALGORITHM_FLAGS) - set(COMMON)


@pytest.mark.parametrize("width", ["20", "60", "200"])
def test_every_name_is_shown(cli: Cli, width: str) -> None:
    """Every family has a line of its own, with its whole name at any width, and with its aliases at most."""
    result = cli("list", "--width", width)
    assert (result.returncode, result.stderr) == (0, "")
    begun = [
        line.split()[0] for line in result.stdout.splitlines() if line[:1].strip()
    ]  # not what a formula goes on in
    assert begun[1 : len(FAMILIES) + 1] == list(FAMILIES)
    assert max(map(len, result.stdout.splitlines())) <= int(width)
    if int(width) >= 60:
        assert all(f"({', '.join(aliases(name))})" in result.stdout for name in FAMILIES if aliases(name))


HINT = "pipesched list NAME.. tells all about some, -c CONFIG which of them apply"


def test_the_list_ends_with_what_else_there_is(cli: Cli) -> None:
    """The plain list says how to learn more, and a list that does say more does not."""
    assert cli("list").stdout.splitlines()[-1] == HINT
    for more in (["zb-v"], ["--stages", "4"], ["zb-v", "--stages", "4"], ["--json"]):
        assert HINT not in cli("list", *more).stdout


@pytest.mark.parametrize("width", [60, 120])
def test_formulas_wrap(cli: Cli, width: int) -> None:
    """Nothing is cut: every word of every formula is there, in lines no longer than asked."""
    printed = cli("list", "--width", str(width)).stdout
    assert all(len(line) <= width for line in printed.splitlines())
    assert "…" not in printed
    words = set(re.split(r"[\s;]+", printed))
    for one in algorithms() if width > 60 else ():
        assert set(re.split(r"[\s;]+", one.bubble.replace(" idle", ""))) <= words
        assert set(re.split(r"[\s;]+", one.memory)) <= words


def test_shares_and_times_have_columns_of_their_own(cli: Cli) -> None:
    """In a wide list a share of the makespan and an idle time do not stand one below the other."""
    lines = {line.split()[0]: line for line in cli("list", "--width", "200").stdout.splitlines() if line[:1].strip()}
    share, time = (lines["algorithm"].index(title) for title in ("bubble", "idle time"))
    assert lines["1f1b"][share:].startswith("(P-1)/(M+P-1) ")
    assert not lines["1f1b"][time : time + 10].strip()
    assert not lines["zb-h1"][share:time].strip()
    assert "peak memory in microbatches" in cli("list", "--width", "200").stdout
    assert lines["zb-h1"][time:].startswith("(P-1)(f+b-w) when w <= f, b ")


def test_all_about_some(cli: Cli) -> None:
    """Named algorithms, by aliases too, have a paragraph each, in their order, with flags for options; what all take
    is said once."""
    result = cli("list", "interleaved", "GPipe", "--width", "200")
    assert (result.returncode, result.stderr) == (0, "")
    about, _, common = result.stdout.rstrip().rpartition("\n\n")
    said = (
        "memory is in microbatches of a device; every family also takes --recompute, --offload, --order and --side-rule"
    )
    assert common == said
    first, second = about.split("naive (gpipe, afab, fill-drain)")
    assert first.splitlines()[0].strip() == "interleaved"
    for text, name in ((first, "interleaved"), (second, "naive")):
        rows = {line.split("  ")[0]: line.partition("  ")[2].strip() for line in text.splitlines()[1:]}
        one = family(name)
        told = {"needs": one.needs, "placement": one.placement, "bubble": one.bubble, "memory": one.memory}
        assert rows == {**told, "options": rows["options"], "also in": one.elsewhere, "source": one.paper}
        assert rows["options"] == ", ".join(ALGORITHM_FLAGS[option] for option in one.options)


@pytest.mark.parametrize("options", at_night_but([["--stages", "5"]], [["-c", "c.yaml"], ["--stages", "5"]]), ids=str)
def test_what_applies(cli: Cli, options: list[str]) -> None:
    """With a config, or an option of a problem, the list says which run it, and why others do not; and it is right."""
    Path("c.yaml").write_text("devices: 4\nstages: 5\n")
    rows = json.loads(cli("list", *options, "--json").stdout)["rows"]
    assert {row["applies"] for row in rows} == {True, False}
    listed = " ".join(cli("list", *options, "--width", "200").stdout.split())
    for row in rows:
        assert f"{row['placement']} {row['reason']}" in listed
        if row["name"] in every_name({}):
            result = cli("run", "-a", row["name"], *options, "--json")
            assert result.returncode == (0 if row["applies"] else 2)
            assert row["reason"] == ("yes" if row["applies"] else result.stderr.removeprefix("pipesched: ").rstrip())


@pytest.mark.parametrize("file", [[], ["-"]], ids=["", "-"])
def test_prints_without_a_file(cli: Cli, tmp_path: Path, file: list[str]) -> None:
    """Without a file, or with -, the starter goes to stdout and nowhere else."""
    result = cli("init", *file)
    assert (result.returncode, result.stdout, result.stderr) == (0, starter(), "")
    assert not list(tmp_path.iterdir())


def test_writes_a_file_that_runs(cli: Cli) -> None:
    """The file holds the starter, and the commands that its comment names run on it."""
    result = cli("init", "my.yaml")
    assert (result.returncode, result.stdout) == (0, "")
    assert Path("my.yaml").read_text() == starter()
    assert "THIS_FILE" in starter()
    commands = [line.strip("# ") for line in starter().splitlines() if "THIS_FILE" in line]
    for command in commands:
        name, *args = command.replace("THIS_FILE", "my.yaml").split()
        assert (name, cli(*args).returncode) == ("pipesched", 0)


def test_schema(cli: Cli) -> None:
    """--schema prints the JSON Schema as one document, or writes it to the file."""
    result = cli("init", "--schema")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json_schema()
    assert cli("init", "--schema", "schema.json").returncode == 0
    assert Path("schema.json").read_text() == result.stdout


@pytest.mark.usefixtures("no_own_families")
def test_a_family_to_begin_from(cli: Cli, tmp_path: Path) -> None:
    """`--family NAME` writes a file whose three commands work: it runs, is compared, and its test passes."""
    done = cli("init", "--family", "my-plan")
    assert (done.returncode, done.stdout) == (0, "")
    first, *commands = done.stderr.splitlines()
    assert first == "wrote my_plan.py; try it:"
    for command in commands:
        program, *words = command.split()
        if program == "pipesched":
            assert cli(*words).returncode == 0
        else:
            assert (program, words) == ("pytest", ["my_plan.py"])
            made = runpy.run_path(str(tmp_path / "my_plan.py"))
            made["test_my_plan"].__globals__["check_family"] = lambda function, n: check_family(function, n=n // 20)
            made["test_my_plan"]()
    assert "my_plan.py exists" in cli("init", "--family", "my-plan").stderr


@pytest.mark.parametrize("name", ["class", "4-steps", "a-b_c"])
def test_any_name_makes_a_function(name: str) -> None:
    """Names that are no names of functions have one all the same, and the file is Python."""
    text, file = family_starter(name)
    compile(text, file, "exec")

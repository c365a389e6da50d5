"""`pipesched compare`: several algorithms on one problem, or over a range of problems."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipesched import make_problem
from pipesched.comparing.compare import every_name

Cli = Callable[..., subprocess.CompletedProcess[str]]


def rows(cli: Cli, *args: str, name: str = "comparison") -> list[dict[str, Any]]:
    """The rows of the one document that `compare --json` prints."""
    result = cli("compare", *args, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert list(document) in (["format", "version", "rows"], ["format", "version", "rows", "time_unit"])
    assert (document["format"], document["version"]) == (f"pipesched.{name}", 1)
    found: list[dict[str, Any]] = document["rows"]
    return found


def test_rows_have_the_metrics_of_run(cli: Cli) -> None:
    """A row of the comparison holds the metrics that `run --json` gives, in the order asked for."""
    names = ["interleaved", "1f1b", "sequential"]
    found = rows(cli, *names, "--microbatches", "6")
    assert [row["algorithm"] for row in found] == names
    for row in found:
        assert list(row) == ["algorithm", "applicable", "runs_in", "weights", "metrics"]
        alone = json.loads(cli("run", "-a", row["algorithm"], "--microbatches", "6", "--json").stdout)
        assert (row["applicable"], row["metrics"]) == (True, alone["metrics"])


def test_nothing_applies(cli: Cli) -> None:
    """When nothing of what was named applies there are only reasons, and the answer is no: exit 1, in every form."""
    arguments = ("interleaved", "looped-bfs", "1f1b", "--stages", "5")
    for more in ((), ("--pareto",), ("--sweep", "microbatches=4,8")):
        drawn = cli("compare", *arguments, *more)
        assert (drawn.returncode, drawn.stderr) == (1, "")
        assert "multiple of 4 stages" in " ".join(drawn.stdout.split())
        as_json = cli("compare", *arguments, *more, "--json")
        assert (as_json.returncode, as_json.stderr) == (1, "")
        assert {row["applicable"] for row in json.loads(as_json.stdout)["rows"]} == {False}
    assert cli("compare", "1f1b", "interleaved", "--sweep", "stages=5,8").returncode == 0


def test_budget_that_only_some_obey(cli: Cli) -> None:
    """Below the floor list scheduling gives its reason; families that know no budget run and are marked."""
    naive, listed = rows(cli, "naive", "list", "--mem-budget", "0.5")
    assert naive["metrics"]["fits"] is False
    assert (listed["applicable"], "budget is 0.5" in listed["reason"]) == (False, True)


def test_option_goes_to_those_that_know_it(cli: Cli) -> None:
    """An algorithm's option is given to the algorithms that know it, and the others run without."""
    plain, grouped = (rows(cli, "1f1b", "interleaved", *size) for size in ((), ("--group-size", "8")))
    assert plain[0] == grouped[0]
    assert plain[1]["metrics"]["peak_memory"] != grouped[1]["metrics"]["peak_memory"]


def test_all_ranks_every_family(cli: Cli) -> None:
    """--all runs every family of the list: shortest first, those over budget behind, last those that do not apply."""
    rows = json.loads(cli("compare", "--all", "--mem-budget", "5", "--json").stdout)["rows"]
    listed = {row["name"] for row in json.loads(cli("list", "--json").stdout)["rows"]}
    left_out = {"block", "seq-1f1b"}  # the former needs a config that defines it, the latter slices
    assert {row["algorithm"] for row in rows} == listed - left_out
    assert len(rows) == len(listed) - 2
    applied = [row["metrics"] for row in rows if row["applicable"]]
    keys = [(not metrics["fits"], metrics["makespan"]) for metrics in applied]
    assert keys == sorted(keys)
    assert all("reason" in row for row in rows if not row["applicable"])
    assert cli("compare", "--all", "1f1b").returncode == 2


def test_a_window_may_lie_beyond_the_shorter_schedules(cli: Cli) -> None:
    """--from 300 shows the end of naive (330), although interleaved has ended at 285 by then."""
    result = cli("compare", "interleaved", "naive", "--from", "300")
    assert result.returncode == 0
    assert cli("compare", "interleaved", "naive", "--from", "330").returncode == 2


def test_pareto_alone_means_all(cli: Cli) -> None:
    """Without names it takes every family, as --all does; the letters of the table are the marks of the plot."""
    alone, named = cli("compare", "--pareto"), cli("compare", "--pareto", "--all")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout == named.stdout
    upper, table = alone.stdout.split("algorithm", 1)
    for name in every_name({}, make_problem(devices=1)):
        (mark,) = re.findall(rf"^(\w)  {name} ", table, re.MULTILINE)
        assert mark in upper
    assert "peak memory of the largest device (microbatch)" in upper


def test_pareto_writes_its_document(cli: Cli, tmp_path: Path) -> None:
    """-o keeps the document that --json prints."""
    result = cli("compare", "--pareto", "naive", "1f1b", "-o", "found.json", "--json")
    assert (tmp_path / "found.json").read_text() == result.stdout


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_pareto_as_a_figure(cli: Cli, suffix: str) -> None:
    """-o draws the points: names, axes, and what the budget leaves; the document is on stdout all the same."""
    names = ("naive", "1f1b", "zb-h1")
    result = cli("compare", "--pareto", *names, "--mem-budget", "6", "-o", f"p.{suffix}", "--json")
    assert json.loads(result.stdout)["format"] == "pipesched.pareto"
    content = Path(f"p.{suffix}").read_bytes()
    assert content.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix])
    if suffix == "svg":
        texts = set(re.findall(r">([^<]+)</text>", content.decode()))
        assert {*names, "makespan", "peak memory of a device (microbatch)", "budget"} <= texts


def test_pareto_figure_of_nothing_is_refused(cli: Cli) -> None:
    """Where nothing applies there is no figure; the reasons are printed before that is said."""
    nothing = cli("compare", "--pareto", "1f1b", "interleaved", "--stages", "5", "-o", "p.svg")
    assert nothing.returncode == 2
    assert "stages" in nothing.stdout
    assert "there is nothing to draw: none of the algorithms applies" in nothing.stderr
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("width", ["20", "33", "60", "79", "150"])
def test_pareto_never_wraps(cli: Cli, width: str) -> None:
    """No line is wider than asked."""
    lines = cli("compare", "--pareto", "--mem-budget", "5", "--width", width).stdout.splitlines()
    assert max(map(len, lines)) <= int(width)

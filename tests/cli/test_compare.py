"""`pipesched compare`: several algorithms on one problem, or over a range of problems."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

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


def test_default_names(cli: Cli) -> None:
    """Without names it compares naive, 1F1B and interleaved, and draws each."""
    assert [row["algorithm"] for row in rows(cli)] == ["naive", "1f1b", "interleaved"]
    result = cli("compare")
    assert (result.returncode, result.stderr) == (0, "")
    for fact in ("naive", "1f1b", "interleaved", "330", "285"):
        assert fact in result.stdout


def test_what_does_not_apply_says_why(cli: Cli) -> None:
    """An algorithm that does not apply is a row with its reason, and the others go on."""
    arguments = ("list", "interleaved", "--stages", "5")
    listed, refused = rows(cli, *arguments)
    assert listed["applicable"] is True
    assert refused == {"algorithm": "interleaved", "applicable": False, "reason": refused["reason"]}
    assert "multiple of 4 stages" in refused["reason"]
    drawn = cli("compare", *arguments)
    assert drawn.returncode == 0
    assert "interleaved does not apply" in drawn.stdout
    assert str(listed["metrics"]["makespan"]) in drawn.stdout


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


def test_notes_of_plans_are_those_of_run(cli: Cli) -> None:
    """What `run` notes of a plan `compare` says of its row; a plan without a note has none."""
    sizes = ["--devices", "4", "--stages", "8", "--microbatches", "9"]
    ran = [line for line in cli("run", "interleaved", *sizes).stdout.splitlines() if line.startswith("note: ")]
    told = [line for line in cli("compare", "interleaved", "1f1b", *sizes).stdout.splitlines() if "note: " in line]
    assert len(ran) == 1
    assert told == [ran[0].replace("note: ", "note: interleaved: ")]


def test_sweep(cli: Cli) -> None:
    """A sweep has a row for each value and algorithm, with the value under the name of the field."""
    found = rows(cli, "naive", "1f1b", "--sweep", "microbatches=4,8", name="sweep")
    assert [(row["microbatches"], row["algorithm"]) for row in found] == [
        (4, "naive"),
        (4, "1f1b"),
        (8, "naive"),
        (8, "1f1b"),
    ]
    assert [row["metrics"]["bubble"] for row in found] == [pytest.approx(3 / (m + 3)) for m in (4, 4, 8, 8)]
    assert all(isinstance(row["microbatches"], int) for row in found)


def test_sweep_of_costs(cli: Cli) -> None:
    """A sweep of a cost names its key, and a value is the number that was written."""
    found = rows(cli, "1f1b", "--sweep", "p2p=0,0.5", name="sweep")
    assert [row["costs.p2p"] for row in found] == [0, 0.5]
    assert found[0]["metrics"]["makespan"] < found[1]["metrics"]["makespan"]


def test_sweep_where_some_do_not_apply(cli: Cli) -> None:
    """Where an algorithm does not apply, its row of the sweep says why, and the table still stands."""
    arguments = ("1f1b", "list", "--sweep", "stages=4,5")
    found = json.loads(cli("compare", *arguments, "--json").stdout)["rows"]
    assert [(row["stages"], row["algorithm"], row["applicable"]) for row in found] == [
        (4, "1f1b", True),
        (4, "list", True),
        (5, "1f1b", False),
        (5, "list", True),
    ]
    assert "multiple of 4" in found[2]["reason"]
    drawn = cli("compare", *arguments)
    assert drawn.returncode == 0
    assert "n/a" in drawn.stdout


def test_sweep_prints_every_value(cli: Cli) -> None:
    """The table of a sweep says which bubble it prints, and has every value of the field."""
    result = cli("compare", "--sweep", "microbatches=4,8,16,1000")
    assert (result.returncode, result.stderr) == (0, "")
    for fact in ("idle device-time", "4", "8", "16", "1000", "42.86%", "27.27%"):
        assert fact in result.stdout


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


def test_pareto_rows(cli: Cli) -> None:
    """A row a schedule, ranked: the algorithm, its metrics, and whether another one dominates it."""
    found = rows(cli, "naive", "1f1b", "interleaved", "--pareto", name="pareto")
    assert all(list(row) == ["algorithm", "applicable", "runs_in", "weights", "metrics", "dominated"] for row in found)
    figures = [(row["algorithm"], row["metrics"]["makespan"], max(row["metrics"]["peak_memory"])) for row in found]
    assert figures == [("interleaved", 285, 5.5), ("1f1b", 330, 4), ("naive", 330, 8)]
    assert [row["dominated"] for row in found] == [False, False, True]


def test_pareto_rows_have_a_schema(cli: Cli) -> None:
    """The document keeps its contract, also for options and for what does not apply."""
    text = cli("compare", "--pareto", "--stages", "5", "--tie", "fifo", "--json").stdout
    known = {"algorithm": {"enum": every_name({}, make_problem(devices=1))}}
    metrics = {
        "type": "object",
        "required": ["makespan", "span", "bubble", "peak_memory", "fits", "lower_bound"],
        "properties": {"makespan": {"type": "number"}, "peak_memory": {"type": "array", "minItems": 4}},
    }
    applied = {
        "required": ["applicable", "metrics", "dominated"],
        "properties": {
            **known,
            "applicable": {"const": True},
            "runs_in": {"type": "array", "items": {"const": "pytorch"}},
            "weights": {"enum": [1, 2]},
            "metrics": metrics,
            "dominated": {"type": "boolean"},
            "tie": {"const": "fifo"},
        },
        "additionalProperties": False,
    }
    refused = {
        "required": ["applicable", "reason"],
        "properties": {**known, "applicable": {"const": False}, "reason": {"type": "string", "minLength": 10}},
        "additionalProperties": False,
    }
    document = {
        "required": ["format", "version", "rows"],
        "properties": {
            "format": {"const": "pipesched.pareto"},
            "version": {"const": 1},
            "time_unit": {"const": ""},
            "rows": {
                "minItems": len(every_name({}, make_problem(devices=1))),
                "items": {"required": ["algorithm"], "oneOf": [applied, refused]},
            },
        },
        "additionalProperties": False,
    }
    Draft202012Validator(document).validate(json.loads(text))
    assert [row["tie"] for row in json.loads(text)["rows"] if row["applicable"]] == ["fifo"]


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


def test_pareto_marks_the_budget(cli: Cli) -> None:
    """The budget is a line of the plot, and what exceeds it says so in the table."""
    result = cli("compare", "--pareto", "naive", "1f1b", "--mem-budget", "5", "--ascii")
    assert ": budget 5 microbatch" in result.stdout
    assert re.search(r"^A  1f1b .* 4  +frontier *$", result.stdout, re.MULTILINE)
    assert re.search(r"^b  naive .* 8 over  +dominated by A *$", result.stdout, re.MULTILINE)
    assert result.stdout.isascii()


def test_pareto_with_static_memory_draws_the_budget(cli: Cli) -> None:
    """The line is the budget as it was written; what is plotted holds its static memory."""
    arguments = ("compare", "--pareto", "--mem-budget", "13", "-c", "-", "1f1b", "dualpipe")
    drawn = cli(*arguments, stdin=STATIC).stdout
    assert "┊ budget 13 GB" in drawn
    assert "activations and static memory of the device that holds most" in " ".join(drawn.split())


def test_pareto_of_a_budget_a_device(cli: Cli) -> None:
    """Devices with different budgets have two lines: no peak below the least exceeds any, all above the most do."""
    result = cli("compare", "--pareto", "1f1b", "--mem-budget", "6,5,4,3")
    assert "┊ least budget 3 microbatch" in result.stdout
    assert "┊ most budget 6 microbatch" in result.stdout


STATIC = "{devices: 4, microbatches: 8, memory: {static: 4, unit: GB}}"


def test_pareto_writes_its_document(cli: Cli, tmp_path: Path) -> None:
    """-o keeps the document that --json prints."""
    result = cli("compare", "--pareto", "naive", "1f1b", "-o", "found.json", "--json")
    assert (tmp_path / "found.json").read_text() == result.stdout


def test_pareto_where_nothing_applies(cli: Cli) -> None:
    """Only reasons, and no plot."""
    result = cli("compare", "--pareto", "1f1b", "interleaved", "--stages", "5")
    assert (result.returncode, result.stdout.count("does not apply")) == (1, 2)
    assert "makespan" not in result.stdout


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

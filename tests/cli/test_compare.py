"""`pipesched compare`: rows, charts and sweeps of several algorithms on one problem."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipesched import compare, load, make_problem
from pipesched.cli.compare import read_sweep
from pipesched.comparing.compare import every_name
from pipesched.config.load import load_values
from pipesched.executors import opening
from pipesched.executors.local import LocalExecutor
from pipesched.pipeline.problem.declared import BY_NAME
from tests.cli.conftest import Cli


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


def test_pareto_as_a_figure(cli: Cli) -> None:
    """-o draws the points: names, axes, and what the budget leaves; the document is on stdout all the same."""
    names = ("naive", "1f1b", "zb-h1")
    result = cli("compare", "--pareto", *names, "--mem-budget", "6", "-o", "p.svg", "--json")
    assert json.loads(result.stdout)["format"] == "pipesched.pareto"
    texts = set(re.findall(r">([^<]+)</text>", Path("p.svg").read_text("utf-8")))
    assert {*names, "makespan", "peak memory of a device (microbatch)", "budget"} <= texts


def test_pareto_figure_of_nothing_is_refused(cli: Cli) -> None:
    """Where nothing applies there is no figure; the reasons are printed before that is said."""
    nothing = cli("compare", "--pareto", "1f1b", "interleaved", "--stages", "5", "-o", "p.svg")
    assert nothing.returncode == 2
    assert "stages" in nothing.stdout
    assert "there is nothing to draw: none of the algorithms applies" in nothing.stderr
    assert not list(Path.cwd().iterdir())


HEADING = re.compile(r"^(\S+)  (\d+) devices, .*$", re.MULTILINE)
FIVE = ("sequential", "naive", "1f1b", "interleaved", "zb-v")
BIG = ("--devices", "24", "--stages", "24", "--microbatches", "24")


def printed(cli: Cli, *args: str) -> str:
    result = cli("compare", *args, "--width", "120")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def drawn(text: str) -> list[str]:
    """The algorithms of the charts, from top to bottom."""
    return [match[1] for match in HEADING.finditer(text)]


def headings(text: str) -> dict[str, str]:
    """The whole heading of each chart, by its algorithm."""
    return {match[1]: match[0] for match in HEADING.finditer(text)}


def is_table_first(text: str) -> bool:
    """Whether the table stands above the first chart."""
    table, chart = re.search(r"^algorithm .*makespan", text, re.MULTILINE), HEADING.search(text)
    assert table is not None
    assert chart is not None
    return table.start() < chart.start()


def rows_drawn(text: str) -> list[int]:
    """The devices of all rows, from top to bottom."""
    return [int(number) for number in re.findall(r"^device (\d+) ", text, re.MULTILINE)]


def test_few_are_all_drawn_above_the_table(cli: Cli) -> None:
    """Four algorithms: a chart each, in the order asked for, and then the table."""
    text = printed(cli, *FIVE[:4])
    assert drawn(text) == list(FIVE[:4])
    assert not is_table_first(text)


def test_of_many_the_best_are_drawn_below_the_table(cli: Cli) -> None:
    """Five algorithms: the table of all, and then the charts of the best three, the best first."""
    text = printed(cli, *FIVE)
    assert drawn(text) == ["zb-v", "interleaved", "1f1b"]
    assert is_table_first(text)
    table = text[: text.index("zb-v  4 devices")]
    assert all(re.search(rf"^{name} ", table, re.MULTILINE) for name in FIVE)


def test_what_does_not_apply_does_not_count(cli: Cli) -> None:
    """Of five algorithms four apply: they are few."""
    text = printed(cli, "1f1b", "naive", "sequential", "list", "zb-v", "--stages", "4")
    assert drawn(text) == ["1f1b", "naive", "sequential", "list"]
    assert not is_table_first(text)


@pytest.mark.parametrize(
    ("charts", "names", "expected"),
    [
        ("all", FIVE, list(FIVE)),
        ("0", FIVE, []),
        ("4", FIVE, ["zb-v", "interleaved", "1f1b", "naive"]),
        ("100", FIVE, ["zb-v", "interleaved", "1f1b", "naive", "sequential"]),
        ("none", FIVE[:4], []),
    ],
)
def test_how_many_charts(cli: Cli, charts: str, names: Sequence[str], expected: list[str]) -> None:
    """--charts: all in the order asked for, none, or the best so many; the table is always there."""
    text = printed(cli, *names, "--charts", charts)
    assert drawn(text) == expected
    assert all(re.search(rf"^{name} .*\d%", text, re.MULTILINE) for name in names)


def test_a_chart_far_longer_than_the_best_is_cut(cli: Cli) -> None:
    """Charts end at twice the best makespan; who is longer says so, and all have one scale."""
    text = printed(cli, "naive", "sequential")
    assert headings(text)["sequential"].endswith("; cut at 660, ends at 960")
    assert "cut" not in headings(text)["naive"]
    axes = [line.rstrip() for line in text.splitlines() if line.endswith("idle")]
    assert len(axes) == 2
    assert axes[0] == axes[1]
    times = [int(number) for number in re.findall(r"\b\d+\b", axes[0])]
    assert 600 <= max(times) <= 660


def test_an_end_beyond_the_cut_is_obeyed(cli: Cli) -> None:
    """Charts up to a time that is asked for run to it, and who is longer says so."""
    text = printed(cli, "naive", "sequential", "--to", "900")
    assert headings(text)["sequential"].endswith("; cut at 900, ends at 960")
    axis = next(line for line in text.splitlines() if line.rstrip().endswith("idle"))
    assert 800 <= max(int(number) for number in re.findall(r"\b\d+\b", axis)) <= 900
    assert "cut" not in headings(printed(cli, "naive", "sequential", "--to", "960"))["sequential"]


def test_a_chart_twice_as_long_is_not_cut(cli: Cli) -> None:
    """Up to twice the best is drawn whole; fractions are told in the user's unit."""
    assert "cut" not in headings(printed(cli, "sequential"))["sequential"]
    both = headings(printed(cli, "1f1b", "sequential", "--devices", "2", "--microbatches", "2"))
    assert not any("cut" in heading for heading in both.values())
    text = printed(cli, "naive", "sequential", "--forward", "0.125", "--backward", "0.25")
    assert headings(text)["sequential"].endswith("; cut at 16.5, ends at 24")


def test_many_devices_are_drawn_in_part(cli: Cli) -> None:
    """Above 16 devices a chart has 8 rows, the first and the last among them, and says so."""
    text = printed(cli, "1f1b", *BIG)
    assert rows_drawn(text) == [0, 3, 6, 9, 13, 16, 19, 23]
    assert headings(text)["1f1b"].endswith("; 8 of 24 devices")
    sixteen = printed(cli, "1f1b", "--devices", "16", "--stages", "16")
    assert rows_drawn(sixteen) == list(range(16))
    assert "of 16 devices" not in sixteen


def test_rows_that_are_asked_for(cli: Cli) -> None:
    """--rows all draws every device, --rows 0,23 these, in their order and once; of few devices too."""
    every = printed(cli, "1f1b", *BIG, "--rows", "all")
    assert rows_drawn(every) == list(range(24))
    assert "of 24 devices" not in every
    some = printed(cli, "1f1b", *BIG, "--rows", "23,0,5,23")
    assert rows_drawn(some) == [0, 5, 23]
    assert headings(some)["1f1b"].endswith("; 3 of 24 devices")
    assert rows_drawn(printed(cli, "1f1b", "--rows", "2")) == [2]


def test_rows_of_run(cli: Cli) -> None:
    """`run` and `show` draw every device, however many, unless --rows names some."""
    cli("run", *BIG, "-o", "big.json")
    for command in (["run", *BIG], ["show", "big.json"]):
        assert rows_drawn(cli(*command).stdout) == list(range(24))
        assert rows_drawn(cli(*command, "--rows", "all").stdout) == list(range(24))
        assert rows_drawn(cli(*command, "--rows", "0,23").stdout) == [0, 23]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workers of each executor that is opened, where no amount of work is too small for one."""
    opened: list[int] = []
    make = LocalExecutor.__init__

    def noted(executor: LocalExecutor, workers: int) -> None:
        opened.append(workers)
        make(executor, workers)

    monkeypatch.setattr(opening, "FEWEST_OPERATIONS", 0)
    monkeypatch.setattr(LocalExecutor, "__init__", noted)
    return opened


def test_jobs_change_nothing(cli: Cli, pools: list[int]) -> None:
    """Two processes print what one prints, what does not apply and what is over its budget included."""
    arguments = ("compare", *FIVE, "chimera", "list", "--stages", "4", "--mem-budget", "3", "--json")
    alone = cli(*arguments, "--jobs", "1")
    assert pools == []
    together = cli(*arguments, "--jobs", "2")
    assert pools == [2]
    assert (together.returncode, together.stderr) == (0, "")
    assert together.stdout == alone.stdout


@pytest.mark.parametrize("command", [["run", "1f1b"], ["explain", "1f1b"]], ids=str)
def test_no_chart(cli: Cli, command: list[str]) -> None:
    """With --charts none a single schedule prints all but its chart, as a comparison does."""
    drawn, bare = (cli(*command, *["--charts", "none"] * bare, "--quiet").stdout for bare in (False, True))
    assert "device 0 F" in drawn
    assert "device 0 F" not in bare
    assert "330" in bare


@pytest.mark.parametrize(
    ("sweep", "name"),
    [
        ("microbatches=4,8", "microbatches"),
        ("--microbatches=4,8", "microbatches"),
        ("forward=4,8", "forward"),
        ("costs.forward=4,8", "forward"),
        ("p2p = 4 , 8", "p2p"),
        ("recompute=4,8", "recompute"),
        ("recompute-cost=4,8", "recompute"),
        ("recompute_cost=4,8", "recompute"),
        ("--recompute-cost=4,8", "recompute"),
        ("budget=4,8", "budget"),
        ("mem-budget=4,8", "budget"),
        ("memory.budget=4,8", "budget"),
    ],
)
def test_field_by_any_of_its_names(sweep: str, name: str) -> None:
    """A field is named by its key, the last part of it, or its flag; each value is that flag's override."""
    found = read_sweep(sweep, load_values(None, {}), ["1f1b"])
    assert found.field == BY_NAME[name].key
    assert [point.value for point in found] == [4, 8]
    for point in found:
        (entry,) = compare(load(None, **{name: point.value}), ["1f1b"])
        assert point.comparison["1f1b"].metrics == entry.metrics is not None

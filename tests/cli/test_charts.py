"""The charts of `pipesched compare`: which are drawn, in what order, how long, and of which devices."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence

import pytest

from pipesched.executors import opening
from pipesched.executors.local import LocalExecutor

Cli = Callable[..., subprocess.CompletedProcess[str]]
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


def rows(text: str) -> list[int]:
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


def test_all_is_many(cli: Cli) -> None:
    """--all ranks the table, and draws the first three of it."""
    text = printed(cli, "--all")
    assert is_table_first(text)
    best = [row["algorithm"] for row in json.loads(cli("compare", "--all", "--json").stdout)["rows"]]
    assert drawn(text) == best[:3]


def test_what_does_not_apply_does_not_count(cli: Cli) -> None:
    """Of five algorithms four apply: they are few."""
    text = printed(cli, "1f1b", "naive", "sequential", "list", "zb-v", "--stages", "4")
    assert drawn(text) == ["1f1b", "naive", "sequential", "list"]
    assert not is_table_first(text)


@pytest.mark.parametrize(
    ("charts", "names", "expected"),
    [
        ("all", FIVE, list(FIVE)),
        ("none", FIVE, []),
        ("0", FIVE, []),
        ("1", FIVE, ["zb-v"]),
        ("4", FIVE, ["zb-v", "interleaved", "1f1b", "naive"]),
        ("100", FIVE, ["zb-v", "interleaved", "1f1b", "naive", "sequential"]),
        ("2", FIVE[:4], ["interleaved", "1f1b"]),
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


def test_the_best_counts_for_the_cut_though_it_is_not_drawn(cli: Cli) -> None:
    """Of a comparison whose charts are few, the edge is twice the best of all that are compared."""
    text = printed(cli, "sequential", "zb-v", "--charts", "all")
    assert headings(text)["sequential"].endswith("; cut at 510, ends at 960")


def test_many_devices_are_drawn_in_part(cli: Cli) -> None:
    """Above 16 devices a chart has 8 rows, the first and the last among them, and says so."""
    text = printed(cli, "1f1b", *BIG)
    assert rows(text) == [0, 3, 6, 9, 13, 16, 19, 23]
    assert headings(text)["1f1b"].endswith("; 8 of 24 devices")
    sixteen = printed(cli, "1f1b", "--devices", "16", "--stages", "16")
    assert rows(sixteen) == list(range(16))
    assert "of 16 devices" not in sixteen


def test_rows_that_are_asked_for(cli: Cli) -> None:
    """--rows all draws every device, --rows 0,23 these, in their order and once; of few devices too."""
    every = printed(cli, "1f1b", *BIG, "--rows", "all")
    assert rows(every) == list(range(24))
    assert "of 24 devices" not in every
    some = printed(cli, "1f1b", *BIG, "--rows", "23,0,5,23")
    assert rows(some) == [0, 5, 23]
    assert headings(some)["1f1b"].endswith("; 3 of 24 devices")
    assert rows(printed(cli, "1f1b", "--rows", "2")) == [2]


def test_rows_of_run(cli: Cli) -> None:
    """`run` and `show` draw every device, however many, unless --rows names some."""
    cli("run", *BIG, "-o", "big.json")
    for command in (["run", *BIG], ["show", "big.json"]):
        assert rows(cli(*command).stdout) == list(range(24))
        assert rows(cli(*command, "--rows", "all").stdout) == list(range(24))
        assert rows(cli(*command, "--rows", "0,23").stdout) == [0, 23]


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


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_jobs_change_nothing(cli: Cli, pools: list[int], form: list[str]) -> None:
    """Two processes print what one prints, what does not apply and what is over its budget included."""
    arguments = ("compare", *FIVE, "chimera", "list", "--stages", "4", "--mem-budget", "3", *form)
    alone = cli(*arguments, "--jobs", "1")
    assert pools == []
    together = cli(*arguments, "--jobs", "2")
    assert pools == [2]
    assert (together.returncode, together.stderr) == (0, "")
    assert together.stdout == alone.stdout


def test_jobs_of_a_sweep(cli: Cli, pools: list[int]) -> None:
    """A sweep has one pool for all of its points, and the same table."""
    arguments = ("compare", "naive", "1f1b", "--sweep", "microbatches=4,8")
    alone, together = (cli(*arguments, "--jobs", jobs) for jobs in ("1", "2"))
    assert pools == [2]
    assert together.stdout == alone.stdout != ""


@pytest.mark.parametrize("command", ["compare", "robust", "solve"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--executor", "locale:2"],
            "--executor: unknown executor 'locale:2'; did you mean local:2? allowed are local,",
        ),
        (["--executor", "local:2", "--jobs", "3"], "--jobs: is 3, and --executor is local:2; give one of them"),
        (["--executor", "dask://h:1", "--jobs", "3"], "--jobs: is the number of processes of this machine, and --exec"),
        (["--executor", "dask://127.0.0.1:1"], "--executor: no Dask scheduler answers at dask://127.0.0.1:1 within"),
    ],
    ids=["unknown", "number", "dask", "unreachable"],
)
def test_bad_executors(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str, given: list[str], message: str) -> None:
    """One clear message, and nothing on stdout."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("pipesched.executors.dask_cluster.SECONDS", 0.3)
    result = cli(command, "--devices", "4", *given)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pipesched: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_executors_change_nothing(cli: Cli, pools: list[int]) -> None:
    """The other commands that take one print the same with two processes."""
    size = ("--devices", "4", "--stages", "4", "--microbatches", "4")
    robust = ("robust", "1f1b", "zb-h1", *size, "--samples", "3000")
    frontier = ("solve", "--frontier", "--quiet", *size, "--split-backward", "--workers", "1")
    for arguments in (robust, frontier):
        alone, together = (cli(*arguments, "--executor", spec) for spec in ("local:1", "local:2"))
        assert (together.returncode, together.stderr) == (0, "")
        assert together.stdout == alone.stdout != ""
    assert pools == [2, 2, 2]


@pytest.mark.parametrize("command", [["run", "1f1b"], ["explain", "1f1b"], ["solve", "--time-limit", "5"]], ids=str)
def test_no_chart(cli: Cli, command: list[str]) -> None:
    """With --charts none a single schedule prints all but its chart, as a comparison does."""
    drawn, bare = (cli(*command, *["--charts", "none"] * bare, "--quiet").stdout for bare in (False, True))
    assert "device 0 F" in drawn
    assert "device 0 F" not in bare
    assert "330" in bare or "285" in bare or "255" in bare

"""`pipesched show`: a schedule from a file looks as it did when it was made."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]

RUNS = [
    ["-a", "1f1b", "--stages", "4"],
    ["-a", "naive", "--stages", "4", "--lifo", "--mem-budget", "3"],
    ["-a", "interleaved", "--p2p", "0.25", "--forward", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"],
    ["-a", "looped-bfs", "--devices", "3", "--mem-budget", "1,2,3"],
    ["-a", "list", "--backward-input", "1", "--backward-weight", "0.7", "--retain", "0.3", "--mem-budget", "2"],
    ["-a", "list", "--placement", "v", "--overlap", "12"],
    ["-a", "list", "--placement", "bidirectional", "--stages", "4"],
    ["-a", "sequential", "--devices", "1", "--stages", "1", "--microbatches", "1"],
    ["-a", "1f1b", "--stages", "4", "--forward", "0", "--backward", "0"],
]
VIEWS = [[], ["--ascii", "--width", "60"], ["--zoom", "3", "--memory", "--label", "op"], ["--width", "33"]]


@pytest.mark.parametrize("options", RUNS, ids=" ".join)
def test_same_chart_as_run(cli: Cli, options: list[str]) -> None:
    """`show` of a written schedule prints what `run` printed, in every view."""
    assert cli("run", *options, "-o", "out.json").returncode == 0
    for view in VIEWS:
        drawn, shown = cli("run", *options, *view), cli("show", "out.json", *view)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == drawn.stdout


FUSED = [["-a", "1f1b", "--forward", "1,2,3,4,5,6,7,8"], ["-a", "naive"]]


@pytest.mark.parametrize("options", [*RUNS, *FUSED], ids=" ".join)
def test_same_document_as_run(cli: Cli, options: list[str]) -> None:
    """`show --json` of a written schedule is the same document again, also of a fused one, and from a pipe."""
    printed = cli("run", *options, "--json").stdout
    Path("out.json").write_text(printed)
    assert cli("show", "out.json", "--json").stdout == printed
    assert cli("show", "-", "--json", stdin=printed).stdout == printed
    assert cli("show", "-", "--json", stdin="\ufeff" + printed).stdout == printed


FINE = """\
devices: 3
stages: 6
microbatches: 13
costs: {forward: 0.1, backward: [0, 0.5, 2.7, 0, 3, 0.3], p2p: [0.00000001, 10, 10, 2.7, 10]}
memory: {budget: 2.7}
"""


@pytest.mark.parametrize("algorithm", ["sequential", "1f1b"])
def test_same_document_where_fusing_drops_the_finest_time(cli: Cli, algorithm: str) -> None:
    """Fusing drops a latency finer than every other time; the document is the same after reading it all the same."""
    printed = cli("run", "-a", algorithm, "-c", "-", "--json", stdin=FINE).stdout
    assert cli("show", "-", "--json", stdin=printed).stdout == printed


def test_foreign_delays_are_shown(cli: Cli) -> None:
    """A schedule that starts an operation later than it must is legal, and its times are shown as they are."""
    printed = cli("run", "--devices", "1", "--stages", "1", "--microbatches", "1", "--json").stdout
    delayed = printed.replace('"start": 5, "end": 15', '"start": 7, "end": 17')
    assert delayed != printed
    shown = cli("show", "-", "--json", stdin=delayed)
    assert shown.returncode == 0
    assert '"start": 7, "end": 17' in shown.stdout
    assert '"makespan": 17' in shown.stdout


TINY = ("--stages", "4", "--forward", "1", "--backward", "2", "--placement", "linear")
ROWS = {  # the document of rows -> the command that writes it
    "comparison": ["compare", "1f1b", "naive", "zb-v", "--stages", "4", "--charts", "none"],
    "sweep": ["compare", "1f1b", "interleaved", "--sweep", "stages=4,5,8"],
    "frontier": ["solve", *TINY, "--frontier", "--quiet"],
}
LOOKS = [[], ["--ascii"], ["--width", "50"], ["--no-color", "--width", "120"]]


@pytest.mark.parametrize("noun", ROWS)
def test_rows_are_shown_as_they_were_printed(cli: Cli, noun: str) -> None:
    """`show` of a written comparison, sweep or frontier prints its table, or plot, again, at any width and in ASCII."""
    for number, look in enumerate(LOOKS):
        printed = cli(*ROWS[noun], *look, "-o", f"{number}.json")
        shown = cli("show", f"{number}.json", *look)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout == without_idle_line(printed.stdout)
        assert shown.stdout.isascii() or "--ascii" not in look


def without_idle_line(printed: str) -> str:
    """What a comparison prints but for where idle time goes, which follows from times that no row has."""
    lines = printed.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if "idle time is" in line), len(lines))
    return "".join(lines[:first])


@pytest.mark.parametrize("noun", ROWS)
def test_the_same_document_of_rows(cli: Cli, noun: str) -> None:
    """`show --json` of a document of rows is the document again, also from a pipe."""
    document = cli(*ROWS[noun], "--json").stdout
    Path("rows.json").write_text(document)
    assert cli("show", "rows.json", "--json").stdout == document
    assert cli("show", "-", "--json", stdin=document).stdout == document


def test_a_pareto_document_is_shown_as_its_comparison(cli: Cli) -> None:
    """The rows of a Pareto document are those of a comparison, the best first."""
    document = cli("compare", "naive", "1f1b", "interleaved", "--pareto", "--json").stdout
    ranked = cli("compare", "interleaved", "1f1b", "naive", "--charts", "none")
    shown = cli("show", "-", stdin=document)
    assert (shown.returncode, shown.stdout) == (0, without_idle_line(ranked.stdout))

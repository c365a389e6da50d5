"""`pipesched run`: one schedule, drawn or as JSON."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipesched

Cli = Callable[..., subprocess.CompletedProcess[str]]


def document(cli: Cli, *args: str, stdin: str = "") -> dict[str, Any]:
    """The one document that `run --json` prints."""
    result = cli("run", *args, "--json", stdin=stdin)
    assert (result.returncode, result.stderr) == (0, "")
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.mark.parametrize(
    ("algorithm", "makespan"), [("naive", 330), ("1f1b", 330), ("interleaved", 285), ("sequential", 960)]
)
def test_known_makespans(cli: Cli, algorithm: str, makespan: int) -> None:
    """The built-in default without any config: the makespans of the literature, drawn and in JSON."""
    assert document(cli, "--algo", algorithm)["metrics"]["makespan"] == makespan
    result = cli("run", "--algo", algorithm)
    assert (result.returncode, result.stderr) == (0, "")
    assert str(makespan) in result.stdout


def test_default_algorithm_is_1f1b(cli: Cli) -> None:
    """Without --algo it is 1F1B."""
    assert document(cli) == document(cli, "--algo", "1f1b")


@pytest.mark.parametrize(("name", "family"), [("GPipe", "naive"), ("afab", "naive"), ("breadth-first", "looped-bfs")])
def test_aliases(cli: Cli, name: str, family: str) -> None:
    """An alias, in any case, is the family it stands for."""
    assert document(cli, "-a", name) == document(cli, "-a", family)


def test_config_and_options(cli: Cli) -> None:
    """A config comes from a file or from standard input, and options go on top of both."""
    text = "name: mine\ndevices: 2\nmicrobatches: 3\ncosts: {forward: 1.5, p2p: 0.25}\n"
    Path("mine.yaml").write_text(text)
    content = document(cli, "-c", "mine.yaml", "--microbatches", "5")
    assert content == document(cli, "--config", "-", "--microbatches", "5", stdin=text)
    problem = content["problem"]
    assert (problem["name"], problem["devices"], problem["microbatches"]) == ("mine", 2, 5)
    assert (problem["costs"]["forward"], problem["costs"]["backward"], problem["costs"]["p2p"]) == (1.5, 3, 0.25)


def test_same_as_the_library(cli: Cli) -> None:
    """The command line gives the figures of the Python API."""
    problem = pipesched.make_problem(devices=3, stages=6, microbatches=5, forward=2, p2p=1)
    schedule = pipesched.run(problem, "interleaved").schedule
    options = (
        "--devices",
        "3",
        "--stages",
        "6",
        "--microbatches",
        "5",
        "--forward",
        "2",
        "--backward",
        "4",
        "--p2p",
        "1",
    )
    metrics = document(cli, "-a", "interleaved", *options)["metrics"]
    assert (metrics["makespan"], metrics["span"], metrics["bubble"]) == (
        schedule.makespan,
        schedule.span,
        schedule.bubble,
    )


def test_lifo_changes_the_order(cli: Cli) -> None:
    """--lifo turns the backwards of the naive schedule around."""
    fifo, lifo = (document(cli, "-a", "naive", *order)["devices"][0] for order in ((), ("--lifo",)))
    assert [slot["op"] for slot in fifo[8:]] == [slot["op"] for slot in reversed(lifo[8:])]
    assert fifo[:8] == lifo[:8]


def test_seed_gives_the_same_schedule_again(cli: Cli) -> None:
    """A random tie is the same for the same seed, and another for another."""
    options = ("-a", "list", "--tie", "random", "--seed")
    first, again, other = (document(cli, *options, seed)["devices"] for seed in ("1", "1", "2"))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("microbatches", "size"), [("8", "3"), ("9", "2"), ("6", "1"), ("13", "2"), ("5", "3")])
def test_group_size_that_deadlocks(cli: Cli, microbatches: str, size: str) -> None:
    """A group size that deadlocks is bad input, and the message names sizes that do run."""
    options = ("run", "-a", "interleaved", "--microbatches", microbatches, "--group-size")
    result = cli(*options, size)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"group size {size} deadlocks on 4 devices with {microbatches} microbatches" in result.stderr
    sizes = result.stderr.rpartition("group sizes that run: ")[2].strip().split(", ")
    assert sizes != [""]
    for other in sizes:
        assert cli(*options, other, "--json").returncode == 0


@pytest.mark.parametrize(
    ("devices", "stages", "microbatches", "size"), [("3", "9", "2", "1"), ("8", "16", "6", "4"), ("5", "10", "4", "1")]
)
def test_group_size_with_few_microbatches(cli: Cli, devices: str, stages: str, microbatches: str, size: str) -> None:
    """With fewer microbatches than devices a size that deadlocks is refused too, with one that runs."""
    options = ("run", "-a", "interleaved", "--devices", devices, "--stages", stages, "--microbatches", microbatches)
    result = cli(*options, "--group-size", size)
    assert (result.returncode, result.stdout) == (2, "")
    assert "deadlocks" in result.stderr
    for other in result.stderr.rpartition("group sizes that run: ")[2].strip().split(", "):
        assert cli(*options, "--group-size", other, "--json").returncode == 0


def test_note_of_the_algorithm_is_shown(cli: Cli) -> None:
    """What the algorithm decided by itself is told: the group size where P does not divide M."""
    result = cli("run", "-a", "interleaved", "--stages", "12", "--microbatches", "9")
    assert result.returncode == 0
    assert "note: groups of 5: the shortest of 6 sizes that run" in result.stdout


@pytest.mark.parametrize(
    "view",
    [
        ["--width", "20"],
        ["--width", "40", "--label", "op"],
        ["--width", "300", "--label", "stage"],
        ["--label", "none", "--memory"],
        ["--label", "microbatch", "--no-memory", "--mem-budget", "3"],
        ["--zoom", "1"],
        ["--zoom", "1000000"],
        ["--from", "-5", "--to", "1e6"],
        ["--from", "0.001", "--to", "0.002", "--forward", "0.001"],
        ["--from", "100", "--zoom", "2.5"],
        ["--ascii", "--memory"],
        ["--forward", "0", "--backward", "0"],
        ["--devices", "1", "--microbatches", "1"],
        ["--forward", "999999999", "--backward", "1"],
        ["--devices", "40", "--microbatches", "1"],
    ],
    ids=" ".join,
)
def test_view(cli: Cli, view: list[str]) -> None:
    """Every way of looking at a schedule draws something, within the width that was asked for."""
    result = cli("run", *view)
    assert (result.returncode, result.stderr) == (0, "")
    width = int(view[1]) if view[0] == "--width" else 100
    assert result.stdout.strip()
    assert max(map(len, result.stdout.splitlines())) <= width


@pytest.mark.parametrize("command", [["run"], ["run", "--mem-budget", "3"], ["compare"], ["list"]], ids=" ".join)
def test_ascii(cli: Cli, command: list[str]) -> None:
    """--ascii prints ASCII only."""
    result = cli(*command, "--ascii")
    assert result.returncode == 0
    assert result.stdout.isascii()


@pytest.mark.parametrize("markup", ["[/]", "[bold]", "[red]x", "[/x]", "\\[", ":smile:", "[link=x]"])
@pytest.mark.parametrize("key", ["name", "time_unit", "memory: {unit"])
def test_labels_are_no_markup(cli: Cli, key: str, markup: str) -> None:
    """A label that looks like Rich's markup is printed as it is."""
    config = f"devices: 2\n{key}: '{markup}'{'}' if '{' in key else ''}\nmemory: {{budget: 9}}"
    if "{" in key:
        config = f"devices: 2\n{key}: '{markup}', budget: 9}}"
    result = cli("run", "-c", "-", stdin=config)
    assert (result.returncode, result.stderr) == (0, "")
    assert markup in result.stdout


def test_labels_in_any_script(cli: Cli) -> None:
    """A label may be written in any script."""
    result = cli("run", "-c", "-", stdin="devices: 2\nname: 模型 é\ntime_unit: µs\n")
    assert result.returncode == 0
    assert "模型 é" in result.stdout
    assert "µs" in result.stdout


def peak_line(cli: Cli, *args: str) -> str:
    """What the summary says of the peak memory, on one line."""
    text = cli("run", *args, "--width", "120").stdout
    return " ".join(text[text.index("peak memory") :].split())


def test_peaks_of_many_devices_are_cut_to_the_extremes(cli: Cli) -> None:
    """Up to 7 devices each peak is told, from 8 on the largest and the smallest, and with --memory again all."""
    peaks = "8, 7, 6, 5, 4, 3, 2, 1"
    eight = ("--devices", "8", "--stages", "8")
    assert "activations of devices 0..6: 7, 6, 5, 4, 3, 2, 1" in peak_line(cli, "--devices", "7", "--stages", "7")
    assert "activations: largest 8 on device 0, smallest 1 on device 7" in peak_line(cli, *eight)
    assert peaks not in peak_line(cli, *eight)
    assert f"activations of devices 0..7: {peaks}" in peak_line(cli, *eight, "--memory")


def test_a_chart_that_hides_slots_says_how_to_see_them(cli: Cli) -> None:
    """Where slots are too short for a letter, the legend says what helps, and not by a flag."""
    text = cli("run", "--stages", "4", "--forward", "0.1,10,10,10", "--backward", "20", "--width", "70").stdout
    assert re.search(r"\([0-9]+ slots too short to show; zoom in\)", text)
    assert "--zoom" not in text

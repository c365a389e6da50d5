"""Figures that commands write, and the options that are about them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
SWEEP = ("compare", "1f1b", "zb-h1", "--sweep", "microbatches=4,8,16")
DRAWS = {
    "run": ("run", "1f1b"),
    "compare": ("compare", "1f1b", "naive"),
    "pareto": ("compare", "--pareto", "1f1b", "naive"),
    "sweep": SWEEP,
    "solve": ("solve", "--quiet", "--time-limit", "5", "--devices", "2", "--microbatches", "2"),
    "show": ("show", "given.json"),
}


@pytest.mark.parametrize("command", DRAWS.values(), ids=DRAWS)
def test_inches(cli: Cli, command: tuple[str, ...]) -> None:
    """--inches is the width of what -o draws."""
    cli("run", "-o", "given.json")
    result = cli(*command, "-o", "picture.svg", "--inches", "5")
    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r'width="360pt"', Path("picture.svg").read_text("utf-8"))


PAPER = ["--title", "My step", "--font-size", "8", "--legend", "right"]
OF_CHARTS = ["--first-microbatch", "1", "--device-name", "rank"]


@pytest.mark.parametrize("command", [*DRAWS.values(), ("export", "1f1b")], ids=[*DRAWS, "export"])
def test_options_of_papers(cli: Cli, command: tuple[str, ...]) -> None:
    """A title, the size of text and the place of the legend are for every figure, names and numbers for charts."""
    cli("run", "-o", "given.json")
    of_charts = [] if {"--sweep", "--pareto"} & {*command} else OF_CHARTS
    result = cli(*command, "-o", "picture.svg", *PAPER, *of_charts)
    assert (result.returncode, result.stderr) == (0, "")
    svg = Path("picture.svg").read_text("utf-8")
    assert "My step" in svg
    assert "font-size: 8px" in svg
    assert ("rank 1" in svg) is bool(of_charts)


def test_sweeps_are_drawn(cli: Cli) -> None:
    """-o of a sweep draws the measure that --show names, and so does `show` of its document."""
    assert cli(*SWEEP, "--show", "makespan", "-o", "a.svg").returncode == 0
    texts = re.findall(r">([^<]+)</text>", Path("a.svg").read_text("utf-8"))
    assert {"1f1b", "zb-h1", "makespan", "microbatches", "4", "8", "16"} <= set(texts)
    printed = cli(*SWEEP, "-o", "sweep.json").stdout
    assert "a 1f1b  b zb-h1" in printed
    assert cli("show", "sweep.json", "-o", "b.svg").stdout == printed
    assert "bubble (%)" in Path("b.svg").read_text("utf-8")


def test_show_writes_schedules(cli: Cli) -> None:
    """`show -o` writes what it draws, whatever the format, and never over a file unasked."""
    cli("run", "1f1b", "-o", "given.json")
    assert cli("show", "given.json", "-o", "again.json").returncode == 0
    assert Path("again.json").read_bytes() == Path("given.json").read_bytes()
    result = cli("show", "given.json", "-o", "again.json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "exists" in result.stderr


def test_fold(cli: Cli) -> None:
    """`run` folds a long schedule by itself, `compare` where it is told to, each by itself, and cuts none then."""
    real = ("--devices", "8", "--stages", "8", "--microbatches", "48", "--width", "80")
    assert "≈ 39 periods of 15 left out: 125..710" in cli("run", "1f1b", *real).stdout
    assert "left out" not in cli("run", "1f1b", *real, "--no-fold").stdout
    whole, folded = (cli("compare", "1f1b", "sequential", *real, *fold).stdout for fold in ((), ("--fold",)))
    assert "cut at 1650" in whole
    assert "left out" not in whole
    assert "cut at" not in folded
    assert re.findall(r"(\d+) periods of (\d+) left out", folded) == [("39", "15"), ("46", "120")]

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


@pytest.mark.parametrize("command", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("target", [[], ["-o", "result.json"]], ids=["none", "json"])
def test_inches_without_a_figure(cli: Cli, command: tuple[str, ...], target: list[str]) -> None:
    """Without a figure the option has no effect, which is said before anything runs or is written."""
    result = cli(*command, "--inches", "5", *target)
    assert (result.returncode, result.stdout) == (2, "")
    said = "--inches: has no effect without a figure: -o with a file in .svg, .png or .pdf"
    assert result.stderr == f"pipesched: {said}\n"
    assert not Path("result.json").exists()


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


@pytest.mark.parametrize("command", ["sweep", "pareto"])
@pytest.mark.parametrize("option", [OF_CHARTS[:2], OF_CHARTS[2:]], ids=" ".join)
def test_names_without_a_chart(cli: Cli, command: str, option: list[str]) -> None:
    """What names microbatches and devices has no effect on a figure without a chart, which is said."""
    result = cli(*DRAWS[command], "-o", "picture.svg", *option)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pipesched: {option[0]}: has no effect with --{command}")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--font-size", "4"], "at least 5"),
        (["--legend", "left"], "below, right, none"),
        (["--first-microbatch", "2"], "at most 1"),
        (["--device-name", "x" * 21], "at most 20 letters"),
        (["--title", "x" * 201], "at most 200 letters"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_options_of_papers(cli: Cli, option: list[str], said: str) -> None:
    """A bad value is refused with what is allowed, and without a figure each has no effect, which is said."""
    result = cli("run", "-o", "a.svg", *option)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pipesched: {option[0]}: ")
    assert said in result.stderr
    assert not Path("a.svg").exists()


@pytest.mark.parametrize("option", [PAPER[:2], PAPER[2:4], PAPER[4:], OF_CHARTS[:2], OF_CHARTS[2:]], ids=" ".join)
def test_options_of_papers_without_a_figure(cli: Cli, option: list[str]) -> None:
    """Without a figure they have no effect, which is said."""
    result = cli("run", *option)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"pipesched: {option[0]}: has no effect without a figure: -o with a file in ")


@pytest.mark.parametrize(
    ("inches", "said"), [("1", "at least 2"), ("41", "(at most 40)"), ("wide", "must be a number, not 'wide'")]
)
def test_bad_inches(cli: Cli, inches: str, said: str) -> None:
    """A width that is none is refused, with what is allowed."""
    result = cli("run", "-o", "a.svg", "--inches", inches)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("pipesched: --inches: ")
    assert said in result.stderr
    assert not Path("a.svg").exists()


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


@pytest.mark.parametrize("option", [["--zoom", "2"], ["--from", "5"], ["--to", "90"]], ids=" ".join)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_fold_of_a_part(cli: Cli, command: str, option: list[str]) -> None:
    """Two options that contradict each other are one message, which names both."""
    result = cli(command, "1f1b", "--fold", *option)
    assert (result.returncode, result.stdout) == (2, "")
    said = f"--fold: cannot fold a part of the timeline; give either it or {option[0]}"
    assert result.stderr == f"pipesched: {said}\n"
    assert cli(command, "1f1b", "--no-fold", *option).returncode == 0


@pytest.mark.parametrize("output", [[], ["-o", "a.svg"]], ids=["none", "figure"])
def test_fold_with_json(cli: Cli, output: list[str]) -> None:
    """Where no chart is printed there is nothing to fold: a figure is whole."""
    result = cli("run", "1f1b", "--fold", "--json", *output)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "pipesched: --fold: has no effect with --json, which draws no chart on the screen\n"


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


def test_columns_are_refused_where_nothing_is_drawn_in_a_terminal(cli: Cli) -> None:
    """`export --width` names what gives a figure its width, and writes nothing."""
    result = cli("export", "1f1b", "--width", "80", "-o", "picture.svg")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--width: counts columns of a terminal; --inches is the width of a figure" in result.stderr
    assert not Path("picture.svg").exists()

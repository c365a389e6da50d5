"""`pipesched hls`: the article's example end to end, every exit, and the documents."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., subprocess.CompletedProcess[str]]
ARTICLE = "(a+b)*(c+d)+(e+f)*(g+h)"
CROSSED = "p = a+b\nq = e+f\nr = c+d\ns = g+h\ny = p*r + q*s\n"
HLS = Path(__file__).parents[2] / "configs" / "hls"


def document(cli: Cli, *args: str) -> dict[str, Any]:
    result = cli("hls", *args, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    content: dict[str, Any] = json.loads(result.stdout)
    return content


@pytest.mark.parametrize(
    ("options", "pairing", "crossing"),
    [((), 4, 5), (("--latency", "mul=2"), 6, 7), (("--latency", "mul=2", "--pipelined", "mul"), 5, 6)],
)
def test_the_article_end_to_end(cli: Cli, options: tuple[str, ...], pairing: int, crossing: int) -> None:
    """One multiplier and two adders: pairing the operands of one product, or crossing them; and the optimum."""
    Path("crossed.txt").write_text(CROSSED)
    units = ("--unit", "mul=1", "--unit", "add=2", *options)
    assert document(cli, ARTICLE, *units)["latency"] == pairing
    assert document(cli, "crossed.txt", *units)["latency"] == pairing
    for tie in ("input", "reverse", "fifo", "lifo", "bfs", "most-descendants"):
        assert document(cli, "crossed.txt", *units, "--tie", tie)["latency"] == crossing
    solved = document(cli, "crossed.txt", *units, "--solve")
    assert (solved["latency"], solved["lower_bound"], solved["status"]) == (pairing, pairing, "optimal")


def test_a_program_on_standard_input(cli: Cli) -> None:
    content = json.loads(cli("hls", "-", "--json", stdin=CROSSED).stdout)
    assert [one["op"] for one in content["ops"]] == ["p", "q", "r", "s", "*5", "*6", "y"]


@pytest.mark.parametrize("width", [20, 40, 72, 80])
def test_every_rule_is_legible_at_any_width(cli: Cli, width: int) -> None:
    """Ties that do not fit side by side stand below; nothing is cut off."""
    output = cli("hls", ARTICLE, "--compare", "--ascii", "--width", str(width)).stdout
    assert output.isascii()
    assert max(map(len, output.splitlines())) <= width
    assert len(re.findall(r"[0-9]/[0-9]", output)) == 48


def test_a_random_tie_is_repeated_by_its_seed(cli: Cli) -> None:
    source = str(HLS / "ewf.txt")
    one, same, other = (document(cli, source, "--priority", "none", "--tie", "random", "--seed", s) for s in "118")
    assert one == same
    assert one != other


def test_a_loop(cli: Cli) -> None:
    content = document(cli, str(HLS / "ewf-loop.txt"), "--pipeline", "--unit", "mul=2,add=3", "--latency", "mul=2")
    assert (content["initiation_interval"], content["lower_bound"], content["status"]) == (16, 16, "optimal")
    assert content["interval_bounds"] == {"resources": 9, "recurrences": 16}
    result = cli("hls", str(HLS / "hal-loop.txt"), "--pipeline", "--unit", "mul=3,add=3", "--latency", "mul=2")
    assert "initiation interval        6" in result.stdout
    assert "units ask for 4, recurrences for 6" in result.stdout


def test_a_search_without_time_says_so(cli: Cli) -> None:
    """0.01 seconds leave the gap that list schedules have, and the reason; for a loop too."""
    source, units = str(HLS / "ewf.txt"), ("--unit", "add=4,mul=3", "--latency", "mul=2", "--time-limit", "1e-9")
    content = document(cli, source, *units, "--solve")
    assert content["status"] in {"feasible", "optimal"}
    loop = ("--pipeline", "--unit", "mul=1,add=1", "--time-limit", "1e-6")
    content = document(cli, str(HLS / "ewf-loop.txt"), *loop)
    assert (content["status"], content["lower_bound"]) == ("feasible", 26)
    assert "stopped by the time limit" in cli("hls", str(HLS / "ewf-loop.txt"), *loop).stdout


def test_the_output_file(cli: Cli) -> None:
    assert cli("hls", ARTICLE, "-o", "out.json").returncode == 0
    assert json.loads(Path("out.json").read_text()) == document(cli, ARTICLE)
    again = cli("hls", ARTICLE, "-o", "out.json")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert cli("hls", ARTICLE, "--compare", "-o", "out.json", "--force").returncode == 0
    assert json.loads(Path("out.json").read_text())["format"] == "pipesched.hls-comparison"


@pytest.mark.parametrize("way", ["--solve", "--compare", "--pipeline"])
def test_a_file_that_cannot_be_written_ends_it_before_the_search(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Nothing is read and searched for when the answer has no place to go."""
    monkeypatch.setattr("pipesched.config.hardware.load_hardware", None)
    assert "must end in .json" in cli("hls", ARTICLE, way, "-o", "out.svg").stderr


def test_a_filter_as_a_loop(cli: Cli) -> None:
    """Inputs of earlier iterations, written as x@k or copied by hand: the same times and registers."""
    Path("fir.txt").write_text("y = c0*x + c1*x@1 + c2*x@2\n")
    Path("by-hand.txt").write_text("y = c0*x + c1*x1 + c2*x2\nx2 = x1\nx1 = x\n")
    short, by_hand = (
        document(cli, name, "--pipeline", "--mul", "3", "--add", "2") for name in ("fir.txt", "by-hand.txt")
    )
    keys = ("initiation_interval", "latency", "registers", "status")
    assert [short[key] for key in keys] == [by_hand[key] for key in keys] == [1, 3, 7, "optimal"]

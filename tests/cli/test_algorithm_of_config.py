"""`run` and `compare` of a config that names its algorithm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipesched.schedulers.registry import FAMILIES

Cli = Callable[..., subprocess.CompletedProcess[str]]

BLOCK = """\
devices: 2
microbatches: 4
algorithm:
  block:
    period: 3
    forward: [0, 1]
    backward: [4, 2]
"""
WHOLE = {name for name in FAMILIES if name != "seq-1f1b"}  # which is 1f1b without slices
GROUPED = "devices: 2\nstages: 4\nmicrobatches: 8\nalgorithm: {interleaved: {group_size: 4}}\n"


def config(text: str) -> str:
    """A config file of this text."""
    Path("c.yaml").write_text(text)
    return "c.yaml"


def ran(cli: Cli, *args: str) -> dict[str, Any]:
    """The document of a run."""
    result = cli("run", "-c", "c.yaml", "--json", *args)
    assert (result.returncode, result.stderr) == (0, "")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def compared(cli: Cli, *args: str) -> list[dict[str, Any]]:
    """The rows of a comparison."""
    result = cli("compare", "-c", "c.yaml", "--json", *args)
    assert (result.returncode, result.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return rows


def peaks(document: dict[str, Any]) -> list[float]:
    """The peak memory of each device."""
    found: list[float] = document["metrics"]["peak_memory"]
    return found


def test_run_takes_the_algorithm_of_the_config(cli: Cli) -> None:
    """Without --algo it is the config's with its options; `algorithm` of the document stays the name."""
    config(BLOCK)
    assert ran(cli)["algorithm"] == "block"
    assert "algorithm" not in ran(cli)["problem"]
    drawn = cli("run", "-c", "c.yaml")
    assert "note: the block holds 2 chunks a device by residence" in drawn.stdout
    config(GROUPED)
    assert peaks(ran(cli)) == peaks(ran(cli, "--algo", "interleaved", "--group-size", "4"))
    config("devices: 2\n")
    assert ran(cli)["algorithm"] == "1f1b"


def test_algo_replaces_it(cli: Cli) -> None:
    """--algo replaces the algorithm with its options; the same name keeps them, and an option replaces its own."""
    config(BLOCK)
    assert ran(cli, "--algo", "naive")["algorithm"] == "naive"
    assert ran(cli, "--algo", "block")["algorithm"] == "block"
    config(GROUPED)
    by_four, by_two, by_eight = (peaks(ran(cli, "--group-size", size)) for size in "428")
    assert by_four == peaks(ran(cli)) == peaks(ran(cli, "--algo", "interleaved"))
    assert len({*map(tuple, (by_four, by_two, by_eight))}) == 3
    assert ran(cli, "--algo", "looped-bfs")["algorithm"] == "looped-bfs"


def test_a_schedule_of_a_block_round_trips(cli: Cli) -> None:
    """The document of a block is drawn and checked like any other."""
    config(BLOCK)
    text = cli("run", "-c", "c.yaml", "--json").stdout
    assert cli("check", "-", stdin=text).returncode == 0
    assert cli("show", "-", "--json", stdin=text).stdout == text


def test_compare_gives_the_block_to_its_family(cli: Cli) -> None:
    """The config's options go to the family that it names, wherever that stands; without names it joins the default."""
    config(BLOCK)
    assert [row["algorithm"] for row in compared(cli)] == ["naive", "1f1b", "interleaved", "block"]
    assert [row["applicable"] for row in compared(cli, "block", "1f1b")] == [True, True]
    config(GROUPED)
    assert [row["algorithm"] for row in compared(cli)] == ["naive", "1f1b", "interleaved"]
    assert [row["algorithm"] for row in compared(cli, "1f1b")] == ["1f1b"]  # its options wait for it to be compared
    assert peaks(compared(cli, "1f1b", "interleaved")[1]) == peaks(ran(cli))
    assert peaks(compared(cli, "1f1b", "interleaved", "--group-size", "2")[1]) == peaks(ran(cli, "--group-size", "2"))


@pytest.mark.parametrize("option", ["--all", "--pareto"])
def test_every_algorithm_and_the_block(cli: Cli, option: str) -> None:
    """All algorithms are the list's, with the block of a config that has one, and without a word of it else."""
    config(BLOCK)
    assert {row["algorithm"] for row in compared(cli, option)} == WHOLE
    config("devices: 2\n")
    assert {row["algorithm"] for row in compared(cli, option)} == WHOLE - {"block"}


def test_options_of_the_config_in_a_pareto_document(cli: Cli) -> None:
    """A row says with which options it was made, exact numbers as JSON has them."""
    config(BLOCK.replace("[0, 1]", "[0, 1.5]"))
    (row,) = compared(cli, "block", "--pareto")
    assert (row["period"], row["forward"], row["backward"]) == (3, [0, 1.5], [4, 2])


def test_sweep_with_a_block(cli: Cli) -> None:
    """A sweep takes the block along, and says why where the stages do not suit it."""
    config(BLOCK)
    rows = compared(cli, "block", "--sweep", "devices=2,3")
    assert [row["applicable"] for row in rows] == [True, False]
    assert "one start for each of the 3 stages" in rows[1]["reason"]
    bubbles = compared(cli, "block", "--sweep", "microbatches=4,8")
    assert bubbles[0]["metrics"]["bubble"] > bubbles[1]["metrics"]["bubble"]


def test_an_option_replaces_one_of_the_config(cli: Cli) -> None:
    """Of a comparison too."""
    config("devices: 4\nalgorithm: {zb-auto: {objective: span}}\n")
    assert cli("compare", "zb-auto", "-c", "c.yaml", "--objective", "makespan").returncode == 0


def test_the_list_says_where_the_options_stand(cli: Cli) -> None:
    """The options of a block are keys of a config, not of the command line."""
    rows = {row["name"]: row for row in json.loads(cli("list", "--json").stdout)["rows"]}
    assert rows["block"]["options"][:2] == ["period", "forward"]
    assert "squeeze (period and forward must be given)" in " ".join(cli("list", "block").stdout.split())

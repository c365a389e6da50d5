"""Words without a flag: algorithms, one config file, and what is said of too many."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Cli = Callable[..., "CompletedProcess[str]"]
MODEL = "devices: 2\nmicrobatches: 3\n"


@pytest.fixture(autouse=True)
def model(cli: Cli) -> None:
    Path("model.yaml").write_text(MODEL)


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["run", "zb-h1"], ["run", "--algo", "zb-h1"]),
        (["run", "model.yaml"], ["run", "-c", "model.yaml"]),
        (["run", "zb-h1", "model.yaml"], ["run", "--algo", "zb-h1", "-c", "model.yaml"]),
        (["run", "model.yaml", "zb-h1"], ["run", "--algo", "zb-h1", "-c", "model.yaml"]),
        (["compare", "1f1b,zb-h1"], ["compare", "1f1b", "zb-h1"]),
        (["compare", "naive, 1f1b", "zb-h1", "model.yaml"], ["compare", "naive", "1f1b", "zb-h1", "-c", "model.yaml"]),
        (["solve", "model.yaml", "--quiet"], ["solve", "-c", "model.yaml", "--quiet"]),
    ],
)
def test_words_are_what_flags_are(cli: Cli, words: list[str], flags: list[str]) -> None:
    assert cli(*words).stdout == cli(*flags).stdout != ""


def test_only_what_pytorch_runs(cli: Cli) -> None:
    """--only leaves out what needs two copies of the weights, and says in every row what runs it."""
    listed = json.loads(cli("compare", "--all", "--json", "--only", "pytorch").stdout)["rows"]
    every = json.loads(cli("compare", "--all", "--json").stdout)["rows"]
    left = {row["algorithm"] for row in every} - {row["algorithm"] for row in listed}
    assert left == {"dualpipe", "chimera", "bitpipe"}
    assert {row["weights"] for row in every if row["algorithm"] in left} == {2}
    assert all(row["runs_in"] == ["pytorch"] and row["weights"] == 1 for row in listed)
    drawn = cli("compare", "dualpipe", "1f1b", "zb-h1", "--devices", "8", "--stages", "8", "--charts", "none").stdout
    assert "none, weights x2" in drawn
    assert "the best that PyTorch runs" in drawn


def test_only_holds_for_sweeps(cli: Cli) -> None:
    """What no trainer runs has no column in a sweep either."""
    arguments = ("compare", "dualpipe", "1f1b", "--stages", "4", "--sweep", "microbatches=8,16", "--json")
    every = json.loads(cli(*arguments).stdout)["rows"]
    listed = json.loads(cli(*arguments, "--only", "pytorch").stdout)["rows"]
    assert [row["algorithm"] for row in every] == ["dualpipe", "1f1b"] * 2
    assert listed == [row for row in every if row["algorithm"] == "1f1b"]


def test_rows_of_the_same_time_are_folded(cli: Cli) -> None:
    """--all counts what takes the same time and runs in the same trainers; --all-rows lists it."""
    folded = cli("compare", "--all", "--stages", "4", "--charts", "none").stdout
    assert re.search(r"^\S+ and \d+ more ", folded, re.MULTILINE)
    listed = cli("compare", "--all", "--stages", "4", "--charts", "none", "--all-rows").stdout
    assert " more " not in listed
    counts = sum(int(number) for number in re.findall(r" and (\d+) more", folded))
    rows = [line for line in folded.splitlines() if "%" in line]
    assert len(rows) + counts == len([line for line in listed.splitlines() if "%" in line])

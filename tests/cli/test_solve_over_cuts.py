"""`pipesched solve` where the cut of layers is open: what it says, what its document holds, what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Completed = subprocess.CompletedProcess[str]
CONFIG = """
devices: 3
microbatches: 4
layer:
  forward: [3, 1, 4, 1, 5, 9, 2, 6]
  backward: [8, 3, 12, 3, 13, 27, 5, 20]
  activation: [1, 2, 1, 2, 1, 2, 1, 2]
  static: 1
"""


@pytest.fixture
def uneven(tmp_path: Path) -> str:
    path = tmp_path / "uneven.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def says_optimal_alone(text: str) -> bool:
    """Return whether a text says optimal of a schedule without a word of cuts beside it."""
    flat = " ".join(text.split())
    return bool(re.search("optimal(?! (over all cuts|for this cut|for these cuts))", flat))


def test_what_is_proved_over_all_cuts_is_said(uneven: str, cli: Callable[..., Completed]) -> None:
    result = cli("solve", "-c", uneven, "--microbatches", "1")
    assert "optimal over all cuts" in " ".join(result.stdout.split())
    assert not says_optimal_alone(result.stdout)


def test_what_is_proved_for_its_cut_alone_is_said_with_what_other_cuts_take(
    uneven: str, cli: Callable[..., Completed]
) -> None:
    """With one cut to try, the balanced one; another might allow less."""
    result = cli("solve", "-c", uneven, "--cuts", "1")
    flat = " ".join(result.stdout.split())
    assert re.search(r"optimal for this cut makespan = bound of this cut; over all cuts of 1 chunk at least \d+", flat)
    assert not says_optimal_alone(result.stdout)


def test_the_document_holds_the_cuts_and_reads_them_back(uneven: str, cli: Callable[..., Completed]) -> None:
    result = cli(
        "solve", "-c", uneven, "--chunks", "1,2", "--time-limit", "3", "--no-advice", "--json", "-o", "best.json"
    )
    solver = json.loads(result.stdout)["solver"]
    assert {cut["chunks"] for cut in solver["cuts"]} == {1, 2}
    assert all(len(cut["layout"]) == 3 * cut["chunks"] and sum(cut["layout"]) == 8 for cut in solver["cuts"])
    own = solver["cut"]
    assert own.keys() == {"layout", "chunks", "bound", "status"}
    assert own["layout"] in [cut["layout"] for cut in solver["cuts"]]
    assert solver["bound"] <= own["bound"] <= solver["objective"]
    assert json.loads(result.stdout)["metrics"]["lower_bound"] == own["bound"]
    assert min(cut["makespan"] for cut in solver["cuts"] if cut["makespan"] is not None) == solver["objective"]
    assert json.loads(cli("show", "best.json", "--json").stdout)["solver"] == solver
    assert cli("check", "best.json").returncode == 0


def test_a_config_may_list_chunks_for_solve_alone(tmp_path: Path, cli: Callable[..., Completed]) -> None:
    """Also with the name of a placement, which each number of chunks then has."""
    path = tmp_path / "several.yaml"
    path.write_text(f"chunks: [1, 2]\nplacement: loop\n{CONFIG}", encoding="utf-8")
    result = cli("solve", "-c", str(path), "--time-limit", "2", "--no-advice", "--json")
    solver = json.loads(result.stdout)["solver"]
    assert {(cut["chunks"], cut["placement"]) for cut in solver["cuts"]} == {(1, "linear"), (2, "loop")}


def test_run_and_compare_say_that_a_bound_is_of_this_cut(uneven: str, cli: Callable[..., Completed]) -> None:
    """Their documents say optimal as ever."""
    for command in ("run", "compare"):
        result = cli(command, "1f1b", "-c", uneven, "--microbatches", "1")
        assert "optimal for this cut" in " ".join(result.stdout.split())
        assert not says_optimal_alone(result.stdout)
    assert json.loads(cli("run", "1f1b", "-c", uneven, "--microbatches", "1", "--json").stdout)["status"] == "optimal"
    given = cli("run", "1f1b", "-c", uneven, "--microbatches", "1", "--layout", "4,2,2")
    assert says_optimal_alone(given.stdout)


def test_a_frontier_is_of_the_balanced_cuts(uneven: str, cli: Callable[..., Completed]) -> None:
    result = cli("solve", "-c", uneven, "--microbatches", "2", "--frontier", "--time-limit", "5")
    assert "proved optimal for these cuts" in " ".join(result.stdout.split())
    assert not says_optimal_alone(result.stdout)

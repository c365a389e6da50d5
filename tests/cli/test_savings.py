"""`--recompute` and `--offload` of `run` and `compare`, where they are options of every family."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import pipesched
from tests.cli.conftest import Completed

Cli = Callable[..., Completed]


@pytest.mark.parametrize(
    "options", [["--recompute", "full"], ["--offload", "1"], ["--recompute", "1", "--offload", "full"]], ids=" ".join
)
def test_run_writes_a_schedule_that_passes_the_check(cli: Cli, options: list[str]) -> None:
    """The document names the family alone, round-trips, and keeps every rule, transfers included."""
    done = cli("run", "1f1b", *options, "--offload-cost", "2", "--checkpoint", "0.1", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["algorithm"] == "1f1b"
    assert cli("check", "-", stdin=done.stdout).returncode == 0
    assert json.loads(cli("show", "-", "--json", stdin=done.stdout).stdout) == document


def test_the_options_of_a_config(cli: Cli, tmp_path: Path) -> None:
    """A config gives them like any option of its algorithm."""
    file = tmp_path / "c.yaml"
    file.write_text("devices: 4\nalgorithm: {1f1b: {recompute: full, offload: 1}}\ncosts: {offload: 1}\n")
    given = json.loads(cli("run", "-c", str(file), "--json").stdout)
    typed = cli("run", "1f1b", "--devices", "4", "--stages", "4", "--offload-cost", "1", "--forward", "1",
                "--backward", "2", "--recompute", "full", "--offload", "1", "--json")  # fmt: skip
    assert given["devices"] == json.loads(typed.stdout)["devices"]


def test_some_in_a_comparison() -> None:
    """A number of stages that one family has and another has not is refused for that one alone."""
    problem = pipesched.make_problem(devices=2, stages=4)
    few, many = pipesched.compare(problem, ["1f1b", "interleaved"], recompute=3)
    assert (few.applicable, few.label, many.label) == (False, "1f1b, recompute 3", "interleaved, recompute 3")
    assert few.reason == "1f1b runs 2 stages here, so recompute takes full or at most 2, not 3"
    each = pipesched.compare(problem, ["1f1b", "naive"], each={"1f1b": {"recompute": "full"}})
    assert [entry.label for entry in each] == ["1f1b, recompute full", "naive"]

"""`pipesched check FILE --task EXERCISE`: points, a hint, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Completed

Cli = Callable[..., Completed]
TASK = "task: {goal: 10, best: 9, hints: [look]}\ndevices: 2\nmicrobatches: 2\ncosts: {forward: 1, backward: 2}\n"


@pytest.fixture(autouse=True)
def _files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    for name in ("1f1b", "sequential"):
        assert cli("run", name, "-c", "task.yaml", "-o", f"{name}.json").returncode == 0


def test_points(cli: Cli) -> None:
    """The best has ten points and exit code 0; a worse order has fewer, a hint, and exit code 1."""
    best, worse = (cli("check", f"{name}.json", "--task", "task.yaml") for name in ("1f1b", "sequential"))
    assert (best.returncode, best.stdout) == (0, "10 of 10 points: makespan 9 is the best that is known\n")
    assert (worse.returncode, worse.stdout) == (1, "4 of 10 points: makespan 12; the goal is 10\nhint: look\n")
    document = json.loads(cli("check", "sequential.json", "--task", "task.yaml", "--json").stdout)
    assert (document["format"], document["points"], document["makespan"]) == ("pipesched.verdict", 4, 12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1f1b.json", "sequential.json"], "--task: has the problem and takes one solution"),
        (["1f1b.json", "--devices", "4"], "--task: has the problem and takes one solution"),
        (["missing.json"], "cannot read 'missing.json'"),
    ],
)
def test_what_is_refused(cli: Cli, words: list[str], message: str) -> None:
    """One message and exit code 2."""
    done = cli("check", *words, "--task", "task.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr

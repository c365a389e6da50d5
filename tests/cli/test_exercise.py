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

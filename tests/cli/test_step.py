"""The options of a step: what each sets over a file, and what a wrong one is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from pipesched.cli.groups import GROUPS
from pipesched.cli.reading import given_config
from pipesched.pipeline.plan.step import Shard
from pipesched.pipeline.problem.arguments import make_problem

Cli = Callable[..., "CompletedProcess[str]"]

FILE = """devices: 2
costs: {gather: 1, optimizer: 2}
memory: {weights: 3}
shard: {level: weights, ranks: 4, ahead: 2}
step: {clip: true}
"""
GIVEN: dict[str, Any] = {
    "devices": 2, "gather": 1, "optimizer": 2, "weights": 3, "shard": Shard("weights", 4, 2), "clip": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "change"),
    [  # the key of an option, what is typed, the argument of make_problem it stands for
        ("gather", "1,2.5", {"gather": [1, 2.5]}),
        ("reduce", "3", {"reduce": 3}),
        ("optimizer", "1", {"optimizer": 1}),
        ("tied", "4", {"tied": 4}),
        ("weights", "1,2", {"weights": [1, 2]}),
        ("gradients", "1/3", {"gradients": "1/3"}),
        ("states", "12", {"states": 12}),
        ("shard.level", "gradients", {"shard": Shard("gradients", 4)}),
        ("shard.ranks", "8", {"shard": Shard("weights", 8, 2)}),
        ("shard.ahead", "full", {"shard": Shard("weights", 4, "full")}),
        ("shard.ahead", "1,3", {"shard": Shard("weights", 4, (1, 3))}),
        ("shard.reduce", "each", {"shard": Shard("weights", 4, 2, "each")}),
        ("shard.gather", "each", {"shard": Shard("weights", 4, gather="each")}),
        ("clip", False, {"clip": False}),
    ],
)  # fmt: skip
def test_option_replaces_the_value_of_the_file(tmp_path: Path, option: str, value: Any, change: dict[str, Any]) -> None:
    """An option replaces one value of the file, or one entry of it, and leaves every other as it is."""
    config = tmp_path / "c.yaml"
    config.write_text(FILE)
    read = given_config(GROUPS["problem"].read({"config": str(config), option: value}))
    assert read.problem == make_problem(**{**GIVEN, **change})


def test_all_together(cli: Cli) -> None:
    """The options as they are typed give the problem of the document."""
    costs = ["--gather-cost", "4", "--reduce-cost", "6", "--optimizer-cost", "2", "--tied-cost", "3", "--clip"]
    memory = ["--weights", "2", "--gradients", "4", "--states", "12"]
    shard = ["--shard", "weights", "--shard-ranks", "8", "--shard-ahead", "full", "--shard-reduce", "each"]
    result = cli("run", "1f1b", "--devices", "2", "--stages", "2", *costs, *memory, *shard, "--json")
    problem = json.loads(result.stdout)["problem"]
    assert (result.returncode, result.stderr) == (0, "")
    said = {key: problem["costs"][key] for key in ("gather", "reduce", "optimizer", "tied")}
    assert said == {"gather": 4, "reduce": 6, "optimizer": 2, "tied": 3}
    assert [problem["memory"][key] for key in ("weights", "gradients", "states")] == [2, 4, 12]
    assert problem["shard"] == {"level": "weights", "ranks": 8, "ahead": "full", "reduce": "each"}
    assert problem["step"] == {"clip": True}

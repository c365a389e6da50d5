"""From a model to a measured run: profile, solve within a budget of bytes, train, and read what was measured."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples import at_night_but
from tests.runtime_ranks import DEVICE
from tests.torch_ranks import needs_torch

pytestmark = needs_torch
SECONDS = 300
MODEL = "pipesched.runtime.model_source:small_model"


def pipesched(folder: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pipesched", *words], cwd=folder, capture_output=True, encoding="utf-8",
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the config of the small model."""
    folder = tmp_path_factory.mktemp("profiled")
    words = [MODEL, "--shape", "8,64", "--devices", "2", "--repeats", "3", "-o", "config.yaml", "--json"]
    (folder / "profile.json").write_text(pipesched(folder, "profile", *words).stdout)
    return folder


def test_a_measured_config_is_plausible(profiled: Path) -> None:
    """Sizes are those that can be counted; nothing is done at I of stage 0, and every other time is more than none."""
    config = yaml.safe_load((profiled / "config.yaml").read_text())
    costs, memory = config["costs"], config["memory"]
    assert (config["devices"], config["stages"], config["microbatches"]) == (2, 8, 4)
    for key in ("forward", "backward", "backward_weight", "recompute", "offload", "reload"):
        assert min(costs[key]) > 0
    if DEVICE == "cpu":  # on a GPU such small operations take what their launch takes
        assert costs["backward_input"][0] < min(costs["backward_input"][1:])
    assert len(costs["p2p"]) == 7
    weights = 2 * 64 * 256 + 256 + 64
    assert memory["static"] == [2 * 4 * weights / 1e6] * 8  # and their gradients, float32
    row = 4 * 8  # bytes of a unit's output in a microbatch
    inside, last = (256 + 64) * row, (256 + 64) * row
    assert memory["activation"] == [inside / 1e6, *[(64 * row + last) / 1e6] * 7]  # the step owns its inputs
    retain = (64 + 256 + 256 + 64) / (64 + 256 + 64)  # inputs of both layers, and the gradients of their outputs
    assert memory["retain"] == [1, *[pytest.approx(retain, abs=1e-6)] * 7]
    assert memory["checkpoint"][0] == 0
    assert memory["checkpoint"][1] == pytest.approx(64 / (64 + 256 + 64), abs=1e-6)


def test_a_profile_as_a_document(profiled: Path) -> None:
    """Quartiles in order, and the retained part above what W needs alone: gradients are caught at the weights."""
    document = json.loads((profiled / "profile.json").read_text())
    assert document["format"] == "pipesched.profile"
    assert len(document["stages"]) == 8
    for stage in document["stages"]:
        for key in ("forward", "backward", "backward_input", "backward_weight", "recompute", "offload", "reload"):
            assert 0 < stage[key]["q1"] <= stage[key]["median"] <= stage[key]["q3"]
    # W keeps the inputs of both layers, of the saved also the output of the last; and catches two gradients
    assert document["stages"][1]["retain"] == pytest.approx(((64 + 256) + (256 + 64)) / (64 + 256 + 64))
    assert document["stages"][0]["retain"] == 1


@pytest.mark.slow
def test_profile_solve_train_measure(profiled: Path, tmp_path: Path) -> None:
    """Within a budget of one microbatch and a bit, the solver offloads or recomputes; the run stays within it."""
    config = yaml.safe_load((profiled / "config.yaml").read_text())
    memory = config["memory"]
    fused = [sum(memory["activation"][:4]), sum(memory["activation"][4:])]
    budget = sum(memory["static"][:4]) + 1.3 * max(fused)
    words = ["-c", str(profiled / "config.yaml"), "--mem-budget", f"{budget:.6f}", "--p2p", "0"]
    words += [
        "--no-split-backward", "--offload", "--recompute", "--placement", "loop", "--time-limit", "5", "-o",
        "solved.json",
    ]  # fmt: skip
    pipesched(tmp_path, "solve", *words)
    solved = json.loads((tmp_path / "solved.json").read_text())
    assert solved["metrics"]["fits"]
    kinds = {entry["op"][1] for row in [*solved["devices"], *solved.get("transfers", [])] for entry in row}
    assert kinds & {"R", "O"}
    trained = pipesched(tmp_path, "train", "solved.json", "--steps", "3", "--trace", "trace", "--json").stdout
    document: dict[str, Any] = json.loads(trained)
    losses = document["losses"]
    assert losses == sorted(losses, reverse=True)
    for rank, report in enumerate(document["ranks"]):
        static = sum(memory["static"][stage] for stage in range(8) if stage % 2 == rank)
        assert report["peak_bytes"] / 1e6 + static <= budget
        assert report["live_bytes"] == 0
        planned = [entry["op"] for entry in solved["devices"][rank]]
        assert [one["op"] for one in report["operations"] if one["op"][1] not in "OL"] == planned
        trace = json.loads((tmp_path / "trace" / f"rank{rank}.json").read_text())
        assert trace["distributedInfo"]["rank"] == rank
        names = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
        assert [name for name in names if name in {f"PP:{op}" for op in planned}].count(f"PP:{planned[0]}") == 3
        assert any(re.fullmatch(r"WAIT:\d[FBI]\d", name) for name in names)
    _read_as_measured(tmp_path, solved)


def _read_as_measured(folder: Path, solved: Any) -> None:
    """Hold what the traces of a run say against its plan: every operation, costs of each kind, a config of these."""
    traces = [f"trace/rank{rank}.json" for rank in (1, 0)]
    pipesched(folder, "show", *traces, "--plan", "solved.json", "--width", "100")
    words = ["--plan", "solved.json", "-o", "measured.yaml", "--json"]
    explained = json.loads(pipesched(folder, "explain", "--measured", *traces, *words).stdout)
    measured = explained["measured"]
    operations = [entry["op"] for row in [*solved["devices"], *solved.get("transfers", [])] for entry in row]
    assert {(one["kind"], one["stage"]) for one in measured["costs"]} == {(op[1], int(op[0])) for op in operations}
    for one in measured["costs"]:
        assert 0 < one["q1"] <= one["median"] <= one["q3"]
        assert one["planned"] > 0
    assert measured["offsets"][0] == 0
    again = json.loads(pipesched(folder, "run", "list", "-c", "measured.yaml", "--json").stdout)
    assert again["problem"]["time_unit"] == "us"


@pytest.mark.nightly
def test_train_is_one_rank_of_torchrun(tmp_path: Path) -> None:
    """Under torchrun no processes are started, and the first rank prints."""
    pipesched(tmp_path, "run", "-a", "dualpipe", "--devices", "2", "--stages", "2", "-o", "schedule.json")
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pipesched"]
    done = subprocess.run(
        [sys.executable, *words, "train", "schedule.json", "--steps", "2"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("loss") == 2


WRONG = [
    (["train", "schedule.json", "--model", "no.such:model"], "cannot import 'no.such'", 2),
    (["train", "schedule.json", "--trace", "old"], "--trace: old holds the profiles of another training", 2),
    (
        ["train", "schedule.json", "--shape", "8,63"],
        "shapes cannot be multiplied (8x63 and 64x256) (0F0 on rank 0)\n",
        1,
    ),
    (["profile", MODEL, "--shape", "8,63"], "mat1 and mat2 shapes cannot be multiplied", 1),
    (["profile", MODEL, "--shape", "8,64", "--dtype", "float33"], "float33", 2),
]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", at_night_but(WRONG[2:3], WRONG))
def test_bad_input(tmp_path: Path, wrong: tuple[list[str], str, int]) -> None:
    """One message that says what is wrong, and no traceback of ours."""
    words, message, status = wrong
    pipesched(tmp_path, "run", "-a", "1f1b", "--devices", "2", "--stages", "2", "-o", "schedule.json")
    Path(tmp_path, "old").mkdir()
    Path(tmp_path, "old", "rank1.json").touch()
    done = pipesched(tmp_path, *words, status=status)
    assert message in done.stderr
    assert done.stdout == ""
    assert [line for line in done.stderr.splitlines() if line.startswith("pipesched: ")]

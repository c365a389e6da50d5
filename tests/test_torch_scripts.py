"""The scripts that need torch: from a measured model to a trained one, and simulated times against real ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torch_ranks import needs_torch

SCRIPTS = Path(__file__).parents[1] / "scripts"
SECONDS = 120
pytestmark = needs_torch


def run(folder: Path, *command: str) -> str:
    """What a Python command prints on standard output, in a folder of its own, the scripts importable as modules."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS), "GLOO_SOCKET_IFNAME": "lo", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def schedule_of_a_rule(folder: Path) -> None:
    """A family's schedule, on as many stages as devices."""
    made = run(folder, "-m", "pipesched", "run", "-a", "zb-h1", "-c", "config.yaml", "-o", "schedule.csv")
    assert "8 stages fused into 2" in made


def schedule_of_the_solver(folder: Path) -> None:
    """The solver's schedule within a budget that two of the four microbatches fill, exported from its document."""
    budget = 4 * 2 * 4 * (64 * 64 + 64) / 1e6 + 2 * 4 * 2 * 4 * 8 * 64 / 1e6  # static, and two microbatches, in MB
    solved = ["-c", "config.yaml", "--mem-budget", f"{budget:.6f}", "--time-limit", "10", "-o", "solved.json"]
    assert "within the budget" in run(folder, "-m", "pipesched", "solve", *solved).replace("\n", " ")
    run(folder, "-m", "pipesched", "export", "solved.json", "-o", "schedule.csv")


@pytest.mark.parametrize("schedule", [schedule_of_a_rule, schedule_of_the_solver])
def test_profile_schedule_export_train(tmp_path: Path, schedule: Callable[[Path], None]) -> None:
    """Stages are measured, scheduled under the measured costs, and trained by the schedule: the loss falls."""
    model = ["train_with_pipesched:small_model", "--shape", "8,64"]
    run(tmp_path, str(SCRIPTS / "profile_torch.py"), *model, "--devices", "2", "-o", "config.yaml", "--repeats", "3")
    schedule(tmp_path)
    checked = run(tmp_path, "-m", "pipesched", "check", "schedule.csv", "-c", "config.yaml")
    assert "every rule is kept" in checked
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = [str(SCRIPTS / "train_with_pipesched.py"), "schedule.csv", "--model", model[0]]
    printed = run(tmp_path, *torchrun, *script)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", printed)]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)


def test_simulated_times_are_real(tmp_path: Path) -> None:
    """Four schedules whose operations sleep take as long as simulated, within 15 %."""
    printed = run(tmp_path, str(SCRIPTS / "validate_timing.py"))
    assert len(re.findall(r"[+-][0-9.]+%", printed)) == 4


def test_a_measured_config_is_plausible(tmp_path: Path) -> None:
    """The measured stages: nothing at I of stage 0, sizes of weights and activations as they can be counted."""
    script = str(SCRIPTS / "profile_torch.py")
    text = run(tmp_path, script, "train_with_pipesched:small_model", "--shape", "8,64", "--repeats", "3")
    values = {key: [float(one) for one in row.split(", ")] for key, row in re.findall(r"(\w+): \[(.*)\]", text)}
    assert values["backward_input"][0] == 0
    assert min(values["backward_input"][1:] + values["forward"] + values["backward_weight"] + values["p2p"]) > 0
    assert len(values["p2p"]) == 7
    assert values["static"] == [2 * 4 * (64 * 64 + 64) / 1e6] * 8  # weights and bias, and their gradients, float32
    assert values["activation"] == [2 * 4 * 8 * 64 / 1e6] * 8  # the input, and the output of tanh

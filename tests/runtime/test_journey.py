"""From a model of one's own to a trained and measured one: each command reads what the one before it wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]
STEPS, MICROBATCHES = 20, 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the module of a small GPT."""
    shutil.copy(Path(__file__).with_name("gpt.py"), tmp_path)
    return tmp_path


def said(folder: Path, *words: str) -> str:
    """What `pipesched` prints in a process of its own, which ends well."""
    command = [sys.executable, "-m", "pipesched", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def peak(document: str) -> float:
    """The most memory that a device holds by the document of a schedule."""
    metrics: dict[str, Any] = json.loads(document)["metrics"]
    return float(max(metrics["peak_memory"]))


@pytest.mark.nightly
@pytest.mark.parametrize("model", ["untied", "tied"])
def test_from_a_model_to_its_next_plan(folder: Path, model: str) -> None:
    """Profile, solve under a budget, train 20 steps with traces, explain them, solve what was measured, train again."""
    from tests.runtime import gpt

    mine = ("--data", "gpt:data", "--loss", "cross-entropy")
    said(folder, "profile", f"gpt:{model}", *mine, "--devices", "2", "--repeats", "3", "-o", "config.yaml")
    given = ("-c", "config.yaml", "--microbatches", str(MICROBATCHES))
    least, most = (peak(said(folder, "run", name, *given, "--json")) for name in ("sequential", "gpipe"))
    budget = f"{(least + most) / 2:.6g}"
    solved = said(folder, "solve", *given, "--mem-budget", budget, "--time-limit", "2", "-o", "solved.json", "--json")
    assert peak(solved) <= float(budget) < most
    said(folder, "check", "solved.json")
    train = ("train", "--model", f"gpt:{model}", *mine, "--json", "--steps", str(STEPS))
    trained = json.loads(said(folder, *train, "solved.json", "--trace", "measured"))
    plain = gpt.train_unpipelined(getattr(gpt, model)(), STEPS, MICROBATCHES)
    assert trained["losses"] == pytest.approx(plain, rel=1e-9)

    traces = [f"measured/rank{rank}.json" for rank in range(2)]
    explained = said(folder, "explain", "--measured", *traces, "--plan", "solved.json", "-o", "measured.yaml", "--json")
    measured = json.loads(explained)["measured"]
    assert {one["stage"] for one in measured["costs"]} == set(range(json.loads(solved)["problem"]["stages"]))
    said(folder, "solve", "-c", "measured.yaml", "--time-limit", "2", "-o", "next.json")
    again = json.loads(said(folder, *train, "next.json"))
    assert again["losses"] == pytest.approx(plain, rel=1e-9)

"""Real runs by `pipesched train --trace` whose link or rank was made slow: the explanation of their traces names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import pipesched
from tests.runtime.test_loop import pipesched as command
from tests.runtime_ranks import DEVICE
from tests.torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]
SLOW = 0.06  # seconds, and far more than an operation takes
MODEL = f"""
import time

import torch.distributed as dist

from pipesched.runtime.channels import Channels
from pipesched.runtime.engine import Engine
from pipesched.runtime.model_source import small_model

receive, wait = Channels.receive, Engine._wait_for_input


def slow_link():
    def late(self, peer, *rest):
        found = receive(self, peer, *rest)
        if {{peer, dist.get_rank()}} == {{1, 2}}:
            time.sleep({SLOW})
        return found

    Channels.receive = late
    return small_model()


def slow_rank():
    def late(self, *rest):
        waited = wait(self, *rest)
        if dist.get_rank() == 2:
            time.sleep({SLOW})
        return waited

    Engine._wait_for_input = late
    return small_model()
"""


def explained(folder: Path, model: str) -> tuple[dict[str, Any], str]:
    """What is said about a training of four ranks: the document, and the text."""
    (folder / "slow.py").write_text(MODEL)
    problem = pipesched.make_problem(devices=4, microbatches=4, forward=1, backward=2)
    pipesched.write(pipesched.run(problem, "1f1b"), folder / "plan.json")
    command(folder, "train", "plan.json", "--model", f"slow:{model}", "--steps", "4", "--trace", "traces")
    traces = [f"traces/rank{rank}.json" for rank in range(4)]
    document = json.loads(command(folder, "explain", "--measured", *traces, "--json").stdout)
    for row in document["devices"]:
        assert row["message"] + row["runtime"] == pytest.approx(row["late"])
    text = command(folder, "explain", "--measured", *traces, "-o", "measured.yaml", "--width", "120").stdout
    return document, text


@pytest.mark.nightly
def test_a_slow_link(tmp_path: Path) -> None:
    """Its messages are what late time is, the longest gaps name them, and the config has its latency."""
    document, text = explained(tmp_path, "slow_link")
    assert [row["boundary"] for row in document["measured"]["p2p"]] == [0, 1, 2]
    p2p = [row["p2p"] for row in document["measured"]["p2p"]]
    assert p2p[1] == pytest.approx(SLOW * 1e6, rel=0.15)
    assert max(p2p[0], p2p[2]) < SLOW * 1e6 / 3
    written = yaml.safe_load((tmp_path / "measured.yaml").read_text())["costs"]["p2p"]
    assert written == pytest.approx(p2p, abs=1e-3)
    late = [gap for gap in document["gaps"] if gap["class"] in ("message", "runtime")]
    longest = sorted(late, key=lambda gap: gap["start"] - gap["end"])[:4]
    assert {gap["class"] for gap in longest} == {"message"}
    assert {gap["culprit"][:2] for gap in longest} <= {"1B", "2F"}
    assert sum(row["message"] for row in document["devices"]) > 2 * sum(row["runtime"] for row in document["devices"])
    assert "longer than planned" in text
    if DEVICE == "cpu":
        machine = document["measured"]
        cores = f"{machine['cores']} core{'s' * (machine['cores'] > 1)}"
        assert f"4 ranks ran on {cores}" in text


@pytest.mark.nightly
@pytest.mark.skipif(DEVICE == "cuda", reason="the trace of a GPU does not say why it did nothing")
def test_a_slow_rank(tmp_path: Path) -> None:
    """Its operations could run, and it had not begun them: runtime, and hardly any message."""
    document, text = explained(tmp_path, "slow_rank")
    late = [gap for gap in document["gaps"] if gap["class"] in ("message", "runtime")]
    longest = sorted(late, key=lambda gap: gap["start"] - gap["end"])[:4]
    assert {(gap["class"], gap["culprit"][0]) for gap in longest} == {("runtime", "2")}
    assert document["devices"][2]["runtime"] > 8 * SLOW * 1e6 * 0.9
    assert document["devices"][2]["message"] < document["devices"][2]["runtime"] / 3
    assert "could run, the rank had not begun it" in text

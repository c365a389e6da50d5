"""From a schedule to a trained model and back: the journey of the docs, later times, and the docs themselves."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pipesched
from tests.runtime.test_loop import pipesched as command
from tests.runtime_ranks import DEVICE
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


ROOT = Path(__file__).parents[2]
TRAIN, PACK = (ROOT / "docs" / "how-to" / name for name in ("train.md", "pack-documents.md"))


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.nightly
def test_the_page_runs(tmp_path: Path) -> None:
    """Profile, solve, train, measured times, one's own loop, unequal rows, self-test: losses fall; ranks trace."""
    programs = {
        "pipesched": [sys.executable, "-m", "pipesched"],
        "torchrun": [sys.executable, "-m", "torch.distributed.run"],
    }
    (tmp_path / "loop.py").write_text(blocks(TRAIN, "python")[0])
    printed = []
    for line in "".join(blocks(TRAIN, "sh")).splitlines():
        program, *words = shlex.split(line)
        done = subprocess.run(
            [*programs[program], *words],
            cwd=tmp_path,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        printed.append((words, done.stdout))
    trained = [text for words, text in printed if (words[0] == "train" and "--steps" in words) or "loop.py" in words]
    for text in trained:
        losses = [float(loss) for loss in re.findall(r"step \d: (?:loss )?([0-9.]+)", text)]
        assert len(losses) >= 3
        assert losses == sorted(losses, reverse=True)
    assert len(trained) == 3
    (tested,) = (text for words, text in printed if "--self-test" in words)
    assert tested.count("dualpipe, recompute full, offload 1") == 2
    assert sorted(path.name for path in (tmp_path / "measured").iterdir()) == ["rank0.json", "rank1.json"]


def test_what_a_step_calls_for(tmp_path: Path) -> None:
    """The program with `collective` prints, in each of two steps, the operations that the page lists; it trains."""
    (tmp_path / "sharded.py").write_text(blocks(TRAIN, "python")[1])
    done = subprocess.run(
        [sys.executable, tmp_path / "sharded.py"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    listed = next(block for block in blocks(TRAIN, "text") if "UNSHARD" in block)
    assert done.stdout == f"{listed}{listed}True\n"


def test_a_data_loader_hands_out_microbatches(tmp_path: Path) -> None:
    """The batch sampler of the page on packing prints what the page says: each document once, none above the cap."""
    program = blocks(PACK, "python")[-1]
    (tmp_path / "loader.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "loader.py"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [done.stdout] == blocks(PACK, "text")

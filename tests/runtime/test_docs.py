"""The pages that need PyTorch are true: their commands and programs run as they stand there, one after the other."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch_ranks import needs_torch

pytestmark = [needs_torch, pytest.mark.slow]
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

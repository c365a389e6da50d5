"""The script that needs torch: simulated times against real ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch_ranks import needs_torch

SCRIPTS = Path(__file__).parents[2] / "scripts"
SECONDS = 120
pytestmark = [needs_torch, pytest.mark.nightly]


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


def test_simulated_times_are_real(tmp_path: Path) -> None:
    """Schedules whose operations sleep take as long as simulated in PyTorch's runtime and in ours, within 15 %."""
    printed = run(tmp_path, str(SCRIPTS / "validate_timing.py"))
    assert len(re.findall(r"[+-][0-9.]+%", printed)) == 8

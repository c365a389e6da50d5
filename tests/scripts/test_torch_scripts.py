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
pytestmark = [needs_torch, pytest.mark.nightly]


def test_simulated_times_are_real(tmp_path: Path) -> None:
    """Schedules whose operations sleep take as long as simulated in PyTorch's runtime and in ours, within 15 %."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS), "GLOO_SOCKET_IFNAME": "lo", "COLUMNS": "100"}
    command = [sys.executable, str(SCRIPTS / "validate_timing.py")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(re.findall(r"[+-][0-9.]+%", done.stdout)) == 8

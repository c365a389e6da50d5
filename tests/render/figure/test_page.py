"""What figures ask of their surroundings: matplotlib if there is one, and nothing global of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pipesched
from pipesched.errors import ConfigError


def test_missing_matplotlib_is_one_clear_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without matplotlib the message says what to install."""
    outcome = pipesched.run(pipesched.load(), "1f1b")
    monkeypatch.setattr("pipesched.render.figure.draw.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pipesched\[plot\]'"):
        pipesched.figure(outcome)
    with pytest.raises(ConfigError, match=r"pip install 'pipesched\[plot\]'"):
        pipesched.write(outcome, tmp_path / "chart.svg")


def test_no_pyplot() -> None:
    """Drawing loads no pyplot, which would keep figures and pick a window system."""
    code = (
        "import sys, pipesched\n"
        "from pipesched.render.figure.draw import image_of\n"
        "from pipesched.render.view import View\n"
        "image_of(pipesched.run(pipesched.load(), '1f1b'), View(), 'svg')\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

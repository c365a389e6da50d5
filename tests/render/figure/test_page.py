"""What figures ask of their surroundings: matplotlib if there is one, and nothing global of it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from pipesched.errors import ConfigError


def test_missing_matplotlib_is_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the message says what to install."""
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "pipesched.render.figure"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / "matplotlib").exists()])
    with pytest.raises(ConfigError, match=r"pip install 'pipesched\[plot\]'"):
        importlib.import_module("pipesched.render.figure.gantt")


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

"""The script that sets DualPipe's published figures beside ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "reproduce_dualpipe.py"


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reproduce_dualpipe", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_agree(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The smaller sizes: every figure is the published one, and the table says both."""
    assert script.main(["--fast"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[-1] == "all figures agree"
    assert ["dualpipe", "P8", "M16:", "makespan", "54", "54", "0"] in [row.split() for row in rows]
    assert ["dualpipe", "P8", "M16,", "F&B", "2.5:", "bubble", "4.5", "4.5", "0"] in [row.split() for row in rows]
    assert len(rows) == 2 + 3 * (5 + 5 + 3)


def test_a_wrong_figure_fails(
    script: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that differs is counted, and makes the exit code 1."""
    monkeypatch.setitem(script.MAKESPANS, (4, 8), (33, 27, 25, 57, 54))
    assert script.main(["--fast"]) == 1
    out = capsys.readouterr().out
    assert "dualpipe P4 M8: makespan                         25         26           1" in out
    assert out.splitlines()[-1] == "1 figures differ by more than 0"

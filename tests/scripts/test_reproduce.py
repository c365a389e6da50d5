"""The scripts that print a paper's figures beside ours: that they run, and that they can say no."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"


def script(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ZERO_BUBBLE = script("reproduce_zero_bubble")


def test_zero_bubble_reproduces(capsys: pytest.CaptureFixture[str]) -> None:
    """The first rows of the paper's table: every figure agrees, in 100 columns."""
    assert ZERO_BUBBLE.main(["--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].split() == ["1.5B", "P8", "M24", "printed", "0.2431", "0.1585", "0.1083", "0.1585", "0.0433"]
    assert lines[3].split() == ["ours", "0.2431", "0.1585", "0.1083", "0.1585", "0.0433"]
    assert lines[-1].startswith("0 of 10 figures do not agree")


@pytest.mark.parametrize("column", ZERO_BUBBLE.COLUMNS, ids=lambda column: column.title)
def test_zero_bubble_tolerates_rounding_only(column: Any) -> None:
    """Four printed digits: half a digit at the end agrees, more does not; a figure of zb-auto may be lower."""
    assert ZERO_BUBBLE.agrees(column, 0.00005)
    assert ZERO_BUBBLE.agrees(column, -0.00005)
    assert not ZERO_BUBBLE.agrees(column, 0.00006)
    assert ZERO_BUBBLE.agrees(column, -0.00006) == (column.algorithm == "zb-auto")


def test_zero_bubble_fails_on_another_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A figure that does not agree is marked and counted, and the exit code is 1."""
    case = ZERO_BUBBLE.CASES[0]
    monkeypatch.setattr(ZERO_BUBBLE, "CASES", (case._replace(printed=(0.2435, *case.printed[1:])),))
    assert ZERO_BUBBLE.main([]) == 1
    out = capsys.readouterr().out
    assert "!-0.00045" in out
    assert out.count("!") == 1
    assert "1 of 5 figures do not agree" in out

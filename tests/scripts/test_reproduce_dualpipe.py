"""The script that sets DualPipe's published figures beside ours."""

from __future__ import annotations

import pytest

import reproduce_dualpipe as script


def test_the_figures_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """The smaller sizes: every figure is the published one, and the table says both."""
    assert script.main(["--fast"]) == 0
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["dualpipe", "P8", "M16:", "makespan", "54", "54", "0"] in rows
    assert ["dualpipe", "P8", "M16,", "F&B", "2.5:", "bubble", "4.5", "4.5", "0"] in rows
    assert rows[-1] == ["all", "39", "figures", "agree"]


def test_a_wrong_figure_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that differs is counted, and makes the exit code 1."""
    monkeypatch.setitem(script.MAKESPANS, (4, 8), (33, 27, 25, 57, 54))
    assert script.main(["--fast"]) == 1
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["dualpipe", "P4", "M8:", "makespan", "25", "26", "1", "!"] in rows
    assert rows[-1] == ["1", "of", "39", "figures", "do", "not", "agree"]

"""The script that sets the tables of the Zero Bubble paper beside ours."""

from __future__ import annotations

import pytest

import reproduce_zero_bubble as script


def test_every_figure_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    """The first rows of the paper's table: every figure agrees, in 80 columns."""
    assert script.main(["--fast"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[5].split() == ["1.5B", "P8", "M24", "ZB-2p:", "bubble_span", "0.0433", "0.04331", "0.00001"]
    assert lines[-1] == "all 10 figures agree"


def test_only_zb_auto_may_be_better() -> None:
    """The fixed schedules reproduce the printed figure, neither more nor less."""
    found = list(script.figures(fast=True))
    assert [figure.or_better for figure in found[:5]] == [False, False, False, True, True]


def test_another_figure_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A figure that does not agree makes the exit code 1."""
    case = script.CASES[0]
    monkeypatch.setattr(script, "CASES", (case._replace(printed=(0.2435, *case.printed[1:])),))
    assert script.main([]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 of 5 figures do not agree"

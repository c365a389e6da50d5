"""The table of published figures beside ours, and its verdict."""

from __future__ import annotations

import pytest

from published import FOUR_DIGITS, Figure, report


def test_rounding_only() -> None:
    """Four printed digits: half a digit at the end agrees, more does not."""
    for ours, agrees in ((0.24315, True), (0.24305, True), (0.24316, False), (0.24304, False)):
        assert Figure("bubble", 0.2431, ours, FOUR_DIGITS).agrees == agrees


def test_or_better() -> None:
    """What is to be small may be lower by any amount, and no higher than the tolerance."""
    for ours, agrees in ((51, True), (40, True), (51.5, True), (52, False)):
        assert Figure("makespan", 51, ours, tolerance=0.5, or_better=True).agrees == agrees


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each figure; the one that does not agree is marked, counted, and makes the exit code 1."""
    assert report([Figure("span", 48, 48), Figure("bubble", 0.0433, 0.04345)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split() for line in out[:3]] == [
        ["published", "ours", "difference"],
        ["span", "48", "48", "0"],
        ["bubble", "0.0433", "0.04345", "0.00015", "!"],
    ]
    assert out[3] == "1 of 2 figures do not agree"
    assert report([Figure("span", 48, 48)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all 1 figures agree"

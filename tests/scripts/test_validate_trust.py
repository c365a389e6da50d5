"""The page that shows intervals beside published runs is what the script prints."""

from __future__ import annotations

import pytest

import validate_trust


@pytest.mark.slow
def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """Every source left out, and no goal missed."""
    assert not validate_trust.tables()
    page, printed = validate_trust.PAGE.read_text(encoding="utf-8"), capsys.readouterr().out
    assert validate_trust.refreshed(page, printed) == page


def test_a_goal_above_what_was_reached_is_missed() -> None:
    """A figure meets its goal as it is printed, and no higher."""
    assert validate_trust.Goal("width", 0.1364, 0, 0.136).is_met
    assert not validate_trust.Goal("width", 0.1366, 0, 0.136).is_met


def test_the_exit_code_says_what_is_missed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """0 where each goal is met, else 1."""
    for missed in (False, True):
        monkeypatch.setattr(validate_trust, "tables", lambda missed=missed: missed)
        assert validate_trust.main([]) == missed
    assert capsys.readouterr().out == ""

"""The page that shows estimates beside measurements is what the script prints, and no goal is missed."""

from __future__ import annotations

import pytest

import validate_estimate


@pytest.mark.slow
def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """Every run, every family."""
    assert not validate_estimate.tables()
    page = validate_estimate.PAGE.read_text(encoding="utf-8")
    assert validate_estimate.refreshed(page, capsys.readouterr().out) == page

"""The page that shows intervals beside published runs is what the script prints."""

from __future__ import annotations

import pytest

import validate_trust


@pytest.mark.slow
def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """Every source left out; a goal that is missed is marked on the page."""
    missed = validate_trust.tables()
    page, printed = validate_trust.PAGE.read_text(encoding="utf-8"), capsys.readouterr().out
    assert validate_trust.refreshed(page, printed) == page
    assert missed == any(line.endswith("missed") for line in printed.splitlines())

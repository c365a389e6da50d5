"""The table of keys: the docs hold it, and no key has two meanings."""

from __future__ import annotations

from pathlib import Path

from pipesched.explore.keys import KEYS, keys_table

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "edit-a-schedule.md"


def test_the_docs_hold_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"<!-- keys -->\n{keys_table()}\n<!-- /keys -->" in text


def test_no_key_has_two_meanings() -> None:
    keys = [name for key in KEYS for name in key.keys.split(",")]
    assert len(keys) == len(set(keys))

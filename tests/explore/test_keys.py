"""The table of keys: the docs hold it, and no key has two meanings."""

from __future__ import annotations

from pathlib import Path

from pipesched.explore.state import KEYS, MOUSE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "edit-a-schedule.md"


def keys_table() -> str:
    """Return the table of keys and mouse actions, in Markdown."""
    rows = [f"| {_code(key.shown)} | {key.text}{' (empty mode)' if key.mode == 'empty' else ''} |" for key in KEYS]
    mouse = [f"| {name} | {text} |" for name, text in MOUSE]
    return "\n".join(["| key | what it does |", "| --- | --- |", *rows, *mouse])


def _code(shown: str) -> str:
    return " ".join(f"`{part}`" for part in shown.split())


def test_the_docs_hold_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"<!-- keys -->\n{keys_table()}\n<!-- /keys -->" in text


def test_no_key_has_two_meanings() -> None:
    keys = [name for key in KEYS for name in key.keys.split(",")]
    assert len(keys) == len(set(keys))

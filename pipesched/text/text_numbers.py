"""Texts of a file that stand where a number is due."""

from __future__ import annotations

from typing import Any

from pipesched.pipeline.units_of_measure import has_unit


class TextForNumber:
    """A text of a file where a number is due. It is no number, whatever it spells, as in the JSON Schema."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return repr(self.text)


def only_numbers(plain: Any) -> Any:
    """Return a value of a file, or a list or mapping of them, in which no text counts as the number that it spells.

    A number with a unit (250us) stays the text that it is.
    """
    if isinstance(plain, dict):
        return {key: only_numbers(entry) for key, entry in plain.items()}
    if isinstance(plain, list):
        return [only_numbers(entry) for entry in plain]
    return TextForNumber(plain) if isinstance(plain, str) and not has_unit(plain) else plain

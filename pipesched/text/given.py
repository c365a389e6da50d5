"""A value that a user gave, where it stands, and an error that says so; and texts that stand for no number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import to_fraction
from pipesched.pipeline.units_of_measure import has_unit


class Given(NamedTuple):
    """A value that a user gave, and where it stands in a file (`file:line: key`), if it does.

    `inside` says of a mapping where each of its entries stands, by name, and of lists of lists where each of them does,
    by index; `built_in` that it is of the built-in default.
    """

    value: Any
    where: str | None = None
    inside: Mapping[str, str] = MappingProxyType({})
    built_in: bool = False


def located(error: ConfigError, values: Mapping[str, Given]) -> ConfigError:
    """Return an error that says where the value at fault stands, if it stands in a file."""
    given = values.get(error.key or "")
    if given is None:
        return error
    first = error.entry[0] if isinstance(error.entry, tuple) else error.entry
    where = given.inside.get(re.split(r"[.\[]", str(first))[0], given.where)
    return error if where is None else error.at(where)


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


def words_or_numbers(plain: Any) -> Any:
    """Return a value whose texts are words: none is read as a number."""
    if isinstance(plain, dict):
        return {key: words_or_numbers(entry) for key, entry in plain.items()}
    try:
        is_word = isinstance(plain, str) and to_fraction(plain) is None
    except ValueError:
        is_word = True
    return plain if is_word else only_numbers(plain)

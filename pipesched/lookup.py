"""Finding a thing by its name, and saying which names there are when it is not found."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from pipesched.errors import ConfigError

T = TypeVar("T")


def find(table: Mapping[str, T], name: str, what: str, key: str | None = None) -> T:
    """`table[name]`. Raises ConfigError with the nearest name and all valid ones."""
    if name in table:
        return table[name]
    near = get_close_matches(name.lower(), table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"unknown {what} {name!r}; {hint}known are {', '.join(table)}", key)

"""Looking things up by their names, with errors that list the known names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pipesched.checks import shown
from pipesched.errors import ConfigError

T = TypeVar("T")


def look_up(table: Mapping[str, T], name: object, what: str, key: str | None = None) -> T:
    """Return `table[name]`; `what` says what it is, for a message: "algorithm".

    Raises ConfigError, about the parameter `key`, that suggests the nearest name and lists all known ones.
    """
    if not isinstance(name, str):
        raise ConfigError(f"must be a name, one of {', '.join(table)}, not {shown(name)}", key)
    if name in table:
        return table[name]
    near = get_close_matches(name.lower(), table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"unknown {what} {shown(name)}; {hint}known are {', '.join(table)}", key)


def require_name(names: Iterable[str], name: object, what: str, key: str | None = None) -> str:
    """Return `name` if it is one of `names`. Raises ConfigError as `look_up` does."""
    return look_up({known: known for known in names}, name, what, key)

"""Looking things up by their names, with errors that list the known names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pipesched.checks import shown
from pipesched.errors import ConfigError

T = TypeVar("T")
NEAREST = 3


def look_up(table: Mapping[str, T], name: object, what: str, key: str | None = None, rest: str = "") -> T:
    """Return `table[name]`; `what` says what it is, for a message: "algorithm".

    Raises ConfigError, about the parameter `key`, that suggests the nearest name and lists all known ones, or the three
    nearest where `rest` says what lists all.
    """
    if not isinstance(name, str):
        known = f"one of {', '.join(table)}, " if not rest else ""
        raise ConfigError(f"must be a name, {known}not {shown(name)}", key)
    if name in table:
        return table[name]
    near = get_close_matches(name.lower(), table, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    nearest = get_close_matches(name.lower(), table, n=NEAREST, cutoff=0)
    known = f"the nearest are {', '.join(nearest)}; {rest}" if rest else f"known are {', '.join(table)}"
    raise ConfigError(f"unknown {what} {shown(name)}; {hint}{known}", key)


def require_name(names: Iterable[str], name: object, what: str, key: str | None = None) -> str:
    """Return `name` if it is one of `names`. Raises ConfigError as `look_up` does."""
    return look_up({known: known for known in names}, name, what, key)

"""A value that a user gave, where it stands, and an error that says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.errors import ConfigError


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

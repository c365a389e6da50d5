"""The sections of a config that describe a training run: values with their lines, and errors that say where.

`merged` puts overrides on a `Section`, `Entries` reads its keys, `located` gives an error its line. A value on line 0
stands in no file: it came from Python or from an option of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipesched.checks import require_mapping, shown
from pipesched.errors import ConfigError
from pipesched.pipeline.problem.declared import SETUP_NAMES, nearest_key
from pipesched.pipeline.problem.quantities import OutOfLimits, plain, rounding_of
from pipesched.pipeline.problem.shapes import only_numbers
from pipesched.text.yaml_reader import Value


class Section(NamedTuple):
    """A section as it was given, and the file that it stands in ("" for none)."""

    value: Value
    file: str = ""

    def folder(self, value: Value) -> Path:
        """Return the folder that the name of a file in a value of this section is relative to."""
        return Path(self.file).parent if value.line else Path()


Sections = Mapping[str, Section]


def value_of(plain: Any, key: str) -> Value:
    """Return a value of Python as one that stands in no file. Raises ConfigError for names that are no text."""
    if isinstance(plain, Mapping):
        names = require_mapping(plain, "a mapping by names", key)
        return Value({name: value_of(entry, f"{key}.{name}") for name, entry in names.items()}, 0)
    if isinstance(plain, (list, tuple)):
        return Value([value_of(entry, key) for entry in plain], 0)
    return Value(plain, 0)


def merged(below: Section | None, above: Any, key: str) -> Section:
    """Return a section with a value of Python on top: mappings are merged, what is None in them becomes the default.

    A mapping on top of the name of a preset of hardware changes that preset.
    """
    value = value_of(above, key)
    if below is None:
        return Section(value)
    under = below.value
    if key == "hardware" and isinstance(under.data, str) and isinstance(value.data, dict):
        under = Value({"preset": under}, under.line)
    return below._replace(value=_on_top(under, value))


def _on_top(below: Value, above: Value) -> Value:
    if not isinstance(below.data, dict) or not isinstance(above.data, dict):
        return above
    data = dict(below.data)
    for key, value in above.data.items():
        data[key] = _on_top(data[key], value) if key in data else value
    return Value(data, below.line)


def located(error: ConfigError, sections: Sections) -> ConfigError:
    """Return an error about a dotted key (`parallel.tensor`) as one that says where its value stands in a file.

    A section that is missing is told by the name of the file that has others.
    """
    first, *rest = (error.key or "").split(".")
    if error.where is not None or not first:
        return error
    if first not in sections:
        file = next((section.file for section in sections.values() if section.file), "")
        return error.at(f"{file}: {error.key}") if file and first in SETUP_NAMES else error
    value, file = sections[first]
    for part in rest:
        if not isinstance(value.data, dict) or part not in value.data:
            break
        value = value.data[part]
    return error.at(f"{file}:{value.line}: {error.key}") if value.line else error


class Entries:
    """The entries of a mapping, by key; `prefix` is its own dotted key. Raises ConfigError for an unknown key.

    `elsewhere` has the dotted keys of other sections, by their last parts.
    """

    def __init__(
        self, value: Value, prefix: str, known: Sequence[str], elsewhere: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.prefix = prefix
        if not isinstance(value.data, dict):
            raise ConfigError(f"must hold `key: value` lines, not {shown(value.plain())}", prefix)
        self.values = {key: entry for key, entry in value.data.items() if entry.data is not None}
        for key in value.data:
            if key not in known:
                near = elsewhere.get(key) or nearest_key(key, known)
                hint = f"did you mean {near!r}? " if near else ""
                raise ConfigError(f"unknown key; {hint}known here are {', '.join(known)}", self.key(key))

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def key(self, key: str) -> str:
        return f"{self.prefix}.{key}"

    def plain(self, key: str, default: Any = None) -> Any:
        """Return an entry without lines, or the default."""
        return self.values[key].plain() if key in self.values else default

    def number(self, key: str, default: Any = None) -> Any:
        """Return an entry in which no text counts as the number that it spells, or the default.

        A number that is not whole is rounded. Raises ConfigError for one that is too small or too large.
        """
        value = only_numbers(self.plain(key)) if key in self.values else default
        if not isinstance(value, (float, Decimal)):
            return value
        try:
            counted = rounding_of(value)
        except OutOfLimits as error:
            raise ConfigError(f"{shown(value)} {error}", self.key(key)) from None
        return value if counted is None else plain(counted)

    def needed(self, key: str, what: str) -> Any:
        """Return an entry that must be there; `what` says of what it is the number."""
        if key not in self.values:
            raise ConfigError(f"is missing: {what}", self.key(key))
        return self.number(key)

"""The algorithm that a config asks for: a name, or one name with its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.shapes import Label
from pipesched.schedulers import options as known
from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import family

if TYPE_CHECKING:
    from pipesched.text.yaml_reader import Value

NONE: Mapping[str, Any] = MappingProxyType({})


class Algorithm(NamedTuple):
    """The name and options of a family. `locations[option]` says where an option stands: `file:line: key`."""

    name: str
    options: Mapping[str, Any] = NONE
    locations: Mapping[str, str] = NONE

    def overridden(self, options: Mapping[str, Any]) -> Algorithm:
        """Return this algorithm with `options`, which stand in no file, on top of its own."""
        locations = {option: where for option, where in self.locations.items() if option not in options}
        return Algorithm(self.name, {**self.options, **options}, locations)

    def or_named(self, name: str | Callable[..., Any] | None, options: Mapping[str, Any]) -> Algorithm:
        """Return this algorithm with `options` on top, or another that `name` means with these alone."""
        other = self.name if name is None else family(name).name
        return (self if other == self.name else Algorithm(other)).overridden(options)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let an error in an option of the file, inside the block, say where it stands."""
        try:
            yield
        except ConfigError as error:
            where = self.locations.get(error.key or "")
            if error.where or where is None:
                raise
            raise error.at(where) from None


def read_algorithm(value: Value, file: str) -> Algorithm:
    """Return the algorithm that the key `algorithm` holds. Raises ConfigError with the file and the line."""
    where = f"{file}:{value.line}: algorithm"
    if isinstance(value.data, str):
        return Algorithm(_family(value.data, where).name)
    if not isinstance(value.data, dict) or len(value.data) != 1:
        form = "a name, or one name with its options: {interleaved: {group_size: 8}}"
        names = f"{len(value.data)} names" if isinstance(value.data, dict) else shown(value.plain())
        raise ConfigError(f"{where}: must be {form}, not {names}")
    [(name, options)] = value.data.items()
    chosen = _family(name, f"{file}:{options.line}: algorithm")
    if options.data is None:
        return Algorithm(chosen.name)
    where = f"{file}:{options.line}: algorithm.{name}"
    if not isinstance(options.data, dict):
        raise ConfigError(f"{where}: must hold `option: value` lines, not {shown(options.plain())}")
    given = {key: entry for key, entry in options.data.items() if entry.data is not None}
    locations = {key: f"{file}:{entry.line}: algorithm.{name}.{key}" for key, entry in given.items()}
    shapes = {key: known.OPTIONS[key].shape if key in known.OPTIONS else Label() for key in given}
    asked = Algorithm(chosen.name, {key: shapes[key].in_file(e.plain()) for key, e in given.items()}, locations)
    with asked.located():
        for key, option in asked.options.items():
            known.checked_option(chosen, key, option)
    return asked


def _family(name: str, where: str) -> Family:
    try:
        return family(name, loads=False)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.message}") from None

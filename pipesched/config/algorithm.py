"""The algorithm that a config asks for: a name, or one name with its options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.config.fields import ALGORITHM_BY_KEY, COUNT, FLAG, TEXT, WHOLE
from pipesched.errors import ConfigError
from pipesched.lookup import find
from pipesched.pipeline.quantities import exact, shown
from pipesched.schedulers.family import Family
from pipesched.schedulers.registry import family

if TYPE_CHECKING:
    from pipesched.config.yaml_reader import Value

NONE: Mapping[str, Any] = MappingProxyType({})


class Algorithm(NamedTuple):
    """A family's name and options. `places[option]` is where an option stands: `file:line: key`."""

    name: str
    options: Mapping[str, Any] = NONE
    places: Mapping[str, str] = NONE

    def overridden(self, options: Mapping[str, Any]) -> Algorithm:
        """With these options on top, which stand in no file."""
        places = {option: place for option, place in self.places.items() if option not in options}
        return Algorithm(self.name, {**self.options, **options}, places)

    def or_named(self, name: str | None, options: Mapping[str, Any]) -> Algorithm:
        """This one with `options` on top, or the algorithm of another name with `options` alone.

        Raises ConfigError for an unknown name.
        """
        other = self.name if name is None else family(name).name
        return (self if other == self.name else Algorithm(other)).overridden(options)

    @contextmanager
    def located(self) -> Iterator[None]:
        """An error in an option of the file says where it stands."""
        try:
            yield
        except ConfigError as error:
            option, bracket, rest = (error.key or "").partition("[")
            if option not in self.places:
                raise
            raise type(error)(f"{self.places[option]}{bracket}{rest}: {error}", error.key) from None


def read_algorithm(value: Value, file: str) -> Algorithm:
    """The value of the key `algorithm`. Raises ConfigError with the file and the line."""
    where = f"{file}:{value.line}: algorithm"
    if isinstance(value.data, str):
        return Algorithm(_family(value.data, where).name)
    if not isinstance(value.data, dict) or len(value.data) != 1:
        form = "a name, or one name with its options: {interleaved: {group_size: 8}}"
        raise ConfigError(f"{where}: must be {form}, not {_listed(value)}")
    [(name, options)] = value.data.items()
    one = _family(name, f"{file}:{options.line}: algorithm")
    if options.data is None:
        return Algorithm(one.name)
    where = f"{file}:{options.line}: algorithm.{name}"
    if not isinstance(options.data, dict):
        raise ConfigError(f"{where}: must hold `option: value` lines, not {shown(options.plain())}")
    given = {key: entry for key, entry in options.data.items() if entry.data is not None}
    places = {key: f"{file}:{entry.line}: algorithm.{name}.{key}" for key, entry in given.items()}
    asked = Algorithm(one.name, {key: entry.plain() for key, entry in given.items()}, places)
    with asked.located():
        for key, option in asked.options.items():
            _check(one, key, option)
    return asked


def _listed(value: Value) -> str:
    """What stands there instead, on one line."""
    return f"{len(value.data)} names" if isinstance(value.data, dict) else shown(value.plain())


def _family(name: str, where: str) -> Family:
    try:
        return family(name)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check(one: Family, key: str, value: Any) -> None:
    """Raise ConfigError for an option that the family does not have, or a value of the wrong type.

    Lists of numbers, and names of rules, are for the family to judge.
    """
    if not one.options:
        raise ConfigError(f"{one.name} has no options", key)
    find(dict.fromkeys(one.options), key, f"option of {one.name}", key)
    shape = ALGORITHM_BY_KEY[key].shape
    if shape == FLAG and not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {shown(value)}", key)
    if shape == TEXT and not isinstance(value, str):
        raise ConfigError(f"must be a word, not {shown(value)}", key)
    if shape in (COUNT, WHOLE) and not _is_whole(value, least=int(shape == COUNT)):
        raise ConfigError(f"must be a whole number of at least {int(shape == COUNT)}, not {shown(value)}", key)


def _is_whole(value: Any, least: int) -> bool:
    try:
        number = exact(value)
    except ValueError:
        return False
    return number.denominator == 1 and number >= least

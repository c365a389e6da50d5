"""Units of measure: "250us" and "80GB" are exact numbers in the units of a problem, where those are known.

Users give numbers of any kind, or their texts, one or a list of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from difflib import get_close_matches
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.errors import ConfigError, Place
from pipesched.pipeline.quantities import (
    DECIMAL,
    MOST_DIGITS,
    Exact,
    OutOfLimits,
    canonical,
    exact,
    in_range,
    is_scalar,
    no_number,
    plain_numbers,
    require_limits,
    rounded,
    to_fraction,
)

MICRO = ("µs", "μs")  # the sign, and the Greek letter
_MEASURED = re.compile(rf"({DECIMAL})\s*([A-Za-z]+|{'|'.join(MICRO)})", re.ASCII)


class Dimension(NamedTuple):
    """What a number measures: a noun, the key of a config that names its unit, and the size of each known unit.

    `spellings` are other labels of the units, in small letters. `becomes_ticks`: numbers are decimals in the unit of a
    problem too, as large as a user may write, because they become ticks.
    """

    noun: str
    key: str
    units: Mapping[str, Fraction]
    spellings: Mapping[str, str]
    becomes_ticks: bool

    def unit_of(self, label: str) -> str | None:
        """Return the known unit that a label means, None for any other label."""
        return label if label in self.units else self.spellings.get(label.strip().lower())


TIME = Dimension(
    "a time",
    "time_unit",
    {name: Fraction(1, 10**places) for name, places in (("ns", 9), ("us", 6), ("ms", 3), ("s", 0))},
    {
        **{name: name for name in ("ns", "us", "ms", "s")},
        **dict.fromkeys(("nsec", "nanosecond", "nanoseconds"), "ns"),
        **dict.fromkeys((*MICRO, "usec", "microsecond", "microseconds"), "us"),
        **dict.fromkeys(("msec", "millisecond", "milliseconds"), "ms"),
        **dict.fromkeys(("sec", "second", "seconds"), "s"),
    },
    becomes_ticks=True,
)
MEMORY = Dimension(
    "memory",
    "memory.unit",
    {
        **{name: Fraction(1000**power) for power, name in enumerate(("B", "kB", "MB", "GB", "TB"))},
        **{name: Fraction(1024**power) for power, name in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)},
    },
    dict.fromkeys(("byte", "bytes"), "B"),
    becomes_ticks=False,
)
DIMENSIONS = (TIME, MEMORY)


class Unit(NamedTuple):
    """What the numbers of a problem measure, and the label that the problem gives to their unit."""

    dimension: Dimension
    label: str


def has_unit(value: object) -> bool:
    """Return whether a value is the text of a number with something like a unit behind it."""
    return isinstance(value, str) and _MEASURED.fullmatch(value.strip()) is not None


def rounding_of(value: object) -> Fraction | None:
    """Return what a number, or the text of one, which may have a unit, counts as where it has too many digits.

    None for what is no number. Raises OutOfLimits.
    """
    number = _split(value)[0] if isinstance(value, str) else value
    try:
        written = to_fraction(number)
    except OutOfLimits:
        raise
    except ValueError:
        return None
    counted = exact(number)
    return None if counted == written else counted


def read_number(value: object, unit: Unit | None, key: str, entry: Place | None = None) -> Fraction:
    """Return the exact number of a value, which may have a unit of its own: "250us" is 0.25 where the unit is ms.

    Raises ConfigError, about `key` and its `entry`.
    """
    try:
        if unit is None or not isinstance(value, str) or not has_unit(value):
            return exact(value)
        return _converted(value, unit)
    except OutOfLimits as error:
        raise ConfigError(f"{shown(value)} {error}", key, entry=entry) from None
    except ValueError as error:
        raise ConfigError(no_number(value, error), key, entry=entry) from None
    except ConfigError as error:
        raise ConfigError(error.message, key, entry=entry) from None


def _converted(text: str, unit: Unit) -> Fraction:
    """Return the number of a text with a unit, in the unit of the problem. Raises ConfigError, ValueError."""
    dimension, label = unit
    number, name = _split(text)
    own = _known_unit(name, text, dimension)
    target = dimension.unit_of(label)
    if target is None:
        said = f"`{dimension.key}` is {shown(label)}" if label else f"no `{dimension.key}` is given"
        raise ConfigError(
            f"{shown(text)} is in {own}, but {said}: give {dimension.key}: {own}, or write a plain number"
        )
    converted = exact(number) * dimension.units[own] / dimension.units[target]
    if not dimension.becomes_ticks:
        return in_range(converted)
    try:
        require_limits(converted)
    except OutOfLimits as error:
        raise ConfigError(f"{shown(text)} {error} (in {target}); choose another `{dimension.key}`") from None
    return rounded(converted)


def _split(text: str) -> tuple[str, str]:
    parts = _MEASURED.fullmatch(text.strip())
    return (parts[1], parts[parts.lastindex or 0]) if parts else (text, "")


def _known_unit(name: str, text: str, dimension: Dimension) -> str:
    """Return the unit of that name; `µs` is us. Raises ConfigError for an unknown one, and for one of another kind."""
    if name in dimension.units:
        return name
    if name in MICRO and dimension is TIME:
        return "us"
    for other in DIMENSIONS:
        if other is not dimension and (name in other.units or (name in MICRO and other is TIME)):
            raise ConfigError(f"must be {dimension.noun}, not {shown(text)}, which is {other.noun}")
    by_letters = {unit.lower(): unit for unit in dimension.units}
    close = get_close_matches(name.lower(), by_letters, n=1, cutoff=0.5)
    near = dimension.spellings.get(name.lower()) or (by_letters[close[0]] if close else None)
    hint = f"did you mean {near!r}? " if near else ""
    raise ConfigError(f"{shown(text)} has the unknown unit {name!r}; {hint}known are {', '.join(dimension.units)}")


NOT_SEVERAL = (str, bytes, bytearray, Mapping, Set)  # these can be looped over, and are no lists


def is_several(value: Any) -> bool:
    """Return whether a value is a list of some kind (also one of numpy's), not a number, a text or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, NOT_SEVERAL) and not is_scalar(value)


def is_listed(value: Any) -> bool:
    """Return whether a value is a list whose length is known."""
    return is_several(value) and isinstance(value, Sized)


def first_entries(values: Iterable[Any], most: int) -> list[Any]:
    """Return the entries of a list of some kind; of a longer one than `most`, which may be endless, one more."""
    return list(islice(values, most + 1))


def length_text(values: Iterable[Any], read: Sequence[Any], most: int) -> str:
    """Return as text how many entries `values` have, of which `first_entries` has `read` these."""
    if isinstance(values, (list, tuple)):
        return str(len(values))
    return str(len(read)) if len(read) <= most else "more"


def count_of(key: str, value: Any) -> int:
    """Return a whole number of at least 1, which is never rounded. Raises ConfigError, about `key`."""
    try:
        number = to_fraction(value)
        require_limits(number)
    except ValueError as error:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)} ({error})", key) from None
    if number.denominator != 1 or number < 1:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)}", key)
    return int(number)


def exact_number(
    key: str,
    value: Any,
    unit: Unit | None,
    most: int | None = None,
    *,
    positive: bool = False,
    entry: Place | None = None,
) -> Fraction:
    """Return a number from 0 on (`positive`: above it), at most `most`, in a unit; it may name one of its own.

    Raises ConfigError, about `key` and its `entry`.
    """
    number = read_number(value, unit, key, entry)
    if number < 0 or (positive and not number) or (most is not None and number > most):
        allowed = "more than 0" if positive else "at least 0" if most is None else f"between 0 and {most}"
        raise ConfigError(f"must be {allowed}, not {shown(value)}", key, entry=entry)
    return number


def exact_numbers(
    key: str, value: Any, count: int, each: str, unit: Unit | None, most: int | None = None, *, positive: bool = False
) -> tuple[Exact, ...]:
    """Return `count` numbers of a unit: from a list of so many, or one number for all; `each` says what has one.

    Raises ConfigError, about `key` and the entry at fault.
    """
    if not is_several(value):
        return (canonical(exact_number(key, value, unit, most, positive=positive)),) * count
    entries = first_entries(value, count)
    if len(entries) != count:
        found = length_text(value, entries, count)
        raise ConfigError(f"a list here needs {count} numbers ({each}); this one has {found}", key)
    return listed_numbers(key, entries, unit, most, positive=positive)


def listed_numbers(
    key: str,
    values: Sequence[Any],
    unit: Unit | None,
    most: int | None = None,
    *,
    positive: bool = False,
    row: tuple[int, ...] = (),
) -> tuple[Exact, ...]:
    """Return the numbers of a list, or of the `row` of a table, as `exact_number` reads them."""
    known = plain_numbers(values, MOST_DIGITS)
    if known is not None and (most is None or max(known) <= most) and not (positive and 0 in known):
        return known
    places = [(*row, entry) if row else entry for entry in range(len(values))]
    return tuple(
        canonical(exact_number(key, value, unit, most, positive=positive, entry=place))
        for value, place in zip(values, places, strict=True)
    )

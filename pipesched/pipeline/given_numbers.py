"""What a user gives for a number or a list of them: numbers of any kind, or their texts, which may have units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from fractions import Fraction
from itertools import islice
from typing import Any

from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.quantities import Exact, canonical, exact, is_scalar
from pipesched.pipeline.units_of_measure import Unit, read_number

NOT_SEVERAL = (str, bytes, bytearray, Mapping, Set)  # these can be looped over, and are no lists


def is_several(value: Any) -> bool:
    """Return whether a value is a list of some kind (also one of numpy's), not a number, a text or a mapping."""
    return isinstance(value, Iterable) and not isinstance(value, NOT_SEVERAL) and not is_scalar(value)


def first_entries(values: Iterable[Any], most: int) -> list[Any]:
    """Return the entries of a list of some kind; of a longer one than `most`, which may be endless, one more."""
    return list(islice(values, most + 1))


def length_text(values: Iterable[Any], read: Sequence[Any], most: int) -> str:
    """Return as text how many entries `values` have, of which `first_entries` has `read` these."""
    if isinstance(values, (list, tuple)):
        return str(len(values))
    return str(len(read)) if len(read) <= most else "more"


def count_of(key: str, value: Any) -> int:
    """Return a whole number of at least 1. Raises ConfigError, about `key`."""
    try:
        number = exact(value)
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
    entry: int | None = None,
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
    numbers = (
        exact_number(key, given, unit, most, positive=positive, entry=entry) for entry, given in enumerate(entries)
    )
    return tuple(map(canonical, numbers))

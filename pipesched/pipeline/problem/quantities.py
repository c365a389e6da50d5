"""Exact numbers: what users write as decimals, perhaps with a unit (250us), becomes integers, and back without loss.

`exact_number` and `exact_numbers` read what users give: numbers of any kind, or their texts, one or a list of them.
`in_units` goes back. Times are scaled by the smallest power of ten that makes every user value whole (ticks). Memory by
the least common multiple of the denominators (grains), since the default activation P/S may be a third.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from fractions import Fraction
from itertools import islice
from math import ceil, floor, gcd, isnan, lcm
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.errors import ConfigError, Place

NOT_A_NUMBER = "not a number"
MOST_DIGITS = 9  # that tell, of a number that users write or read: more are rounded
LEAST_WRITTEN, MOST_WRITTEN = Fraction(1, 10**9), Fraction(10**12)  # magnitudes that users may write, beside 0
SHORT = 12  # digits of a decimal that is no rounded fraction: those have 16 or 17
NINE_DECIMALS, MANY_DECIMALS, SIX_DIGITS = 10**9, 10**400, 10**6  # no float has as many
LARGEST_BINARY = 2**40  # denominator: a B in TiB
LARGEST = 10**100  # of the numbers of a problem: a float holds all that is made of them
FARTHEST = 4_000  # the largest exponent: numbers beyond are mistakes, and take very long to write out
DECIMAL = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_COMMA = "'-?[0-9]+,[0-9]+[^,]*'"  # as messages show it
_FRACTION = "([-+]?[0-9]{1,18})/(0*[1-9][0-9]{0,17})"


class OutOfLimits(ValueError):
    """A number is too small or too large to be one of a problem; the text says so, with the limit."""

    def __init__(self, *, large: bool) -> None:
        super().__init__("is too large: at most 1e12" if large else "is too small: at least 1e-9, or 0")


Number = int | float | Decimal | Fraction | str  # what a user may give: a number, or the text of one
Exact = int | float | Fraction  # what Costs and Memory hold: an int where whole, a float where exact, else a fraction


def to_fraction(value: object) -> Fraction:
    """Return the exact value of a number; a float counts as its shortest decimal text.

    Numbers of other libraries (numpy's, say) count as what they are, and so does an array without dimensions. Raises
    ValueError for what is no finite number.
    """
    if type(value) is int:
        return Fraction(value)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        parts = re.fullmatch(_FRACTION, value.strip())
        return Fraction(int(parts[1]), int(parts[2])) if parts else Fraction(parse_number(value.strip()))
    if not isinstance(value, (Real, Decimal)) and is_scalar(value):
        value = value.item()  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise ValueError(NOT_A_NUMBER)
    if isinstance(value, (Integral, Rational)):
        return Fraction(int(value.numerator), int(value.denominator))
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not number.is_finite():
        raise ValueError("not a finite number")
    if number and abs(number.adjusted()) > FARTHEST:
        raise OutOfLimits(large=number.adjusted() > 0)
    return Fraction(number)


def plain_numbers(values: Sequence[object], most_digits: int | None = None) -> tuple[Exact, ...] | None:
    """Return many numbers in their plainest form at once; None unless all are ints and floats that users may write.

    With `most_digits` none has more of them, so that it need not be rounded.
    """
    kinds = {*map(type, values)}
    if not values or not kinds <= {int, float}:
        return None
    numbers: Sequence[Exact] = values  # type: ignore[assignment]
    if not (min(numbers) >= 0 and max(numbers) <= MOST_WRITTEN) or isnan(sum(numbers)):
        return None
    if kinds == {int} and (most_digits is None or max(numbers) < 10**most_digits):
        return tuple(numbers)
    distinct = {*numbers}
    if min(distinct - {0}, default=1) < LEAST_WRITTEN:
        return None
    if most_digits is not None and any(float(f"{one:.{most_digits}g}") != one for one in distinct):
        return None
    whole = {one: int(one) for one in distinct if one == int(one)}
    return tuple([whole.get(one, one) for one in numbers])


def in_one_scale(values: Iterable[Exact]) -> tuple[list[int], int]:
    """Return numbers as multiples of 1/scale, and the least scale for which they are."""
    numbers = [*values]
    kinds = {*map(type, numbers)}
    if kinds <= {int}:
        return numbers, 1  # type: ignore[return-value]
    # a float is the nearest one to just one decimal of at most 15 digits, which is its text
    for places in range(1, MOST_DIGITS + 1) if kinds <= {int, float} else ():
        scale = 10**places
        if max(numbers) * scale >= 10**15:
            break
        if all(round(number * scale) / scale == number for number in numbers):
            ints = [round(number * scale) for number in numbers]
            common = gcd(scale, *ints)
            return [one // common for one in ints] if common > 1 else ints, scale // common
    known = {number: to_fraction(number) for number in {*numbers}}
    scale = lcm(1, *{one.denominator for one in known.values()})
    wholes = {number: one.numerator * (scale // one.denominator) for number, one in known.items()}
    return [wholes[number] for number in numbers], scale


def is_scalar(value: object) -> bool:
    """Return whether a value is an array without dimensions (numpy.array(4), say), which holds one value."""
    return getattr(value, "ndim", None) == 0 and callable(getattr(value, "item", None))


def exact(value: object) -> Fraction:
    """Return the value of a number that a user wrote, rounded half up to MOST_DIGITS digits; a fraction as it is.

    Raises ValueError with what is wrong: not a number, not finite, or OutOfLimits.
    """
    number = to_fraction(value)
    if isinstance(value, Fraction):
        return in_range(number)
    require_limits(number)
    return number if isinstance(value, str) and "/" in value else rounded(number)


def require_limits(number: Fraction) -> None:
    """Raise OutOfLimits for a number that is smaller or larger than a user may write."""
    if number and not LEAST_WRITTEN <= abs(number) <= MOST_WRITTEN:
        raise OutOfLimits(large=abs(number) > 1)


def rounded(number: Fraction, *, up: bool = False) -> Fraction:
    """Return a number rounded half up to MOST_DIGITS significant digits; with `up` to the next one that is no less."""
    if number.denominator == 1 and abs(number.numerator) < 10**MOST_DIGITS:
        return number
    size = abs(number)
    first = len(str(size.numerator)) - len(str(size.denominator))  # the power of the first digit, or one more
    first -= size < Fraction(10) ** first
    unit = Fraction(10) ** (first - MOST_DIGITS + 1)
    whole = (ceil(size / unit) if up else floor(size / unit + Fraction(1, 2))) * unit
    return whole if number > 0 else -whole


def in_range(number: Fraction) -> Fraction:
    """Return a number of a problem. Raises ValueError for one that is too large to compute with."""
    if abs(number.numerator) > LARGEST * number.denominator:
        raise ValueError("out of range")
    return number


def no_number(value: object, error: ValueError) -> str:
    """Return what is said of a value that is no number, and where the error says more than that, why."""
    why = "" if str(error) == NOT_A_NUMBER else f" ({error})"
    if re.fullmatch(_COMMA, shown(value)):
        why = " (a decimal has a point, not a comma)"
    return f"must be a number, not {shown(value)}{why}"


def parse_number(text: str) -> Decimal:
    """Return the decimal that `text` spells. Raises ValueError."""
    if not re.fullmatch(DECIMAL, text):
        raise ValueError(NOT_A_NUMBER)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise OutOfLimits(large="e-" not in text.lower()) from None
    if number and abs(number.adjusted()) > FARTHEST:  # its digits could hardly be written out
        raise OutOfLimits(large=number.adjusted() > 0)
    return number


def simplest(value: Decimal) -> Fraction:
    """Return the number that was written to a document as a decimal.

    That is the decimal itself if it is short, as users' values and their sums are. Else the fraction of the smallest
    denominator (up to 2^26) with that float: a third that was written to JSON is a third again. A part of a power of
    two (a kB in GiB, say) is a float itself, up to 2^40.
    """
    if len(value.as_tuple().digits) > SHORT:
        binary = Fraction(float(value))
        if binary.denominator <= LARGEST_BINARY:
            return binary
        near = Fraction(float(value)).limit_denominator(2**26)
        if float(near) == float(value):
            return near
    return Fraction(value)


def canonical(value: Fraction) -> Exact:
    """Return the exact number in its plainest form: an int where whole, a float where that is exact, else itself."""
    if value.denominator == 1:
        return value.numerator
    number = value.numerator / value.denominator
    if NINE_DECIMALS % value.denominator == 0 and abs(number) < SIX_DIGITS:
        return number  # of fifteen digits at most, which are the shortest text of the float
    return number if MANY_DECIMALS % value.denominator == 0 and to_fraction(number) == value else value


def ticks_per_unit(values: Iterable[Fraction]) -> int:
    """Return the smallest power of ten that makes every value whole. Raises ValueError for what is no decimal."""
    scale = 1
    for value in values:
        tens = (10**power for power in range(value.denominator.bit_length()))
        own = next((one for one in tens if one % value.denominator == 0), None)
        if own is None:
            raise ValueError(f"{value} is no decimal")
        scale = max(scale, own)
    return scale


def grains_per_unit(values: Iterable[Fraction]) -> int:
    """Return the least common multiple of the denominators of `values`."""
    return lcm(1, *(value.denominator for value in values))


def whole(values: Iterable[Exact], scale: int) -> tuple[int, ...]:
    """Return numbers in units of which `scale` are one of theirs, and which make them whole."""
    return tuple(int(to_fraction(value) * scale) for value in values)


def plain(value: Exact) -> int | float:
    """Return the number as users read it: an int when whole, else the nearest float."""
    if not isinstance(value, Fraction):
        return value
    return value.numerator if value.denominator == 1 else value.numerator / value.denominator


def in_units(amount: int, scale: int) -> int | float:
    """Return `amount` of 1/scale units as users read it."""
    whole, rest = divmod(amount, scale)
    return whole if not rest else amount / scale


MICRO = ("µs", "μs")  # the sign, and the Greek letter
_MEASURED = rf"({DECIMAL})\s*([A-Za-z]+|{'|'.join(MICRO)})"


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
    return isinstance(value, str) and re.fullmatch(_MEASURED, value.strip(), re.ASCII) is not None


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
    own = "us" if name in MICRO and dimension is TIME else name
    if own not in dimension.units:
        for other in DIMENSIONS:
            if other is not dimension and (name in other.units or (name in MICRO and other is TIME)):
                raise ConfigError(f"must be {dimension.noun}, not {shown(text)}, which is {other.noun}")
        by_letters = {unit.lower(): unit for unit in dimension.units}
        close = get_close_matches(name.lower(), by_letters, n=1, cutoff=0.5)
        near = dimension.spellings.get(name.lower()) or (by_letters[close[0]] if close else None)
        hint = f"did you mean {near!r}? " if near else ""
        raise ConfigError(f"{shown(text)} has the unknown unit {name!r}; {hint}known are {', '.join(dimension.units)}")
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
    parts = re.fullmatch(_MEASURED, text.strip(), re.ASCII)
    return (parts[1], parts[parts.lastindex or 0]) if parts else (text, "")


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
    if type(value) is int and 1 <= value <= MOST_WRITTEN:
        return value
    try:
        number = to_fraction(value)
        require_limits(number)
    except ValueError as error:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)} ({error})", key) from None
    if number.denominator != 1 or number < 1:
        raise ConfigError(f"must be a whole number of at least 1, not {shown(value)}", key)
    return int(number)


def exact_number(
    key: str, value: Any, unit: Unit | None, most: int | None = None, *, above: bool = False, entry: Place | None = None
) -> Fraction:
    """Return a number from 0 on (`above`: above it), at most `most`, in a unit; it may name one of its own.

    Raises ConfigError, about `key` and its `entry`.
    """
    number = read_number(value, unit, key, entry)
    if number.numerator < 0 or (above and not number) or (most is not None and number > most):
        allowed = "more than 0" if above else "at least 0" if most is None else f"between 0 and {most}"
        raise ConfigError(f"must be {allowed}, not {shown(value)}", key, entry=entry)
    return number


def exact_numbers(
    key: str,
    value: Any,
    count: int,
    each: str,
    unit: Unit | None,
    most: int | None = None,
    *,
    above: bool = False,
    microbatches: int | None = None,
) -> tuple[Any, ...]:
    """Return `count` numbers of a unit: from a list of so many, or one number for all; `each` says what has one.

    With `microbatches` an entry may list one for each of them. Raises ConfigError, about `key` and the entry at fault.
    """
    if not is_several(value):
        return listed_numbers(key, [value], unit, most, above=above, row=None) * count
    entries = first_entries(value, count)
    rows = [] if microbatches is None else [is_several(entry) for entry in entries]
    if len(entries) != count:
        what, found = "entries" if any(rows) else "numbers", length_text(value, entries, count)
        raise ConfigError(f"a list here needs {count} {what} ({each}); this one has {found}", key)
    if microbatches is None or not any(rows):
        return listed_numbers(key, entries, unit, most, above=above)
    table = list[Any]()
    for entry, (row, is_row) in enumerate(zip(entries, rows, strict=True)):
        if not is_row:
            table.append(canonical(exact_number(key, row, unit, entry=entry)))
            continue
        numbers = first_entries(row, microbatches)
        if len(numbers) != microbatches:
            what = f"{microbatches} numbers (one a microbatch); this row has {length_text(row, numbers, microbatches)}"
            raise ConfigError(f"needs {what}", key, entry=entry)
        exact = listed_numbers(key, numbers, unit, row=(entry,))
        table.append(exact[0] if len({*exact}) == 1 else exact)
    return tuple(table)


def listed_numbers(
    key: str,
    values: Sequence[Any],
    unit: Unit | None,
    most: int | None = None,
    *,
    above: bool = False,
    row: tuple[int, ...] | None = (),
) -> tuple[Exact, ...]:
    """Return the numbers of a list, of the `row` of a table, or where that is None the only one, by `exact_number`."""
    known = plain_numbers(values, MOST_DIGITS)
    if known is not None and (most is None or max(known) <= most) and not (above and 0 in known):
        return known
    places = [None if row is None else (*row, entry) if row else entry for entry in range(len(values))]
    return tuple(
        canonical(exact_number(key, value, unit, most, above=above, entry=place))
        for value, place in zip(values, places, strict=True)
    )

"""Exact numbers: what users write as decimals becomes integers, and goes back without loss.

Times are scaled by the smallest power of ten that makes every user value whole (ticks); memory by the least common
multiple of the denominators (grains), since the default activation P/S may be a third.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import lcm

MOST_DIGITS = 9
SHORT = 12  # digits of a decimal that is no rounded fraction: those have 16 or 17
FARTHEST = 4_000  # exponents beyond are no numbers that anybody means, and take forever to write out
_DECIMAL = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
Number = int | float | Decimal | Fraction


def exact(value: Number) -> Fraction:
    """The exact value of a number that a user wrote; a float counts as its shortest decimal text.

    Raises ValueError with what is wrong: not a number, not finite, or more than MOST_DIGITS digits.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError("not a number")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError("not a finite number")
    if number and not -MOST_DIGITS <= number.adjusted() < MOST_DIGITS:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    fraction = Fraction(number)
    whole = len(str(abs(int(fraction)))) if abs(fraction) >= 1 else 0
    if (fraction * 10 ** (MOST_DIGITS - whole)).denominator != 1:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    return fraction


def parse_number(text: str) -> Decimal:
    """The decimal that `text` spells. Raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("out of range") from None
    if number and abs(number.adjusted()) > FARTHEST:
        raise ValueError("out of range")
    return number


def simplest(value: Decimal) -> Fraction:
    """What a decimal of a document was written for.

    That is the decimal itself if it is short, as users' values and their sums are; else the fraction of fewest parts
    (up to 2^26) with that float: a third that was written to JSON is a third again.
    """
    if len(value.as_tuple().digits) > SHORT:
        near = Fraction(float(value)).limit_denominator(2**26)
        if float(near) == float(value):
            return near
    return Fraction(value)


def shown(value: object) -> str:
    """A value as it stands in a message: on one line, and not long."""
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(shown, value[:12]))}]"
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def ticks_per_unit(values: Iterable[Fraction]) -> int:
    """The smallest power of ten that makes every value whole. Raises ValueError for a value that is no decimal."""
    scale = 1
    for value in values:
        rest = value.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        if rest != 1:
            raise ValueError(f"{value} is no decimal")
        while (value * scale).denominator != 1:
            scale *= 10
    return scale


def grains_per_unit(values: Iterable[Fraction]) -> int:
    """The least common multiple of the denominators of `values`."""
    return lcm(1, *(value.denominator for value in values))


def plain(value: Fraction) -> int | float:
    """The number as users read it: an int when whole, else the nearest float."""
    return value.numerator if value.denominator == 1 else value.numerator / value.denominator


def in_units(amount: int, scale: int) -> int | float:
    """`amount` of 1/scale units as users read it."""
    whole, rest = divmod(amount, scale)
    return whole if not rest else amount / scale

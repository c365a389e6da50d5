"""Exact numbers: what users write as decimals becomes integers, and goes back without loss.

Times are scaled by the smallest power of ten that makes every user value whole (ticks); memory by the least common
multiple of the denominators (grains), since the default activation P/S may be a third.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import lcm

MOST_DIGITS = 9
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
    if not -MOST_DIGITS <= number.adjusted() <= MOST_DIGITS and number:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    _, digits, exponent = number.normalize().as_tuple()
    whole = max(len(digits) + int(exponent), 0)
    if whole + max(-int(exponent), 0) > MOST_DIGITS and number:
        raise ValueError(f"more than {MOST_DIGITS} digits")
    return Fraction(number)


def parse_number(text: str) -> Decimal:
    """The decimal that `text` spells. Raises ValueError."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    return Decimal(text)


def simplest(value: float) -> Fraction:
    """The simplest fraction that `value` is the nearest float of: a third that was written to JSON is a third again."""
    near = Fraction(value).limit_denominator(1_000_000)
    return near if float(near) == value else Fraction(Decimal(repr(value)))


def shown(value: object) -> str:
    """A value as it stands in a message: on one line, and not long."""
    if isinstance(value, (list, tuple)):
        text = f"[{', '.join(map(shown, value[:12]))}]"
    else:
        text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def ticks_per_unit(values: Iterable[Fraction]) -> int:
    """The smallest power of ten that makes every value whole (values must be decimals)."""
    scale = 1
    for value in values:
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

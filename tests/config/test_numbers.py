"""Exact numbers: user decimals become integers and come back without loss."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from pipesched.pipeline.problem.quantities import (
    OutOfLimits,
    exact,
    grains_per_unit,
    in_units,
    parse_number,
    plain,
    simplest,
    ticks_per_unit,
)


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    """A decimal of at most 9 digits, as a user may write it."""
    places = draw(st.integers(0, 9))
    return Decimal(draw(st.integers(0, 10**9 - 1))).scaleb(-places)


@given(decimals())
def test_exact_is_the_same_for_every_spelling(number: Decimal) -> None:
    """A number means the same as Decimal, float, Fraction, text, and as int when it is whole."""
    value = exact(number)
    assert value == Fraction(str(number))
    assert exact(value) == exact(f" {number} ") == exact(f"{value.numerator}/{value.denominator}") == value
    assert exact(float(number)) == value
    assert exact(parse_number(str(number))) == value
    if value.denominator == 1:
        assert exact(int(number)) == value


@given(st.lists(decimals(), min_size=1, max_size=6))
def test_ticks_go_back_to_units(numbers: list[Decimal]) -> None:
    """Scaled to ticks and back, every number is the one that was written, and the scale is a power of ten."""
    values = [exact(number) for number in numbers]
    scale = ticks_per_unit(values)
    assert set(str(scale)[1:]) <= {"0"}
    for number, value in zip(numbers, values, strict=True):
        ticks = value * scale
        assert ticks.denominator == 1
        assert in_units(int(ticks), scale) == float(number)
    assert scale == 1 or any((value * (scale // 10)).denominator > 1 for value in values)


@given(st.lists(st.fractions(0, 100, max_denominator=60), min_size=1, max_size=6))
def test_grains_go_back_to_units(values: list[Fraction]) -> None:
    """Fractions such as thirds become whole grains, and come back from JSON's floats as the same fractions."""
    scale = grains_per_unit(values)
    for value in values:
        grains = value * scale
        assert grains.denominator == 1
        assert simplest(Decimal(repr(in_units(int(grains), scale)))) == value


@given(decimals())
def test_simplest_reads_decimals_back(number: Decimal) -> None:
    """A decimal written as a float is read back as that decimal."""
    assert simplest(Decimal(repr(float(number)))) == Fraction(number)


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        "five",
        "",
        "1/0",
        "1//3",
        "nan",
        [5],
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        1j,
    ],
)
def test_exact_refuses(value: object) -> None:
    """What is no finite number is refused."""
    with pytest.raises(ValueError, match="not a"):
        exact(value)


@given(st.integers(0, 10**24 - 1), st.integers(0, 20))
def test_exact_rounds_half_up(digits: int, places: int) -> None:
    """A number of more than 9 significant digits is the one of 9 that the decimal module rounds it to."""
    number = Decimal(digits).scaleb(-places)
    if number and not Decimal("1e-9") <= number <= 10**12:
        with pytest.raises(OutOfLimits):
            exact(number)
        return
    assert (
        exact(number) == exact(str(number)) == Fraction(Context(prec=9, rounding=ROUND_HALF_UP).create_decimal(number))
    )


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("0.1234567885", Fraction(123456789, 10**9)),
        ("1.2345678949999", Fraction(123456789, 10**8)),
        ("999999999.95", 10**9),
        ("999999999999.5", 10**12),
        ("1234567895000", None),
        ("0.0000000009999", None),
        ("-1e13", None),
        ("1e-4001", None),
        ("1e400", None),
    ],
)
def test_rounding_and_limits(digits: str, value: int | Fraction | None) -> None:
    """Half a last digit is rounded up; magnitudes outside 1e-9 to 1e12 are refused, whatever they would round to."""
    if value is None:
        with pytest.raises(OutOfLimits, match=r"is too (large: at most 1e12|small: at least 1e-9, or 0)"):
            exact(Decimal(digits))
    else:
        assert exact(Decimal(digits)) == value


def test_floats_count_as_they_print() -> None:
    """Sums of floats lose what they have beyond 9 digits; fractions, which programs compute, keep all."""
    assert exact(0.1 + 0.2) == Fraction(3, 10)
    assert exact(Fraction(1, 3)) == exact("1/3") == Fraction(1, 3)


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("123456789", 123456789),
        ("100000000", 10**8),
        ("1e8", 10**8),
        ("0.000000001", Fraction(1, 10**9)),
        ("12345.6789", Fraction(123456789, 10**4)),
        ("1.50000000000000000000000", Fraction(3, 2)),
        ("0e-500", 0),
        ("-0.0", 0),
    ],
)
def test_exact_accepts_nine_digits(digits: str, value: Fraction) -> None:
    """Nine digits are fine, and zeros at the end do not count."""
    assert exact(Decimal(digits)) == value


@pytest.mark.parametrize(
    "text", ["", " ", ".", "e5", "1e", "1,5", "0x1", "1_0", "--1", "nan", "inf", "١", "1 2", "1/2"]
)
def test_parse_number_refuses(text: str) -> None:
    """Only plain decimals are numbers."""
    with pytest.raises(ValueError, match="not a number"):
        parse_number(text)


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1e-99999999999999999999", "9e9999999999999999999999999"])
def test_parse_number_refuses_an_exponent_out_of_range(text: str) -> None:
    """An exponent that Decimal cannot hold is a ValueError like any other bad number."""
    with pytest.raises(ValueError):  # noqa: PT011  any message will do
        parse_number(text)


@pytest.mark.parametrize(("value", "shown"), [(Fraction(4, 2), 2), (Fraction(1, 4), 0.25), (Fraction(1, 3), 1 / 3)])
def test_plain(value: Fraction, shown: float) -> None:
    """Whole numbers are ints, everything else is the nearest float."""
    assert (plain(value), type(plain(value))) == (shown, type(shown))

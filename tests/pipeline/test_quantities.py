"""Many exact numbers at once, beside each of them alone."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

from hypothesis import given, strategies as st

from pipesched.pipeline.problem.quantities import canonical, exact, in_one_scale, plain_numbers, to_fraction

numbers = st.one_of(
    st.integers(-1, 2 * 10**12),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 100),
    st.decimals(0, 10**6, places=4).map(float),
    st.sampled_from([0.1 + 0.2, 1e-9, 1e-10, -0.0, 123456789.25, 999999999, 1234567890]),
)
shares = st.one_of(
    st.integers(0, 10**6), st.decimals(0, 10**6, places=5).map(float), st.fractions(0, 9), st.floats(0, 9)
)


@given(st.lists(numbers, max_size=5), st.sampled_from([None, 9]))
def test_plain_numbers(values: list[Any], most_digits: int | None) -> None:
    """They are what each is alone, read or rounded; what one of them is refused for is left to others."""
    found = plain_numbers(values, most_digits)
    if found is not None:
        alone = tuple(canonical((to_fraction if most_digits is None else exact)(value)) for value in values)
        assert (found, [*map(type, found)]) == (alone, [*map(type, alone)])


def test_plain_numbers_of_users() -> None:
    """Whole numbers and short decimals are read at once; no others are."""
    assert plain_numbers([3, 0, 0.25, 2.0], 9) == (3, 0, 0.25, 2)
    for value in (1.23456789012, 1234567891, -1, 1e-10, 2e12, True, "1", Fraction(1, 3)):
        assert plain_numbers([1, value], 9) is None


@given(st.lists(shares.filter(lambda one: not isinstance(one, float) or one == 0 or one > 1e-300), max_size=5))
def test_in_one_scale(values: list[Any]) -> None:
    """They are whole multiples of 1/scale, the least scale for which they are."""
    ints, scale = in_one_scale(values)
    exactly = [to_fraction(value) for value in values]
    assert [Fraction(one, scale) for one in ints] == exactly
    assert scale == lcm(1, *(one.denominator for one in exactly))

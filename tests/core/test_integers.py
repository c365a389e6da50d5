"""Whole numbers, rounded up: never less than the exact quotient, and less than one more."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pipesched.core.arrays import ceil_div, round_up

amounts = st.integers(-(10**40), 10**40)  # beyond what floats can tell apart
parts = st.integers(1, 10**20)


@pytest.mark.parametrize(
    ("amount", "parted", "expected"), [(0, 3, 0), (1, 3, 1), (3, 3, 1), (4, 3, 2), (-1, 3, 0), (-4, 3, -1)]
)
def test_some_quotients(amount: int, parted: int, expected: int) -> None:
    assert ceil_div(amount, parted) == expected


@given(amount=amounts, divisor=parts)
def test_the_least_whole_number_that_is_no_less(amount: int, divisor: int) -> None:
    """It is the least q with q * divisor >= amount, of any size."""
    quotient = ceil_div(amount, divisor)
    assert quotient * divisor >= amount > (quotient - 1) * divisor


@given(amount=amounts, quantum=parts)
def test_the_least_multiple_that_is_no_less(amount: int, quantum: int) -> None:
    """A multiple, no less than the amount, by less than one quantum; a multiple is its own."""
    rounded = round_up(amount, quantum)
    assert rounded % quantum == 0
    assert 0 <= rounded - amount < quantum
    assert round_up(rounded, quantum) == rounded

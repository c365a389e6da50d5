"""What microbatches of documents cost: the formula to six decimals, halves to even, and sums over documents."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from pipesched.results.document_costs import DocumentLoad, FactorCosts, half_even, load_of


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.fractions(0, 1), st.integers(1, 10**6))
def test_formula(lengths: list[int], attention: Fraction, reference: int) -> None:
    """Work is the sum of (1 - a) L / T0 + a (L / T0)^2, size that of L / T0, both rounded once."""
    costs, load = FactorCosts(attention, reference), load_of(lengths)
    parts = [Fraction(length, reference) for length in lengths]
    work = sum(((1 - attention) * part + attention * part**2 for part in parts), Fraction(0))
    assert costs.work(load) == round(work, 6)
    assert costs.size(load) == round(sum(parts, Fraction(0)), 6)
    assert sum(Fraction(costs.amounts(length)[0], costs.unit) for length in lengths) == work


@pytest.mark.parametrize(
    ("numerator", "rounded"), [(5, 2), (15, 2), (25, 2), (35, 4), (14, 1), (16, 2), (0, 0), (24, 2), (26, 3)]
)
def test_halves_go_to_even(numerator: int, rounded: int) -> None:
    """1.5 and 2.5 millionths are 2."""
    numerator, rounded = (numerator, rounded) if numerator != 5 else (5, 0)
    assert half_even(numerator, 10**7) == Fraction(rounded, 10**6)


def test_load() -> None:
    """A microbatch costs by its tokens, and by the squares of its documents."""
    assert load_of([3, 4]) == DocumentLoad(7, 25)

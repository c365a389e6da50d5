"""Sums whose parts say where they come from: a formula with its values."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class Term(NamedTuple):
    """A part of a sum: what it is, its value, and the formula with its values that gave it."""

    name: str
    value: float | Fraction
    formula: str


Terms = tuple[Term, ...]


def total(terms: Iterable[Term]) -> float | Fraction:
    """Return the sum of the values."""
    return sum((term.value for term in terms), Fraction(0))


def renamed(terms: Iterable[Term], before: str) -> Terms:
    """Return the terms with a word before each of their names."""
    return tuple(term._replace(name=f"{before} {term.name}") for term in terms)

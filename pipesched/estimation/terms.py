"""Sums whose parts say where they come from: a formula with its values."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

PER_MS = 1000  # times are whole microseconds
PRODUCTS, ATTENTION, TRAFFIC = "matrix products", "attention", "memory traffic"
COMMUNICATION, MESSAGES = "communication in layers", "messages between stages"
LAUNCHES, RECOMPUTE = "kernels and launches", "recompute"
AGAIN = "again: "  # before the name of what is computed again


class Term(NamedTuple):
    """A part of a sum: what it is, value, formula with values, what it counts as, and of how many things."""

    name: str
    value: float | Fraction
    formula: str
    kind: str = ""
    count: int = 1  # type: ignore[assignment]  # in place of tuple.count


Terms = tuple[Term, ...]


def total(terms: Iterable[Term]) -> float | Fraction:
    """Return the sum of the values."""
    return sum((term.value for term in terms), Fraction(0))


def recomputed(terms: Iterable[Term]) -> Terms:
    """Return the terms of what is computed again."""
    return tuple(term._replace(name=f"{AGAIN}{term.name}", kind=RECOMPUTE) for term in terms)

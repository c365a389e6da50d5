"""The quartiles of lengths, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.pipeline.quantities import plain


class Quartiles(NamedTuple):
    """How many lengths there are (`samples`), and their quartiles in units."""

    samples: int
    q1: int | float
    median: int | float
    q3: int | float


def quartiles(lengths: Sequence[int], per_unit: int) -> Quartiles:
    """Return the quartiles of lengths in ticks: between two of them linearly, the ends included (numpy's default)."""
    ordered = sorted(lengths)
    return Quartiles(len(ordered), *(plain(_quantile(ordered, Fraction(part, 4)) / per_unit) for part in (1, 2, 3)))


def _quantile(ordered: Sequence[int], part: Fraction) -> Fraction:
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])

"""Rows of numbers, one a unit: the units of a problem, and exact numbers as whole multiples of the least scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from pipesched.pipeline.costs import Entry
from pipesched.pipeline.quantities import Exact, in_one_scale, to_fraction
from pipesched.pipeline.units import Sizes, Slices

Row = Sequence[int]  # one a unit
ONE = Fraction(1)


class Units(NamedTuple):
    """The M microbatches of a problem, their factors (None: all 1), and their slices."""

    microbatches: int
    sizes: Sizes | None
    slices: Slices

    def factors(self, key: str) -> Sequence[Fraction]:
        """Return a factor of each microbatch: of its work, activation or message."""
        return [ONE] * self.microbatches if self.sizes is None else [*map(to_fraction, getattr(self.sizes, key))]

    def wholes(self, key: str) -> tuple[list[int], int]:
        """Return the same as whole multiples of 1/scale, and the scale."""
        return ([1] * self.microbatches, 1) if self.sizes is None else self.sizes.wholes[key]

    def part(self, microbatches: range) -> slice:
        """Return which units are of these microbatches."""
        return slice(microbatches.start * self.slices.count, microbatches.stop * self.slices.count)


class Rescaled:
    """Rows in another scale; a row that several stages share stays one."""

    def __init__(self, old: int, new: int) -> None:
        common = gcd(old, new)
        self._up, self._down = new // common, old // common
        self._known: dict[int, tuple[Row, list[int]]] = {}

    def row(self, row: Row) -> list[int]:
        known = self._known.get(id(row))
        if known is None:
            known = self._known[id(row)] = (row, self._rescaled(row))
        return known[1]

    def _rescaled(self, row: Row) -> list[int]:
        if self._down == 1:
            return [*row] if self._up == 1 else [value * self._up for value in row]
        return [value * self._up // self._down for value in row]


class Wholes:
    """Numbers, of which some may stand in tuples, as whole multiples of 1/`scale`, the least for which they are."""

    def __init__(self, numbers: Iterable[Entry]) -> None:
        distinct: set[Exact] = set()
        for number in {id(number): number for number in numbers}.values():
            distinct.update(number if isinstance(number, tuple) else (number,))
        ints, self.scale = in_one_scale(distinct)
        self._ints = dict(zip(distinct, ints, strict=True))

    def ints(self, numbers: Iterable[Exact]) -> list[int]:
        """Return some of the numbers in 1/`scale`."""
        return [self._ints[number] for number in numbers]

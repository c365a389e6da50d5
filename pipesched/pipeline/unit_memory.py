"""What units hold where microbatches differ: the one place that says so, by stage and unit, in the least grains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import chain
from math import gcd, lcm
from operator import mul
from typing import NamedTuple

from pipesched.pipeline.costs import Entry
from pipesched.pipeline.memory import Grains, Memory
from pipesched.pipeline.quantities import Exact, to_fraction
from pipesched.pipeline.unit_rows import Rescaled, Row, Units, Wholes


class UnitGrains(NamedTuple):
    """What units hold, by stage: columns of Grains, and `cached`, the part that keys and values are."""

    per_unit: int
    activation: Sequence[Row]
    retained: Sequence[Row]
    checkpointed: Sequence[Row]
    cached: Sequence[Row]


def unit_grains(memory: Memory, units: Units) -> UnitGrains:
    """Return what the units hold, in the least grains that make every amount whole."""
    exactly = _Sizes(memory, units)
    columns = [
        exactly.rows(shares) for shares in (None, memory.retain, memory.checkpoint, [memory.kv] * len(memory.retain))
    ]
    whole = Rescaled(exactly.scale, exactly.least)
    return UnitGrains(exactly.least, *([*map(whole.row, rows)] for rows in columns))


def largest_grains(memory: Memory, known: UnitGrains, slices: int) -> Grains:
    """Return the memory of the largest microbatch, all of its slices together, in the grains of its units.

    The largest of a stage is that with the largest activation.
    """
    columns = [known.activation, known.retained, known.checkpointed]
    most = {name: max(_by_microbatch(row, slices)) for name, row in {id(row): row for row in chain(*columns)}.items()}
    sizes, held, kept = (tuple(most[id(row)] for row in rows) for rows in columns)
    static = tuple(int(to_fraction(size) * known.per_unit) for size in memory.static)
    budget = (
        None if memory.budget is None else tuple(int(to_fraction(limit) * known.per_unit) for limit in memory.budget)
    )
    return Grains(known.per_unit, sizes, held, kept, static, budget)


def _by_microbatch(row: Row, slices: int) -> Iterable[int]:
    return row if slices == 1 else (sum(row[first : first + slices]) for first in range(0, len(row), slices))


class _Sizes:
    """The memory of units as whole numbers of 1/`scale` units."""

    def __init__(self, memory: Memory, units: Units) -> None:
        self.memory, self.units = memory, units
        self._entries = Wholes(memory.activation)
        self._shares, self._parts = (
            Wholes(units.slices.tokens),
            Wholes([1, *memory.retain, *memory.checkpoint, memory.kv]),
        )
        self._by_factor, of_factors = units.wholes("activation")
        self._by_share = self._shares.ints(units.slices.tokens)
        self.scale = self._entries.scale * of_factors * self._shares.scale * self._parts.scale
        self._values = {self.scale}
        self._known: dict[tuple[Entry, Exact], list[int]] = {}

    def rows(self, parts: Sequence[Exact] | None) -> list[list[int]]:
        """Return what each unit holds of a stage: its activation, or a part of it."""
        own: Sequence[Exact] = parts or [1] * len(self.memory.activation)
        return [self._row(entry, part) for entry, part in zip(self.memory.activation, own, strict=True)]

    def _row(self, entry: Entry, part: Exact) -> list[int]:
        if (entry, part) not in self._known:
            count = self.units.microbatches
            each = entry if isinstance(entry, tuple) else (entry,) * (count if self.units.sizes else 1)  # one for all
            wholes = map(mul, self._entries.ints(each), self._by_factor)
            shares = [share * self._parts.ints((part,))[0] for share in self._by_share]
            row = [whole * share for whole in wholes for share in shares]
            self._values.update(row)
            self._known[entry, part] = row * (count // len(each))
        return self._known[entry, part]

    @property
    def least(self) -> int:
        """The least grains in a unit of memory that make all amounts whole, those of weights and budgets too."""
        fixed = _denominator(map(to_fraction, (*self.memory.static, *(self.memory.budget or ()))))
        return lcm(self.scale // gcd(*self._values), fixed, self.memory.resolution)


def _denominator(numbers: Iterable[Fraction]) -> int:
    return lcm(1, *{number.denominator for number in numbers})

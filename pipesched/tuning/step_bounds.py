"""What a step takes at least beside its passes, where gathers, reductions and optimizers are operations of a schedule.

Every pass comes after the gather of the first stage, which has the embedding. Behind the last pass its stage is reduced
and updated; meanwhile a device may update others. With one stage a device that is all that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from pipesched.estimation.items import Item
from pipesched.estimation.setup import Setup
from pipesched.estimation.step import GATHER, OPTIMIZER, REDUCE, item_terms, reduce_terms
from pipesched.estimation.terms import PER_MS, Terms, total


@dataclass(frozen=True)
class StepBounds:
    """What the items of a model add to a step at least, in whole microseconds; the first of them is the embedding."""

    setup: Setup
    items: Sequence[Item]

    @cached_property
    def head(self) -> int:
        """Before any pass."""
        return _microseconds(item_terms(self.setup, self.items[0], GATHER))

    @cached_property
    def behind_first(self) -> int:
        """Behind the last backward of the first stage."""
        return _microseconds(item_terms(self.setup, self.items[0], REDUCE)) + self.update(self.items[0])

    def behind(self, layers: Sequence[Item], count: int) -> int:
        """Return what is behind the last backward of a stage with at least so many of these layers."""
        return self.hops + count * min(self.reduced(layer) + self.update(layer) for layer in layers)

    @cached_property
    def reduction(self) -> int:
        """Behind the last pass of a device, whatever it has."""
        return min(_microseconds(item_terms(self.setup, item, REDUCE)) for item in self.items)

    @cached_property
    def least_update(self) -> int:
        """The optimizer of any stage."""
        return min(map(self.update, self.items))

    @cached_property
    def hops(self) -> int:
        """What the reduction of a stage takes beside its bytes."""
        return _microseconds(reduce_terms(self.setup, Fraction(1), Fraction(0)))

    def update(self, item: Item) -> int:
        """Return what an item adds to the optimizer of its stage."""
        return _microseconds(item_terms(self.setup, item, OPTIMIZER))

    def reduced(self, item: Item) -> int:
        """Return what an item adds to the reduction of its stage."""
        most = _microseconds(item_terms(self.setup, item, REDUCE))
        one, experts = Fraction(1), Fraction(int(item.experts > 0))
        return max(most - _microseconds(reduce_terms(self.setup, one, experts)) - 1, 0)


def _microseconds(terms: Terms) -> int:
    """Return a time not rounded up, so that the times of items do not add up to more than that of their stage."""
    return int(float(total(terms)) * PER_MS)

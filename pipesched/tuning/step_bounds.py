"""What a step takes at least beside its passes, where gathers, reductions and optimizers are operations of a schedule.

Every pass comes after the gather of the first stage, which has the embedding. Behind the last pass its stage is reduced
and updated; meanwhile a device may update others. With one stage a device there are no others. Messages delay the
device that waits for them: where an algorithm keeps few microbatches under way, they take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from pipesched.estimation.items import LAYER, Item
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

    def in_turn(self, every: Sequence[Item], most: int, messages: float, *, whole: bool, alone: bool) -> float:
        """Return how long a step takes at least whose first stage has so many microbatches under way at once at most.

        Each is under way there until it has been through `every` item and back, with `messages` each way. If stages are
        `alone` on their devices, some stage has as many layers as there are devices to share them: of the passes before
        its last backward only the way back from there may be missing, of those microbatches that are under way then.
        """
        setup, layers = self.setup, [item for item in self.items if item.kind == LAYER]
        first, one = every[0], sum(item.time("forward") for item in every) + _back(every, whole=whole) + 2 * messages
        behind = float(_microseconds(item_terms(setup, first, REDUCE)) + self.update(first))
        if alone:
            least = -(-setup.model.layers // setup.parallel.pipeline)
            fullest = self.hops + least * min(self.reduced(layer) + self.update(layer) for layer in layers)
            slowest = max(_back([layer], whole=whole) for layer in layers)
            left = _back([first], whole=whole) + (setup.model.layers - least) * slowest + messages
            behind = max(behind, fullest - left)
        return self.head + setup.microbatches * one / most + behind

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


def _back(items: Sequence[Item], *, whole: bool) -> float:
    """Return the time of a microbatch back through items; `whole`: where backwards are not split."""
    keys = ("backward_input", "backward_weight") if whole else ("backward_input",)
    return float(sum(item.time(key) for item in items for key in keys))


def _microseconds(terms: Terms) -> int:
    """Return a time not rounded up, so that the times of items do not add up to more than that of their stage."""
    return int(float(total(terms)) * PER_MS)

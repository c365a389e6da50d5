"""What is to be cut: items in a row, the holders of the stages, and what a stage of items costs there; all integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

Ends = Sequence[int]  # where each stage ends; the last one at the number of items
Decide = Callable[[int | None], Ends | None]  # a cut that costs no more than so much (None: anything), if there is one
NEAR = 64  # a part of the cost: with less between the bounds each next try asks for less than the best cut


class CutTask(NamedTuple):
    """Items to cut into stages of at least one item each, so that the largest cost of a holder is the least.

    `work`, `static` and `activation` are those of the first 0, 1, .. items together. `holders` has the holder of each
    stage: a device, or two that mirror each other. A holder's cost is the work of its stages times its `weight`.
    `room` is the memory of each holder (None: no limit), for static memory and for the activations of `flying`
    microbatches, one number for each stage.
    """

    work: tuple[int, ...]
    static: tuple[int, ...]
    activation: tuple[int, ...]
    holders: tuple[int, ...]
    weights: tuple[int, ...]
    room: tuple[int, ...] | None
    flying: tuple[int, ...]

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.work) - 1

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.holders)

    def held(self, stage: int) -> list[int]:
        """Return the memory of the first 0, 1, .. items together, in a stage."""
        count = self.flying[stage]
        return [static + count * size for static, size in zip(self.static, self.activation, strict=True)]

    def cost(self, ends: Ends) -> int:
        """Return the largest cost of a holder."""
        loads = [0] * len(self.weights)
        for holder, (begin, end) in zip(self.holders, pairwise((0, *ends)), strict=True):
            loads[holder] += self.work[end] - self.work[begin]
        return max(load * weight for load, weight in zip(loads, self.weights, strict=True))

    def limits(self, cost: int | None) -> list[int]:
        """Return the work that each holder may have with no more than a cost."""
        return [self.work[-1] if cost is None else cost // weight for weight in self.weights]

    def least(self) -> int:
        """Return a cost that no cut is below: all work in proportion to what holders cost."""
        low, high = -1, max(self.weights) * self.work[-1]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if sum(self.limits(middle)) >= self.work[-1] else (middle, high)
        return high


def least_cost(task: CutTask, decide: Decide, above: int = 0) -> Ends | None:
    """Return a cut of the least cost, or of no more than 1 + `above` / 1000 of it; None if none is within memory.

    `decide` is asked with costs between a bound and the best cut so far.
    """
    best = decide(None)
    if best is None:
        return None
    low, high = task.least() - 1, task.cost(best)
    while low + 1 < high and 1000 * high > (1000 + above) * (low + 1):
        middle = high - 1 if not above and (high - low) * NEAR < high else (low + high) // 2
        found = decide(middle)
        if found is None:
            low = middle
        else:
            best, high = found, task.cost(found)
    return best

"""A search for a good order under a plan whose positions stay: several walks side by side, timed together.

Threshold accepting (Dueck and Scheuer 1990): a walk goes on to any neighbour that is longer by less than a threshold,
which falls to 0. A neighbour exchanges two microbatches, or moves one. Now and then the worse half of the walks goes on
from where the better half stands. Nothing but a count of timings ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.core.clock import look
from pipesched.schedulers.feeding.fed_plan import FedPlan
from pipesched.schedulers.feeding.rules import Order

if TYPE_CHECKING:
    from numpy.typing import NDArray

WALKS = 16
MOST_SLOTS = 30_000_000  # in all orders that are timed
FEWEST_STEPS = 20  # of each walk
THRESHOLD = 0.001  # of the makespan, at the beginning
PARTS = 10  # of a search, between which walks are compared


class Found(NamedTuple):
    """An order with what decides: by how much it is over the budget, only whether that is so, and its makespan."""

    over: bool
    makespan: int
    order: Order


class OrderJudge:
    """Times orders, and keeps the best of them and their number: those that fit come first, then the shortest."""

    def __init__(self, fed: FedPlan, capacities: Sequence[int | None]) -> None:
        self.fed = fed
        self.tried = 0
        self._best: Found | None = None
        self._limits = [(device, limit) for device, limit in enumerate(capacities) if limit is not None]

    def costs(self, orders: NDArray[Any]) -> NDArray[Any]:
        """Return the makespan of each order in ticks, with a penalty above all makespans for what exceeds a budget."""
        import numpy as np

        makespans = self.fed.makespans(orders)
        self.tried += len(orders)
        costs = makespans.astype(float)
        over = np.zeros(len(orders), bool)
        if self._limits:
            peaks = self.fed.peaks(orders)
            worst = self.fed.longest
            for device, limit in self._limits:
                excess = np.maximum(peaks[device] - limit, 0)
                over |= excess > 0
                costs += worst * ((excess > 0) + excess.astype(float) / max(limit, 1))
        self._keep(orders, makespans, over)
        return costs

    def _keep(self, orders: NDArray[Any], makespans: NDArray[Any], over: NDArray[Any]) -> None:
        """Keep the best of these orders, of equals the lexicographically first, if it is better than the one so far."""
        some = makespans[over == over.min()].min()
        best = (over == over.min()) & (makespans == some)
        found = Found(bool(over.min()), int(some), min(map(tuple, orders[best].tolist())))
        self._best = found if self._best is None else min(self._best, found)

    @property
    def best(self) -> Found:
        """The best order so far; there must be one."""
        assert self._best is not None
        return self._best


def walk(judge: OrderJudge, starts: Sequence[Order], most: int) -> None:
    """Let the judge time orders from these starts on, about `most` of them, or fewer of many slots."""
    import numpy as np

    random = Random(0)
    here = np.array([starts[number % len(starts)] for number in range(WALKS)])
    costs = judge.costs(here)
    steps = max(min(most, MOST_SLOTS // judge.fed.slots) // WALKS - 1, FEWEST_STEPS)
    for step in range(steps):
        look()
        if step and step % (steps // PARTS) == 0:
            good, bad = np.split(costs.argsort(kind="stable"), 2)
            here[bad], costs[bad] = here[good], costs[good]
        there = np.array([neighbour(order, random) for order in here.tolist()])
        found = judge.costs(there)
        threshold = THRESHOLD * costs.min() * (1 - step / steps)
        better = found <= costs + threshold * np.array([random.random() for _ in range(WALKS)])
        here[better], costs[better] = there[better], found[better]


def neighbour(order: list[int], random: Random) -> list[int]:
    """Exchange two microbatches of an order, or move one."""
    count = len(order)
    one = int(random.random() * count)
    other = (one + 1 + int(random.random() * (count - 1))) % count
    if random.random() < 0.5:
        order[one], order[other] = order[other], order[one]
    else:
        order.insert(other, order.pop(one))
    return order

"""The best order for a family that plans each order anew; all orders are tried where there are few."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.errors import NoSchedule
from pipesched.pipeline.feeding import equals
from pipesched.pipeline.quantities import plain
from pipesched.schedulers.feeding.every_order import count_orders, every_order
from pipesched.schedulers.feeding.fed_family import FedFamily
from pipesched.schedulers.feeding.fed_plan import FedPlan
from pipesched.schedulers.feeding.ordering import Ordering
from pipesched.schedulers.feeding.rules import BEST, Order, rules
from pipesched.schedulers.feeding.search import OrderJudge, neighbour, walk

MOST_PLANNED = 200_000  # operations in all plans
FEWEST_PLANS, MOST_PLANS = 8, 200
SLOW_PLANS = 6  # of a family that takes most of a second for each
SIDE_PLANS = 24  # with side work, which takes many timings to put in: all orders of four microbatches
MOST_TIMED = 8_000  # orders that are timed under the positions of one plan


class PlannedOrder(NamedTuple):
    """An order with what decides: whether its plan is over the budget, and its makespan in the user's unit."""

    over: bool
    makespan: Fraction
    order: Order


class Plans:
    """Plans orders one by one, each once, and keeps what they are worth: None where there is no schedule."""

    def __init__(self, known: FedFamily) -> None:
        self.family = known
        self.known: dict[Order, PlannedOrder | None] = {}
        self._refusal: NoSchedule | None = None

    def planned(self, order: Order) -> PlannedOrder | None:
        """Return what an order is worth; None where the family finds no schedule within the budget."""
        look()
        if order not in self.known:
            self.known[order] = self._worth(order)
        return self.known[order]

    def _worth(self, order: Order) -> PlannedOrder | None:
        try:
            found = self.family.schedule(order)
        except NoSchedule as error:
            self._refusal = self._refusal or error
            return None
        return PlannedOrder(not found.fits, Fraction(found.makespan_ticks, found.problem.ticks.per_unit), order)

    @property
    def best(self) -> Order:
        """The best order so far. Raises NoSchedule, as for the first order, where there is none."""
        found = [one for one in self.known.values() if one is not None]
        if not found and self._refusal is not None:
            raise self._refusal
        return min(found).order


def best_of_plans(known: FedFamily) -> Ordering:
    """Return the best of the orders that are tried. Raises NoSchedule where none of them has a schedule."""
    problem, plans, equal = known.problem, Plans(known), equals(known.problem)
    by_rule = [plans.planned(order) for order in rules(problem)]
    operations = len(problem.letters) * problem.stages * problem.microbatches * problem.slices.count
    most = SLOW_PLANS if known.family.is_slow else max(FEWEST_PLANS, min(MOST_PLANNED // operations, MOST_PLANS))
    most = min(most, SIDE_PLANS) if problem.side else most
    is_exact = count_orders(equal) <= most
    if is_exact:
        for order in every_order(equal).tolist():
            plans.planned(tuple(order))
    else:
        _try_promising(plans, most)
    makespans = (None if one is None else plain(one.makespan) for one in by_rule[:2])
    return Ordering(plans.best, BEST, is_exact, len(plans.known), *makespans)


def _try_promising(plans: Plans, most: int) -> None:
    """Plan the best order for the positions of the plan as given, and then neighbours of the best, `most` in all."""
    problem, starts, random = plans.family.problem, rules(plans.family.problem), Random(0)
    if plans.planned(starts[0]) is not None:
        judge = OrderJudge(FedPlan(problem, plans.family.positions), [None] * problem.devices)
        walk(judge, starts, MOST_TIMED)
        plans.planned(judge.best.order)
    for _ in range(most - len(plans.known)):
        plans.planned(tuple(neighbour([*plans.best], random)))

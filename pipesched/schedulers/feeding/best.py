"""The best order under a plan whose positions stay: of all orders where they are few, else of those of a search.

Plans that fit the budget come first, then the shorter makespan, then the lexicographically first order. The answer is
never worse than the microbatches as given, by rising or by falling work, or by verl's rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.feeding import equals
from pipesched.pipeline.quantities import in_units
from pipesched.schedulers.feeding.every_order import count_orders, every_order, in_turn
from pipesched.schedulers.feeding.fed_family import FedFamily
from pipesched.schedulers.feeding.fed_plan import FedPlan
from pipesched.schedulers.feeding.ordering import Ordering
from pipesched.schedulers.feeding.rules import BEST, rules
from pipesched.schedulers.feeding.search import OrderJudge, walk

ALWAYS_TRIED = 7  # microbatches of which all orders are timed, however many operations they have
MOST_TIMED = 30_000_000  # slots in the timings of all orders of more microbatches
MOST_ORDERS = 40_000  # that a search tries


def best_of_positions(known: FedFamily) -> Ordering:
    """Return the best order for the positions of a plan. Raises Deadlock where they wait for each other."""
    import numpy as np

    problem, equal = known.problem, equals(known.problem)
    known.schedule(None)  # for what it raises
    timer, starts = FedPlan(problem, known.positions), rules(problem)
    judge = OrderJudge(timer, problem.capacity_grains)
    is_exact = _are_few(equal, timer.slots)
    if is_exact:
        judge.costs(every_order(equal))
    else:
        walk(judge, starts, MOST_ORDERS)
    scale, by_rule = problem.ticks.per_unit, timer.makespans(np.array(starts[:2]))
    makespans = (in_units(int(ticks), scale) for ticks in by_rule)
    return Ordering(in_turn(judge.best.order, equal), BEST, is_exact, judge.tried, *makespans)


def _are_few(equal: Sequence[int], slots: int) -> bool:
    """Return whether all orders of microbatches can be timed."""
    return len(equal) <= ALWAYS_TRIED or count_orders(equal) * slots <= MOST_TIMED

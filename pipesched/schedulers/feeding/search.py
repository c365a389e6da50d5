"""The option `order` of every family: by rule, as listed, or the best of all or of a search.

Threshold accepting (Dueck and Scheuer 1990): a walk goes on to any neighbour that is longer by less than a threshold,
which falls to 0. A neighbour exchanges two microbatches, or moves one. Now and then the worse half of the walks goes on
from where the better half stands. Nothing but a count of timings ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import factorial, prod
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.checks import joined
from pipesched.core.clock import look
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.feeding import equals
from pipesched.pipeline.quantities import in_units
from pipesched.schedulers.feeding.fed_plan import BEST, BY_RULE, FedFamily, FedPlan, Order, rules
from pipesched.schedulers.feeding.ordering import Ordering

if TYPE_CHECKING:
    from numpy.typing import NDArray


WALKS = 16
MOST_SLOTS = 30_000_000  # in all orders that are timed
FEWEST_STEPS = 20  # of each walk
THRESHOLD = 0.001  # of the makespan, at the beginning
PARTS = 10  # of a search, between which walks are compared


class Found(NamedTuple):
    """An order with what decides: whether it is over the budget, and its makespan in ticks."""

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


def count_orders(equals: Sequence[int]) -> int:
    """Return how many orders there are; of each microbatch `equals` has the first one that equals it."""
    return factorial(len(equals)) // prod(map(factorial, Counter(equals).values()))


def every_order(equals: Sequence[int]) -> NDArray[Any]:
    """Return all orders as rows, in lexicographical order; equal microbatches keep the order of their numbers."""
    import numpy as np

    kinds = sorted(set(equals))
    count = len(equals)
    members = [[one for one, first in enumerate(equals) if first == kind] for kind in kinds]
    width = max(map(len, members)) + 1
    table = np.array([[*row, *[count] * (width - len(row))] for row in members])  # `count`: none is left
    orders, used = np.empty((1, 0), np.intp), np.zeros((1, len(kinds)), np.intp)
    for _ in range(count):
        following = table[np.arange(len(kinds)), used]
        sequence = np.argsort(following, axis=1, kind="stable")
        prefix, place = np.nonzero(np.take_along_axis(following, sequence, axis=1) < count)
        kind = sequence[prefix, place]
        orders = np.hstack([orders[prefix], following[prefix, kind][:, None]])
        used = used[prefix]
        used[np.arange(len(used)), kind] += 1
    return orders


def in_turn(order: Sequence[int], equals: Sequence[int]) -> Order:
    """Return an order in which equal microbatches stand by their numbers, in the places that they have in `order`."""
    left = {kind: iter([one for one, first in enumerate(equals) if first == kind]) for kind in set(equals)}
    return tuple(next(left[equals[one]]) for one in order)


MOST_PLANNED = 200_000  # operations in all plans
FEWEST_PLANS, MOST_PLANS = 8, 200
SLOW_PLANS = 6  # of a family that takes most of a second for each
SIDE_PLANS = 24  # with side work, which takes many timings to put in: all orders of four microbatches
MOST_TIMED = 8_000  # orders that are timed under the positions of one plan


class Plans:
    """Plans orders one by one, each once, and keeps what they are worth: None where there is no schedule."""

    def __init__(self, known: FedFamily) -> None:
        self.family = known
        self.known: dict[Order, Found | None] = {}
        self._refusal: NoSchedule | None = None

    def planned(self, order: Order) -> Found | None:
        """Return what an order is worth; None where the family finds no schedule within the budget."""
        look()
        if order not in self.known:
            self.known[order] = self._worth(order)
        return self.known[order]

    def _worth(self, order: Order) -> Found | None:
        try:
            found = self.family.schedule(order)
        except NoSchedule as error:
            self._refusal = self._refusal or error
            return None
        return Found(not found.fits, found.makespan_ticks, order)

    @property
    def best(self) -> Order:
        """The best order so far. Raises NoSchedule, as for the first order, where there is none."""
        found = [one for one in self.known.values() if one is not None]
        if not found and self._refusal is not None:
            raise self._refusal
        return min(found).order


def best_of_plans(known: FedFamily) -> Ordering:
    """Return the best of the orders that are tried. Raises NoSchedule where none of them has a schedule."""
    problem, plans, equal, starts = known.problem, Plans(known), equals(known.problem), rules(known.problem)
    by_rule = [plans.planned(order) for order in starts]
    operations = len(problem.letters) * problem.stages * problem.microbatches * problem.slices.count
    most = SLOW_PLANS if known.family.is_slow else max(FEWEST_PLANS, min(MOST_PLANNED // operations, MOST_PLANS))
    most = min(most, SIDE_PLANS) if problem.side else most
    is_exact = count_orders(equal) <= most
    if is_exact:
        for order in every_order(equal).tolist():
            plans.planned(tuple(order))
    else:  # the best order for the positions of the plan as given, and then neighbours of the best, `most` in all
        random = Random(0)
        if by_rule[0] is not None:
            judge = OrderJudge(FedPlan(problem, known.positions), [None] * problem.devices)
            walk(judge, starts, MOST_TIMED)
            plans.planned(judge.best.order)
        for _ in range(most - len(plans.known)):
            plans.planned(tuple(neighbour([*plans.best], random)))
    scale = problem.ticks.per_unit
    makespans = (None if one is None else in_units(one.makespan, scale) for one in by_rule[:2])
    return Ordering(plans.best, BEST, is_exact, len(plans.known), *makespans)


def ordering_of(known: FedFamily, wanted: Any) -> Ordering | None:
    """Return the order that is `wanted`: a list, or one of WORDS; None for a word where all microbatches are alike.

    Raises ConfigError for a list that is no order of the microbatches.
    """
    problem = known.problem
    if not isinstance(wanted, str):
        if problem.rounds > 1:
            raise ConfigError("has no effect beside `rounds`, whose microbatches are alike", "order")
        return Ordering(require_order(wanted, problem.microbatches))
    if len(set(equals(problem))) == 1:
        return None
    if wanted == BEST:
        depends_on_times = known.family.looks_at_each or problem.has_step  # its slots, or its lanes
        return best_of_plans(known) if depends_on_times else best_of_positions(known)
    return Ordering(BY_RULE[wanted](problem), wanted)


def require_order(order: Sequence[int], microbatches: int) -> Order:
    """Return `order` if it lists every microbatch once. Raises ConfigError, about `order`."""
    due, times = range(microbatches), Counter(order)
    outside = sorted(one for one in times if one not in due)
    twice = sorted(one for one, count in times.items() if one in due and count > 1)
    missing = [one for one in due if one not in times]
    wrong = [
        f"{joined([*map(str, numbers)])} {many if len(numbers) > 1 else single}"
        for numbers, single, many in (
            (missing, "is missing", "are missing"),
            (twice, "stands twice", "stand twice"),
            (outside, "is no microbatch", "are no microbatches"),
        )
        if numbers
    ]
    if wrong:
        each = f"each of the microbatches 0 to {microbatches - 1}"
        raise ConfigError(f"must list {each} once: {'; '.join(wrong)}", "order")
    return tuple(order)


ALWAYS_TRIED = 7  # microbatches of which all orders are timed, however many operations they have
MOST_ORDERS = 40_000  # that a search tries


def best_of_positions(known: FedFamily) -> Ordering:
    """Return the best order for the positions of a plan. Raises Deadlock where they wait for each other."""
    import numpy as np

    problem, equal = known.problem, equals(known.problem)
    known.schedule(None)  # for what it raises
    timer, starts = FedPlan(problem, known.positions), rules(problem)
    judge = OrderJudge(timer, problem.capacity_grains)
    is_exact = len(equal) <= ALWAYS_TRIED or count_orders(equal) * timer.slots <= MOST_SLOTS
    if is_exact:
        judge.costs(every_order(equal))
    else:
        walk(judge, starts, MOST_ORDERS)
    scale, by_rule = problem.ticks.per_unit, timer.makespans(np.array(starts[:2]))
    makespans = (in_units(int(ticks), scale) for ticks in by_rule)
    return Ordering(in_turn(judge.best.order, equal), BEST, is_exact, judge.tried, *makespans)

"""The order in which microbatches that differ are fed, the option `order`: by rule, as listed, or the best found.

`ordering_of` is where one begins. It takes the best order under one plan (`best_of_positions`), or of many plans where
a family looks at costs (`best_of_plans`). A plan has a position for each microbatch, and an order says which is fed
where. Behind that stand the rules, the search (`walk`), and what times many orders at once: `SlotSweep` arranges the
slots of a plan in rows, of which each waits for earlier ones; `SlotTimes` and `FedPlan` time them.

The search is threshold accepting (Dueck and Scheuer 1990): a walk goes on to any neighbour that is longer by less than
a threshold, which falls to 0. A neighbour exchanges two microbatches, or moves one. Now and then the worse half of the
walks goes on from where the better half stands. A count of timings ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial, prod
from random import Random
from typing import Any, NamedTuple

from pipesched.checks import joined
from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import Edges
from pipesched.core.timing import CaseSweep, highest
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan, renumbered
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.kinds import GRADIENT_LETTERS, KINDS
from pipesched.pipeline.problem.model import StepModel
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem, equals, in_order
from pipesched.pipeline.problem.quantities import in_units
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import Timing

GIVEN, VERL, BEST, LONGEST, SHORTEST = WORDS = ("given", "verl", "best", "longest", "shortest")
Order = tuple[int, ...]  # of microbatches


class Ordering(NamedTuple):
    """The order in which microbatches are fed, and its `rule`: given (or listed), verl, longest, shortest or best."""

    order: Order
    rule: str = GIVEN
    exact: bool = False  # of the best one: whether all orders were tried, else it is the best of a search
    tried: int = 0  # of the best one: how many orders were tried
    given: int | float | None = None  # the makespan as they are given, in the user's unit; None where there is none
    verl: int | float | None = None  # that of verl's rule

    def source(self, algorithm: str) -> str:
        """Return in words where the order is from: "the best of all 720 for 1f1b"."""
        if self.rule != BEST:
            return {GIVEN: "as given", VERL: "verl's rule"}.get(self.rule, f"{self.rule} first")
        return f"the best of all {self.tried:,} for {algorithm}" if self.exact else f"searched: {self.tried:,} orders"


@dataclass(eq=False, repr=False)
class FedFamily:
    """A family and a problem as it runs it; `make` plans that, and the problem with its microbatches in other orders.

    It plans the problem whose i-th microbatch is `order[i]`; operations then get the numbers back that their data have.
    `timed` makes the schedule of a plan.
    """

    problem: Problem
    family: Family
    make: Callable[[Problem], Plan]
    timed: Timing = schedule_plan

    @cached_property
    def positions(self) -> Plan:
        return self.make(self.problem)

    def plan(self, order: Sequence[int]) -> Plan:
        """Return the plan of the microbatches in this order, with the numbers that they have in the problem."""
        if not self.family.looks_at_each:
            return renumbered(self.positions, order)
        return renumbered(self.make(in_order(self.problem, order)), order)

    def schedule(self, order: Sequence[int] | None) -> Schedule:
        """Return the schedule of the microbatches in this order, None: as they are given. Raises Deadlock.

        Where the placement is mirrored, that of its problem says which of them go the second way.
        """
        if order is None:
            return self.timed(self.problem, self.positions)
        placement = self.problem.settled_placement.fed(order)
        return self.timed(replace(self.problem, placement=placement), self.plan(order))


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


MOST_PLANNED = 200_000  # operations in all plans
FEWEST_PLANS, MOST_PLANS = 8, 200
SLOW_PLANS = 6  # of a family that takes most of a second for each
SIDE_PLANS = 24  # with side work, which takes many timings to put in: all orders of four microbatches
MOST_TIMED = 8_000  # orders that are timed under the positions of one plan


def best_of_plans(known: FedFamily) -> Ordering:
    """Return the best of the orders that are tried. Raises NoSchedule where none of them has a schedule."""
    problem, equal, starts = known.problem, equals(known.problem), rules(known.problem)
    plans, refusals = dict[Order, Found | None](), list[NoSchedule]()  # what orders are worth, None: no schedule

    def planned(order: Order) -> Found | None:
        check_deadline()
        if order not in plans:
            plans[order] = None
            try:
                found = known.schedule(order)
                plans[order] = Found(not found.fits, found.makespan_ticks, order)
            except NoSchedule as error:
                refusals.append(error)
        return plans[order]

    def best() -> Order:
        found = [one for one in plans.values() if one is not None]
        if not found and refusals:
            raise refusals[0]
        return min(found).order

    by_rule = [planned(order) for order in starts]
    operations = len(problem.letters) * problem.stages * problem.microbatches * problem.slices.count
    most = SLOW_PLANS if known.family.is_slow else max(FEWEST_PLANS, min(MOST_PLANNED // operations, MOST_PLANS))
    most = min(most, SIDE_PLANS) if problem.side else most
    is_exact = count_orders(equal) <= most
    if is_exact:
        for order in every_order(equal).tolist():
            planned(tuple(order))
    else:  # the best order for the positions of the plan as given, and then neighbours of the best, `most` in all
        random = Random(0)
        if by_rule[0] is not None:
            judge = OrderJudge(FedPlan(problem, known.positions), [None] * problem.devices)
            walk(judge, starts, MOST_TIMED)
            planned(judge.best.order)
        for _ in range(most - len(plans)):
            planned(tuple(neighbour([*best()], random)))
    scale = problem.ticks.per_unit
    makespans = (None if one is None else in_units(one.makespan, scale) for one in by_rule[:2])
    return Ordering(best(), BEST, is_exact, len(plans), *makespans)


def count_orders(equals: Sequence[int]) -> int:
    """Return how many orders there are; of each microbatch `equals` has the first one that equals it."""
    return factorial(len(equals)) // prod(map(factorial, Counter(equals).values()))


def every_order(equals: Sequence[int]) -> Ints:
    """Return all orders as rows, in lexicographical order; equal microbatches keep the order of their numbers."""
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


def given(problem: Problem) -> Order:
    """Return the microbatches by their numbers."""
    return tuple(range(problem.microbatches))


def verl(problem: Problem) -> Order:
    """Return the order of verl's `rearrange_micro_batches`: small ones at both ends, the largest in the middle."""
    descending = by_work(problem)[::-1]
    return descending[::2][::-1] + descending[1::2]


def by_work(problem: Problem) -> Order:
    """Return the microbatches by rising work, equal ones by their numbers."""
    work = works(problem)
    return tuple(sorted(given(problem), key=lambda one: (work[one], one)))


def longest(problem: Problem) -> Order:
    """Return the microbatches by falling work, equal ones by their numbers."""
    return tuple(sorted(given(problem), key=[-work for work in works(problem)].__getitem__))


BY_RULE = {GIVEN: given, VERL: verl, LONGEST: longest, SHORTEST: by_work}


def rules(problem: Problem) -> list[Order]:
    """Return the orders from which a search begins: as given, verl's, by rising and by falling work."""
    rising = by_work(problem)
    return [given(problem), verl(problem), rising, rising[::-1]]


def works(problem: Problem) -> list[int]:
    """Return the work of each microbatch on all stages, F and B, on devices of speed 1: in ticks of that problem."""
    ticks = replace(problem, speed=None, links=None).ticks
    kinds = ("forward",) if problem.mode == FORWARD_ONLY else ("forward", "backward")
    units = np.vstack([ticks.each(kind) for kind in kinds]).sum(axis=0)
    found: list[int] = units.reshape(-1, problem.slices.count).sum(axis=1).tolist()
    return found


WALKS = 16
MOST_SLOTS = 30_000_000  # in all orders that are timed
FEWEST_STEPS = 20  # of each walk
THRESHOLD = 0.001  # of the makespan, at the beginning
PARTS = 10  # of a search, between which walks are compared


def walk(judge: OrderJudge, starts: Sequence[Order], most: int) -> None:
    """Let the judge time orders from these starts on, about `most` of them, or fewer of many slots."""
    random = Random(0)
    here = np.array([starts[number % len(starts)] for number in range(WALKS)])
    costs = judge.costs(here)
    steps = max(min(most, MOST_SLOTS // judge.fed.slots) // WALKS - 1, FEWEST_STEPS)
    for step in range(steps):
        check_deadline()
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


class Found(NamedTuple):
    """An order with what decides: whether it is over the budget, and its makespan in ticks."""

    over: bool
    makespan: int
    order: Order


class OrderJudge:
    """Times orders, and keeps the best of them and their number: those that fit come first, then the shortest."""

    def __init__(self, fed: FedPlan, capacities: Sequence[int | None]) -> None:
        self.fed = fed
        self.tried, self._found = 0, list[Found]()
        self._limits = [(device, limit) for device, limit in enumerate(capacities) if limit is not None]

    def costs(self, orders: Ints) -> Ints:
        """Return the makespan of each order in ticks, with a penalty above all makespans for what exceeds a budget."""
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
        some = makespans[over == over.min()].min()
        best = (over == over.min()) & (makespans == some)  # of equals the lexicographically first
        self._found.append(Found(bool(over.min()), int(some), min(map(tuple, orders[best].tolist()))))
        return costs

    @property
    def best(self) -> Found:
        return min(self._found)


MOST_CELLS = 1 << 18  # numbers in an array: so many orders are timed together as fill one
LEAST_ORDERS, ROOM = 16, 1 << 25  # or so many where these fill more, but no more numbers than that
LARGEST = 1 << 62  # sums below this are of 64 bits


class UnitTables(NamedTuple):
    """What units last, send, take and give back, a column each; a row for each kind and stage, then special ones."""

    ticks: Ints  # and behind them those of pairs, where their length is known
    hops: Ints
    takes: Ints
    gives: Ints  # and behind them those of forwards whose activation is recomputed later


class SlotTimes:
    """The slots of a plan that runs, timed in many cases at once, and their memory. `FedPlan` and `CutTimes` are some.

    A case is a column of `fed`: for each unit of the plan the column of the tables that holds its costs.
    """

    plan: Plan
    _slots: SlotSweep
    _tables: UnitTables
    _where: Ints  # the device of each stage and unit
    _knows_pairs: bool
    _fed: Callable[[Ints], Ints]  # the columns of cases, which are rows of an array

    @property
    def slots(self) -> int:
        return len(self._slots)

    @cached_property
    def _lasting(self) -> Ints:
        """Where the table says how long the rows last."""
        places: Ints = self._slots.tasks.copy()
        if self._knows_pairs:
            places[self._slots.paired] += self.plan.index.passes
        return places

    def makespans(self, cases: Ints) -> Ints:
        """Return the makespan of each order or cut, in ticks, on the scale of all."""

        def measure(fed: Ints) -> Ints:
            found: Ints = self._timed(fed)[1][self._slots.last].max(axis=0)
            return found

        return self._in_parts(cases, measure)

    def _in_parts(self, cases: Ints, measure: Callable[[Ints], Ints]) -> Ints:
        """Return what `measure` says of all cases, some of them at a time."""
        fed, found, size = self._fed(cases), [], self.together
        for first in range(0, len(cases), size):
            check_deadline()
            found.append(measure(fed[:, first : first + size]))
        return np.concatenate(found, axis=-1)

    def _peaks(self, fed: Ints) -> Ints:
        """Return the most that each device holds of activations, in grains: a row a device, a column a case."""
        tables, slots = self._tables, self._slots
        size = len(tables.takes)  # a device never holds most when what starts takes nothing: that may last no time
        is_at_starts = tables.ticks[size:].all() and not tables.takes[tables.ticks[:size] == 0].any()
        if not self.plan.lanes and is_at_starts:
            cells = np.vstack([slots.picked(tables.takes, fed), -slots.picked(tables.gives, fed)])
            return highest(*self._changes, cells)
        takes, gives = slots.values(tables.takes, fed), slots.values(tables.gives, fed, self._giving)
        lengths, ends = self._timed(fed)
        levels = []
        for rows in self._rows_of_pools:  # what is freed at a time counts before what is taken
            times = np.concatenate([ends[rows] - lengths[rows], ends[rows]])
            changes = np.concatenate([takes[rows], -gives[rows]])
            by_change = np.argsort(changes, axis=0, kind="stable")
            by_time = np.argsort(np.take_along_axis(times, by_change, axis=0), axis=0, kind="stable")
            sequence = np.take_along_axis(by_change, by_time, axis=0)
            levels.append(np.cumsum(np.take_along_axis(changes, sequence, axis=0), axis=0))
        return np.array([level.max(axis=0, initial=0) for level in levels])

    @cached_property
    def _changes(self) -> tuple[Ints, Ints]:
        """Where takes, and gives behind them, say what each start and end changes; and where each device ends."""
        slots, size = self._slots, self.plan.index.size
        rows = self._slots.rows[: len(self.plan.orders)]
        starts = 2 * np.argsort(np.concatenate(rows))[np.append(np.arange(len(slots)), slots.paired)]
        turns, ends = np.append(starts, starts + 1), 2 * np.cumsum([*map(len, rows)])
        places = np.concatenate([slots.tasks, slots.partners, self._giving + size, slots.partners + size])
        stops: Ints = np.searchsorted(np.sort(turns), ends)
        return slots.cells(places[np.argsort(turns, kind="stable")]), stops

    @property
    def together(self) -> int:
        slots = self.slots + 1
        return max(MOST_CELLS // slots, min(LEAST_ORDERS, ROOM // slots), 1)

    def _timed(self, fed: Ints) -> tuple[Ints, Ints]:
        """Return what each row lasts in each case, and when it ends."""
        slots, tables = self._slots, self._tables
        lengths = slots.values(tables.ticks, fed, self._lasting, with_partners=not self._knows_pairs)
        return lengths, slots.sweep.ends(lengths, slots.delays(tables.hops, fed))

    @cached_property
    def _giving(self) -> Ints:
        """Where the table says what the rows give back."""
        index = self.plan.index
        places: Ints = self._slots.tasks.copy()
        for row in (index.of_kind(one) for one in index.letters if KINDS[one].forward_gives is not None):
            again = places[(places >= row.start) & (places < row.stop)]
            places[np.isin(places, again - row.start)] += index.passes
        return places

    @cached_property
    def _rows_of_pools(self) -> list[Ints]:
        """The rows that take and give memory of each device: its own, and those of its transfers."""
        devices = len(self.plan.orders)
        moves = np.concatenate([*self._slots.rows[devices:], np.arange(0)])
        pools = self._where.ravel()[self._slots.tasks[moves] % self._where.size]
        return [np.append(rows, moves[pools == device]) for device, rows in enumerate(self._slots.rows[:devices])]


class FedPlan(SlotTimes):
    """A plan in whose positions any microbatches may stand; `problem` says what each of them costs.

    An order feeds microbatch `order[i]` where the plan has microbatch i; orders are the rows of an array. The plan must
    run, and be one for the problem's placement. No makespan is above `longest`.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.plan, index = plan, plan.index
        self._slots = SlotSweep(plan, lower(problem, index).edges)
        models = self._cost(problem)
        self._where = np.hstack([models[0].where[:, : self._split], models[-1].where[:, self._split :]])

    def of(self, problem: Problem) -> FedPlan:
        """Return the same positions, in which microbatches of another problem may stand, however many it has."""
        other = copy(self)
        other._cost(problem)
        return other

    def _cost(self, problem: Problem) -> list[StepModel]:
        """Set what microbatches cost; return a model for each way that one may go."""
        placement, index = problem.settled_placement, self.plan.index
        ways = [replace(problem, placement=Placement(devices)) for devices in placement.ways]  # each for all
        models = [one.model for one in (ways if placement.mirrored else [problem])]
        self._split = index.microbatches // 2 * index.slices if len(models) == 2 else index.units
        self._knows_pairs, self._units = models[0].overlap is not None, models[0].units
        tables = [tables_of(model, index) for model in models]
        rows = len(index.letters) * index.stages
        self.longest = self.slots * max(2 * int(way.ticks[:rows].max()) + int(way.hops.max()) for way in tables)
        largest = max(self.longest, 2 * self.slots * max(int(max(way.takes.max(), way.gives.max())) for way in tables))
        kind = np.int64 if largest < LARGEST else object
        self._tables = UnitTables(*(np.hstack(several).astype(kind) for several in zip(*tables, strict=True)))
        return models

    def peaks(self, orders: Ints) -> Ints:
        """Return the most that each device holds of activations, in grains: a row a device, a column an order."""
        return self._in_parts(orders, self._peaks)

    def _fed(self, orders: Ints) -> Ints:
        slices = self.plan.index.slices
        fed: Ints = (orders.T[:, None] * slices + np.arange(slices)[:, None]).reshape(-1, len(orders))
        fed[self._split :] += self._units  # their columns for the second way
        return fed


def tables_of(model: StepModel, index: OpIndex) -> UnitTables:
    """Return the tables of the operations of `index`."""
    letters, nothing = index.letters, np.zeros((1, model.units), dtype=np.int64)
    back = model.back if any(letter in GRADIENT_LETTERS for letter in letters) else model.back * 0
    known = [] if model.overlap is None else [model.overlap]
    again = [model.column(KINDS[letter].forward_gives) for letter in letters if KINDS[letter].forward_gives]
    takes, gives = zip(*map(model.changes, letters), strict=True)
    return UnitTables(
        np.vstack([*(model.ticks[KINDS[letter].cost] for letter in letters), *known]),
        np.vstack([model.there, nothing, back, nothing]),
        np.vstack(takes),
        np.vstack([*gives, *again]),
    )


class SlotSweep:
    """The slots of a plan in rows: `tasks[r]` is the number of the operation of row r, of a pair that of the forward.

    `paired` are the rows of pairs, `partners` their backwards. Row b of a table of messages is for forwards over
    boundary b, row S + b for gradients over it. The last row, of zeros, is for all that is no message.
    """

    def __init__(self, plan: Plan, edges: Edges) -> None:
        """Arrange a plan that runs; `edges` are the precedences of all its operations, each by itself."""
        index, slot = plan.index, np.arange(plan.index.size)
        forwards, backwards = column(plan.pairs.keys()), column(plan.pairs.values())
        slot[backwards] = forwards
        messages = len(edges)
        edges = Edges.joined([edges, Edges(*zip(*plan.waits, strict=True)) if plan.waits else Edges((), ())])
        between = Edges(slot[edges.before], slot[edges.after])
        self.plan, self.sweep = plan, CaseSweep(index.size, plan.lines, between)
        self.tasks = self.sweep.tasks
        self.rows = self.sweep.rows
        partner = np.full(index.size, -1)
        partner[forwards] = backwards
        self.paired = np.flatnonzero(partner[self.tasks] >= 0)
        self.partners = partner[self.tasks[self.paired]]
        number = self.sweep.edges  # of each wait; the first edges may be messages
        before, after = (ends[number] if len(edges) else number for ends in (edges.before, edges.after))
        here, there = (ends // index.units % index.stages for ends in (before, after))
        over = np.where(here < there, here, index.stages + there)
        over[(number < 0) | (number >= messages) | (here == there)] = 2 * index.stages - 1
        self.messages: Ints = over * index.units + before % index.units  # places in what is picked of a table

    def __len__(self) -> int:
        return len(self.tasks)

    def picked(self, table: Ints, fed: Ints) -> Ints:
        """Return what a table says of all operations, a column a case; `fed` are its columns by position and case."""
        cells: Ints = table[:, fed].reshape(-1, fed.shape[1])
        return cells

    def values(self, table: Ints, fed: Ints, places: Ints | None = None, *, with_partners: bool = True) -> Ints:
        """Return what a table says of the rows, at their operations or other places, and of the backwards of pairs."""
        cells = self.picked(table, fed)
        found: Ints = cells.take(self.cells(self.tasks if places is None else places), axis=0)
        if with_partners and len(self.paired):
            found[self.paired] += cells[self.cells(self.partners)]
        return found

    def cells(self, places: Ints) -> Ints:
        """Return which rows of what is picked of a table stand for these places in it."""
        return places

    def delays(self, hops: Ints, fed: Ints) -> Ints | None:
        """Return what waits last longer than the ends of others, by a table of messages; None where all is at once."""
        return self.picked(hops, fed)[self.cells(self.messages)] if hops.any() else None

    @cached_property
    def last(self) -> Ints:
        return column([rows[-1] for rows in self.rows[: len(self.plan.orders)] if len(rows)])

"""A plan whose microbatches are fed in another order: orders by rule, and many timed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import Edges
from pipesched.core.timing import CaseSweep
from pipesched.pipeline.feeding import in_order, renumbered
from pipesched.pipeline.kinds import GRADIENT_LETTERS, KINDS
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.model import StepModel
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import Timing


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
        self.messages = self._messages(edges, messages)

    def __len__(self) -> int:
        return len(self.tasks)

    def _messages(self, edges: Edges, count: int) -> Ints:
        """Return for each wait its place in what a case picks of a table of messages; the first edges may be some."""
        index, number = self.plan.index, self.sweep.edges
        before, after = (ends[number] if len(edges) else number for ends in (edges.before, edges.after))
        here, there = (ends // index.units % index.stages for ends in (before, after))
        over = np.where(here < there, here, index.stages + there)
        over[(number < 0) | (number >= count) | (here == there)] = 2 * index.stages - 1
        places: Ints = over * index.units + before % index.units
        return places

    def picked(self, table: Ints, fed: Ints) -> Ints:
        """Return what a table says of all operations, a column a case; `fed` are its columns by position and case."""
        cells: Ints = table[:, fed].reshape(-1, fed.shape[1])
        return cells

    def values(self, table: Ints, fed: Ints, places: Ints | None = None, *, with_partners: bool = True) -> Ints:
        """Return what a table says of the rows, at their operations or other places, and of the backwards of pairs."""
        cells = self.picked(table, fed)
        found: Ints = cells[self.cells(self.tasks if places is None else places)]
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
        """The last row of each device that has one."""
        return column([rows[-1] for rows in self.rows[: len(self.plan.orders)] if len(rows)])


MOST_CELLS = 1 << 18  # numbers in an array: so many orders are timed together as fill one
LEAST_ORDERS, ROOM = 16, 1 << 25  # or so many where these fill more, but no more numbers than that
LARGEST = 1 << 62  # sums below this are of 64 bits


class UnitTables(NamedTuple):
    """What units last, send, take and give back, a column each; behind the rows of all kinds those of special slots.

    These are pairs of a known length in `ticks`, and forwards in `gives` whose activation is recomputed later.
    """

    ticks: Ints
    hops: Ints
    takes: Ints
    gives: Ints


class SlotTimes:
    """The slots of a plan that runs, and tables of what they take in many cases: timed, and their memory, at once."""

    plan: Plan
    _slots: SlotSweep
    _tables: UnitTables
    _where: Ints  # the device of each stage and unit
    _knows_pairs: bool

    @property
    def slots(self) -> int:
        """The number of slots, of devices and lanes."""
        return len(self._slots)

    @cached_property
    def _lasting(self) -> Ints:
        """Where the table says how long the rows last."""
        places: Ints = self._slots.tasks.copy()
        if self._knows_pairs:
            places[self._slots.paired] += self.plan.index.passes
        return places

    def _makespans(self, fed: Ints) -> Ints:
        """Return the makespan of each case, in ticks."""
        found: Ints = self._timed(fed)[1][self._slots.last].max(axis=0)
        return found

    def _peaks(self, fed: Ints) -> Ints:
        """Return the most that each device holds of activations, in grains: a row a device, a column a case."""
        at_starts = not self.plan.lanes and self._tables.ticks.all()
        return (self._highest_at_starts if at_starts else self._highest_over_time)(fed)

    @property
    def together(self) -> int:
        """How many cases are timed together."""
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

    def _held(self, fed: Ints) -> tuple[Ints, Ints]:
        """Return what each row takes as it starts, and gives back as it ends."""
        takes, gives = self._tables.takes, self._tables.gives
        return self._slots.values(takes, fed), self._slots.values(gives, fed, self._giving)

    def _highest_at_starts(self, fed: Ints) -> Ints:
        """Return the peaks of devices whose slots all take time."""
        takes, gives = self._held(fed)
        rows = self._slots.rows[: len(self.plan.orders)]
        return self._highest(rows, fed, lambda rows: np.cumsum(takes[rows] - gives[rows], axis=0) + gives[rows])

    def _highest_over_time(self, fed: Ints) -> Ints:
        """Return the peaks where transfers, or slots of no length, take and free at any time.

        What is freed at a time counts before what is taken then.
        """
        lengths, ends = self._timed(fed)
        takes, gives = self._held(fed)

        def levels(rows: Ints) -> Ints:
            times = np.concatenate([ends[rows] - lengths[rows], ends[rows]])
            changes = np.concatenate([takes[rows], -gives[rows]])
            by_change = np.argsort(changes, axis=0, kind="stable")
            by_time = np.argsort(np.take_along_axis(times, by_change, axis=0), axis=0, kind="stable")
            sequence = np.take_along_axis(by_change, by_time, axis=0)
            return np.cumsum(np.take_along_axis(changes, sequence, axis=0), axis=0)

        return self._highest(self._rows_of_pools, fed, levels)

    def _highest(self, rows_of: Sequence[Ints], fed: Ints, levels: Callable[[Ints], Ints]) -> Ints:
        """Return the highest level of each device by its rows; 0 where it has none."""
        nothing = np.zeros(fed.shape[1], self._tables.ticks.dtype)
        return np.array([levels(rows).max(axis=0) if len(rows) else nothing for rows in rows_of])

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
        self.plan, index, models = plan, plan.index, _models(problem)
        self._slots = SlotSweep(plan, lower(problem, index).edges)
        self._split = index.microbatches // 2 * index.slices if len(models) == 2 else index.units
        self._where = np.hstack([models[0].where[:, : self._split], models[-1].where[:, self._split :]])
        self._knows_pairs = models[0].overlap is not None
        ways = [tables_of(model, index) for model in models]
        rows = len(index.letters) * index.stages
        self.longest = self.slots * max(2 * int(way.ticks[:rows].max()) + int(way.hops.max()) for way in ways)
        largest = max(self.longest, 2 * self.slots * max(int(max(way.takes.max(), way.gives.max())) for way in ways))
        kind = np.int64 if largest < LARGEST else object
        self._tables = UnitTables(*(np.hstack(tables).astype(kind) for tables in zip(*ways, strict=True)))

    def makespans(self, orders: Ints) -> Ints:
        """Return the makespan of each order, in ticks."""
        return self._in_parts(orders, self._makespans)

    def peaks(self, orders: Ints) -> Ints:
        """Return the most that each device holds of activations, in grains: a row a device, a column an order."""
        return self._in_parts(orders, self._peaks)

    def _in_parts(self, orders: Ints, measure: Callable[[Ints], Ints]) -> Ints:
        """Return what `measure` says of all orders, some of them at a time."""
        slices, found, size = self.plan.index.slices, [], self.together
        for first in range(0, len(orders), size):
            look()
            order = orders[first : first + size].T
            fed = (order[:, None] * slices + np.arange(slices)[:, None]).reshape(-1, order.shape[1])
            fed[self._split :] += self.plan.index.units  # their columns for the second way
            found.append(measure(fed))
        return np.concatenate(found, axis=-1)


def _models(problem: Problem) -> list[StepModel]:
    """Return the model of all microbatches, of a mirrored placement one as if all went each way."""
    placement = problem.settled_placement
    if not placement.mirrored:
        return [problem.model]
    return [replace(problem, placement=Placement(devices)).model for devices in placement.ways]


def tables_of(model: StepModel, index: OpIndex) -> UnitTables:
    """Return what the operations of `index` last, send, take and give back."""
    letters, nothing = index.letters, np.zeros((1, index.units), dtype=np.int64)
    back = model.back if any(letter in GRADIENT_LETTERS for letter in letters) else model.back * 0
    known = [] if model.overlap is None else [model.overlap]
    again = [model.column(KINDS[letter].forward_gives) for letter in letters if KINDS[letter].forward_gives]
    return UnitTables(
        np.vstack([*(model.ticks[KINDS[letter].cost] for letter in letters), *known]),
        np.vstack([model.there, nothing, back, nothing]),
        np.vstack([model.takes(letter) for letter in letters]),
        np.vstack([*(model.gives(letter) for letter in letters), *again]),
    )


GIVEN, VERL, BEST, LONGEST, SHORTEST = WORDS = ("given", "verl", "best", "longest", "shortest")
Order = tuple[int, ...]  # of microbatches


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


class FedFamily:
    """A family and a problem as it runs it; `make` plans that, and the problem with its microbatches in other orders.

    It plans the problem whose i-th microbatch is `order[i]`; operations then get the numbers back that their data have.
    `timed` makes the schedule of a plan.
    """

    def __init__(
        self, problem: Problem, family: Family, make: Callable[[Problem], Plan], timed: Timing = schedule_plan
    ) -> None:
        self.problem, self.family, self._make, self.timed = problem, family, make, timed

    @cached_property
    def positions(self) -> Plan:
        """The plan of the microbatches as they are given."""
        return self._make(self.problem)

    def plan(self, order: Sequence[int]) -> Plan:
        """Return the plan of the microbatches in this order, with the numbers that they have in the problem."""
        if not self.family.looks_at_each:
            return renumbered(self.positions, order)
        return renumbered(self._make(in_order(self.problem, order)), order)

    def schedule(self, order: Sequence[int] | None) -> Schedule:
        """Return the schedule of the microbatches in this order, None: as they are given. Raises Deadlock.

        Where the placement is mirrored, that of its problem says which of them go the second way.
        """
        if order is None:
            return self.timed(self.problem, self.positions)
        placement = self.problem.settled_placement.fed(order)
        return self.timed(replace(self.problem, placement=placement), self.plan(order))

"""What many orders of the microbatches take under one plan whose positions stay, all at once and exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from pipesched.core.arrays import Ints, np
from pipesched.core.clock import look
from pipesched.pipeline.kinds import GRADIENT_LETTERS, KINDS
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.model import StepModel
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.feeding.slots import SlotSweep

MOST_CELLS = 1 << 18  # numbers in an array: so many orders are timed together as fill one
LEAST_ORDERS, ROOM = 16, 1 << 25  # or so many where these fill more, but no more numbers than that
LARGEST = 1 << 62  # sums below this are of 64 bits


class _UnitTables(NamedTuple):
    """What units last, send, take and give back, a column each; behind the rows of all kinds those of special slots.

    These are pairs of a known length in `ticks`, and forwards in `gives` whose activation is recomputed later.
    """

    ticks: Ints
    hops: Ints
    takes: Ints
    gives: Ints


class FedPlan:
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
        ways = [_tables(model, index) for model in models]
        rows = len(index.letters) * index.stages
        self.longest = self.slots * max(2 * int(way.ticks[:rows].max()) + int(way.hops.max()) for way in ways)
        largest = max(self.longest, 2 * self.slots * max(int(max(way.takes.max(), way.gives.max())) for way in ways))
        kind = np.int64 if largest < LARGEST else object
        self._tables = _UnitTables(*(np.hstack(tables).astype(kind) for tables in zip(*ways, strict=True)))

    @property
    def slots(self) -> int:
        """The number of slots, of devices and lanes."""
        return len(self._slots)

    def makespans(self, orders: Ints) -> Ints:
        """Return the makespan of each order, in ticks."""
        return self._in_parts(orders, lambda fed: self._timed(fed)[1][self._slots.last].max(axis=0))

    def peaks(self, orders: Ints) -> Ints:
        """Return the most that each device holds of activations, in grains: a row a device, a column an order."""
        at_starts = not self.plan.lanes and self._tables.ticks.all()
        return self._in_parts(orders, self._highest_at_starts if at_starts else self._highest_over_time)

    def _in_parts(self, orders: Ints, measure: Callable[[Ints], Ints]) -> Ints:
        """Return what `measure` says of all orders, some of them at a time."""
        slots, slices, found = self.slots + 1, self.plan.index.slices, []
        size = max(MOST_CELLS // slots, min(LEAST_ORDERS, ROOM // slots), 1)
        for first in range(0, len(orders), size):
            look()
            order = orders[first : first + size].T
            fed = (order[:, None] * slices + np.arange(slices)[:, None]).reshape(-1, order.shape[1])
            fed[self._split :] += self.plan.index.units  # their columns for the second way
            found.append(measure(fed))
        return np.concatenate(found, axis=-1)

    def _timed(self, fed: Ints) -> tuple[Ints, Ints]:
        """Return what each row lasts in each case, and when it ends."""
        slots, tables = self._slots, self._tables
        lengths = slots.values(tables.ticks, fed, self._lasting, with_partners=not self._knows_pairs)
        return lengths, slots.sweep.ends(lengths, slots.delays(tables.hops, fed))

    @cached_property
    def _lasting(self) -> Ints:
        """Where the table says how long the rows last."""
        places: Ints = self._slots.tasks.copy()
        if self._knows_pairs:
            places[self._slots.paired] += self.plan.index.passes
        return places

    @cached_property
    def _giving(self) -> Ints:
        """Where the table says what the rows give back."""
        index = self.plan.index
        places: Ints = self._slots.tasks.copy()
        if "R" in index.letters:
            again = places[(places >= index.of_kind("R").start) & (places < index.of_kind("R").stop)]
            forwards = np.isin(places, again - index.of_kind("R").start)
            places[forwards] += index.passes
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


def _models(problem: Problem) -> list[StepModel]:
    """Return the model of all microbatches, of a mirrored placement one as if all went each way."""
    placement = problem.settled_placement
    if not placement.mirrored:
        return [problem.model]
    other = tuple(placement.last - device for device in placement.devices)
    return [replace(problem, placement=Placement(devices)).model for devices in (placement.devices, other)]


def _tables(model: StepModel, index: OpIndex) -> _UnitTables:
    letters, nothing = index.letters, np.zeros((1, index.units), dtype=np.int64)
    back = model.back if any(letter in GRADIENT_LETTERS for letter in letters) else model.back * 0
    known = [] if model.overlap is None else [model.overlap]
    again = [model.column(KINDS[letter].forward_gives) for letter in letters if KINDS[letter].forward_gives]
    return _UnitTables(
        np.vstack([*(model.ticks[KINDS[letter].cost] for letter in letters), *known]),
        np.vstack([model.there, nothing, back, nothing]),
        np.vstack([model.takes(letter) for letter in letters]),
        np.vstack([*(model.gives(letter) for letter in letters), *again]),
    )

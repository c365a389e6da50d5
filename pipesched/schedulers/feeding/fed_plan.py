"""What many orders of the microbatches take under one plan whose positions stay, all at once and exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from pipesched.core.clock import look
from pipesched.pipeline.lowering import pair_durations
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.feeding.columns import Column, Entry, WayCosts, ways_of
from pipesched.schedulers.feeding.levels import SlotLevels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers

MOST_CELLS = 1 << 18  # numbers in an array: so many orders are timed together as fill one
LEAST_ORDERS, ROOM = 16, 1 << 25  # or so many where these fill more, but no more numbers than that
LARGEST = 1 << 62  # sums below this are of 64 bits


class FedPlan:
    """A plan in whose positions any microbatches may stand; `problem` says what each of them costs.

    An order feeds microbatch `order[i]` where the plan has microbatch i; orders are the rows of an array. The plan must
    run, and be one for the problem's placement. No makespan is above `longest`.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self._ways = ways_of(problem, plan)
        self._arrows = [(before, after) for before, after, _ in self._ways[0].graph.arrows()]
        self._levels = SlotLevels(plan, [*self._arrows, *plan.waits])
        self.longest = self.slots * max(way.longest for way in self._ways)
        largest = max(self.longest, self.slots * max(way.largest for way in self._ways))
        self._kind = "int64" if largest < LARGEST else "object"

    @property
    def slots(self) -> int:
        """The number of slots, of devices and lanes."""
        return len(self._levels.tasks)

    def makespans(self, orders: Whole) -> Whole:
        """Return the makespan of each order, in ticks."""
        last = [rows[-1] for rows in self._rows if rows]
        return self._in_parts(orders, lambda units: self._timed(units)[1][last].max(axis=0))

    def peaks(self, orders: Whole) -> Whole:
        """Return the most that each device holds of activations, in grains: a row a device, a column an order."""
        at_starts = not self.plan.lanes and all(0 not in way.graph.durations for way in self._ways)
        return self._in_parts(orders, self._highest_at_starts if at_starts else self._highest_over_time)

    def _in_parts(self, orders: Whole, measure: Callable[[Whole], Whole]) -> Whole:
        """Return what `measure` says of all orders, some of them at a time."""
        import numpy as np

        slots, slices, found = self.slots + 1, self.plan.index.slices, []
        size = max(MOST_CELLS // slots, min(LEAST_ORDERS, ROOM // slots), 1)
        for first in range(0, len(orders), size):
            look()
            fed = orders[first : first + size].T
            units = fed[:, None] * slices + np.arange(slices)[:, None]
            found.append(measure(units.reshape(-1, fed.shape[1])))
        return np.concatenate(found, axis=-1)

    def _timed(self, units: Whole) -> tuple[Whole, Whole]:
        """Return what each row of the levels lasts in each case, and when it ends."""
        lengths = self._values(self._lengths, units)
        delays = [None if delay is None else delay.values(units) for delay in self._delays]
        return lengths, self._levels.ends(lengths.copy(), delays)

    def _highest_at_starts(self, units: Whole) -> Whole:
        """Return the peaks of devices whose slots all take time."""
        import numpy as np

        takes, gives = (self._values(columns, units) for columns in self._held)
        return self._highest(self._rows, units, lambda rows: np.cumsum(takes[rows] - gives[rows], axis=0) + gives[rows])

    def _highest_over_time(self, units: Whole) -> Whole:
        """Return the peaks where transfers, or slots of no length, take and free at any time.

        What is freed at a time counts before what is taken then.
        """
        import numpy as np

        lengths, ends = self._timed(units)
        takes, gives = (self._values(columns, units) for columns in self._held)

        def levels(rows: Sequence[int]) -> Whole:
            times = np.concatenate([ends[rows] - lengths[rows], ends[rows]])
            changes = np.concatenate([takes[rows], -gives[rows]])
            by_change = np.argsort(changes, axis=0, kind="stable")
            by_time = np.argsort(np.take_along_axis(times, by_change, axis=0), axis=0, kind="stable")
            sequence = np.take_along_axis(by_change, by_time, axis=0)
            return np.cumsum(np.take_along_axis(changes, sequence, axis=0), axis=0)

        return self._highest(self._rows_of_pools, units, levels)

    def _highest(
        self, rows_of: Sequence[Sequence[int]], units: Whole, levels: Callable[[Sequence[int]], Whole]
    ) -> Whole:
        """Return the highest level of each device by its rows; 0 where it has none."""
        import numpy as np

        nothing = np.zeros(units.shape[1], self._kind)
        return np.array([levels(rows).max(axis=0) if rows else nothing for rows in rows_of])

    @cached_property
    def _rows(self) -> list[list[int]]:
        """The rows of each device."""
        return [[self._levels.row_of[task] for task in order] for order in self.plan.orders]

    @cached_property
    def _rows_of_pools(self) -> list[list[int]]:
        """The rows that take and give memory of each device: its own, and those of its transfers."""
        rows = [[*own] for own in self._rows]
        for task in chain.from_iterable(chain.from_iterable(self.plan.lanes)):
            rows[self._way(task).graph.pools[task]].append(self._levels.row_of[task])
        return rows

    @cached_property
    def _lengths(self) -> list[Column]:
        """What the rows last."""
        if self.plan.pairs and self.problem.costs.overlap is not None:
            pairs = dict(pair_durations(self.problem, self.plan.index, self.plan.pairs))
            own = [
                ((pairs[task],) * self.plan.index.units, 0) if task in pairs else self._entry("durations", task)
                for task in self._levels.tasks
            ]
            return [self._column(own)]
        return self._with_pairs("durations")

    @cached_property
    def _held(self) -> list[list[Column]]:
        """What the rows take as they start, and give back as they end."""
        return [self._with_pairs("takes"), self._with_pairs("gives")]

    @cached_property
    def _delays(self) -> list[Column | None]:
        """How long after the ends of what they wait for the rows start, for each column of waits."""
        return [self._delay(arrows) for arrows in self._levels.arrows]

    def _delay(self, arrows: Iterable[int]) -> Column | None:
        """Return the latencies of these precedences, one a row; None where there is none at all."""
        nothing = (self._ways[0].nothing, 0)
        entries = []
        for arrow in arrows:
            before, after = self._arrows[arrow] if 0 <= arrow < len(self._arrows) else (0, 0)
            way = self._way(before)
            lags = way.lag(before, after)
            entries.append(nothing if lags is way.nothing else (lags, self.plan.index.owner_of(before)))
        return self._column(entries) if any(entry is not nothing for entry in entries) else None

    def _with_pairs(self, column: str) -> list[Column]:
        """Return a column of the graph for the rows, and for the backwards that run with some of them."""
        pairs, nothing = self.plan.pairs, (self._ways[0].nothing, 0)
        tasks = self._levels.tasks
        columns = [self._column(self._entry(column, task) for task in tasks)]
        if pairs:
            columns.append(self._column(self._entry(column, pairs[t]) if t in pairs else nothing for t in tasks))
        return columns

    def _values(self, columns: Sequence[Column], units: Whole) -> Whole:
        first, *others = (column.values(units) for column in columns)
        for other in others:
            first += other
        return first

    def _column(self, entries: Iterable[Entry]) -> Column:
        """Return a column of these rows, and of the one behind the last, which is 0."""
        return Column([*entries, (self._ways[0].nothing, 0)], self._kind)

    def _entry(self, column: str, operation: int) -> Entry:
        return self._way(operation).of(column, operation), self.plan.index.owner_of(operation)

    def _way(self, operation: int) -> WayCosts:
        """Return the way that the position of an operation goes."""
        index = self.plan.index
        late = len(self._ways) == 2 and index.op(operation).microbatch >= index.microbatches // 2
        return self._ways[late]

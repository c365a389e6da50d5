"""What operations last, hold and wait for, by the microbatch that is fed at their position of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.placement import Placement
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers

ByUnit = tuple[int, ...]  # a number for each unit of a problem
Entry = tuple[ByUnit, int]  # of these the one of the unit that is fed at a position


class Column:
    """A number for each row of a case, which follows from what is fed at the row's position; `kind`: NumPy's type."""

    def __init__(self, entries: Iterable[Entry], kind: str) -> None:
        import numpy as np

        places = dict[int, int]()  # of a tuple, by its identity
        known = dict[ByUnit, int]()
        kinds, positions = [], []
        for values, position in entries:
            if id(values) not in places:
                places[id(values)] = known.setdefault(values, len(known))
            kinds.append(places[id(values)])
            positions.append(position)
        self._table = np.array([*known], kind)
        self._rows = np.array(kinds, np.intp) * len(self._table[0]) + np.array(positions, np.intp)

    def values(self, units: Whole) -> Whole:
        """Return the numbers, a row for each entry; `units` has the unit at each position, a column for each case."""
        return self._table[:, units].reshape(-1, units.shape[1])[self._rows]


class WayCosts:
    """The costs of all units on one way through the pipeline: every unit is told as if it went this way."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.index = plan.index
        self.graph = _graph(problem, plan)
        self._known = dict[tuple[str, int], ByUnit]()

    @property
    def longest(self) -> int:
        """The most that a slot can add to a makespan: a pair of the longest operations, and the largest latency."""
        return 2 * max(self.graph.durations) + max(self.graph.edges.lag.tolist(), default=0)

    @property
    def largest(self) -> int:
        """The most that a slot takes or gives back of memory."""
        return 2 * max(*self.graph.takes, *self.graph.gives)

    def of(self, column: str, operation: int) -> ByUnit:
        """Return a column of the graph (durations, takes, gives) for the units of an operation's stage and kind."""
        name = column, self.index.row_of(operation)
        if name not in self._known:
            row = self.index.row(self.index.kind_of(operation), self.index.stage_of(operation))
            self._known[name] = tuple(getattr(self.graph, column)[row.start : row.stop])
        return self._known[name]

    def lag(self, before: int, after: int) -> ByUnit:
        """Return the latency of the edge between two operations, for the units of the first one."""
        return self._lags.get((self.index.row_of(before), self.index.row_of(after)), self.nothing)

    @cached_property
    def nothing(self) -> ByUnit:
        """A zero for each unit."""
        return (0,) * self.index.units

    @cached_property
    def _lags(self) -> dict[tuple[int, int], ByUnit]:
        found = dict[tuple[int, int], list[int]]()
        for before, after, lag in self.graph.arrows():
            if lag:
                rows = self.index.row_of(before), self.index.row_of(after)
                found.setdefault(rows, [0] * self.index.units)[self.index.owner_of(before)] = lag
        return {rows: tuple(lags) for rows, lags in found.items()}


def ways_of(problem: Problem, plan: Plan) -> list[WayCosts]:
    """Return the way of all microbatches, or of a mirrored placement those of the first and of the second half."""
    placement = problem.settled_placement
    if not placement.mirrored:
        return [WayCosts(problem, plan)]
    other = tuple(placement.last - device for device in placement.devices)
    both = (Placement(placement.devices), Placement(other))
    return [WayCosts(replace(problem, placement=one), plan) for one in both]


def _graph(problem: Problem, plan: Plan) -> TaskGraph:
    """Return the graph of all operations but those that would be a forward's to prepare for, and stand nowhere."""
    absent = set[int]()
    for letter in plan.index.letters:
        if KINDS[letter].forward_gives is not None:
            absent.update(plan.index.of_kind(letter))
    return lower(problem, plan.index, absent.difference(*plan.orders) if absent else absent)

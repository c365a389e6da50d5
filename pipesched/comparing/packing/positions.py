"""What many orders of unlike microbatches take at once, under a plan whose positions do not depend on costs.

A column of an array is a case. All numbers are whole, so that sums are exact, and alike on every machine.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from pipesched.core.arrays import Ints, np, total
from pipesched.pipeline.lowering import lower, precedence_rows
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.ordering import SlotSweep

MOST_TICKS = 1 << 26


class LoadTable(NamedTuple):
    """What given microbatches take, a column each: by kind of operation and stage, and of messages by hop.

    Row b of `hops` is for forwards over boundary b, row S + b for gradients over it, and the last one is of zeros.
    """

    lengths: Ints
    hops: Ints


class Positions:
    """A plan as rows of slots; `problem` is that of M microbatches alike, whose works and messages are 1.

    So that products of ticks and works stay within 64 bits, these ticks are rounded: the stages together have at most
    MOST_TICKS. Exact times are those of a `LoadTable`.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._graph, self._plan = lower(problem, plan.index), plan
        self.grains_per_unit = problem.grains.per_unit
        self._slots, edges = SlotSweep(plan, self._graph.edges), self._graph.edges
        hops = sum(row.lag for row in precedence_rows(problem, plan.index))
        self._scale = max((total(self._graph.duration) // problem.microbatches + hops) // MOST_TICKS, 1)
        self._ticks = (self._graph.duration // self._scale).astype(np.int64)
        lags = np.concatenate([edges.lag // self._scale, [0] * (len(plan.waits) + 1)]).astype(np.int64)
        self._lags = lags[self._slots.sweep.edges]  # the last one is of the order of a device

    @property
    def microbatches(self) -> int:
        return self._plan.index.microbatches

    @property
    def letters(self) -> str:
        return self._plan.index.letters

    @property
    def has_lags(self) -> bool:
        """Whether any operation waits for a message."""
        return bool(self._lags.any())

    def _lengths(self, work: Ints) -> Ints:
        """Return how long the rows last, a column a case."""
        slots, units = self._slots, self._plan.index.units
        made: Ints = self._ticks[slots.tasks, None] * work[slots.tasks % units]
        if len(slots.paired):
            made[slots.paired] += self._ticks[slots.partners, None] * work[slots.partners % units]
        return made

    def exact_makespans(self, table: LoadTable, microbatches: Ints) -> Ints:
        """Return the makespan of each case in the ticks of a table; a case lists columns of it, in the order fed."""
        slots = self._slots
        lengths, delays = slots.values(table.lengths, microbatches), slots.delays(table.hops, microbatches)
        makespans: Ints = slots.sweep.ends(lengths, delays).max(axis=0)
        return makespans

    def makespans(self, work: Ints, messages: Ints | None = None) -> Ints:
        """Return the makespan of each case: a column of works, and of sizes of messages, by the microbatch fed."""
        makespans: Ints = self._slots.sweep.ends(self._lengths(work), self._delays(messages)).max(axis=0)
        return makespans

    def _delays(self, messages: Ints | None) -> Ints | None:
        """Return what passes between rows, a row a wait; None where nothing does."""
        if messages is None or not self.has_lags:
            return None
        delays: Ints = self._lags[:, None] * messages[self._slots.messages % self._plan.index.units]
        return delays

    def slopes(self, work: Ints, messages: Ints | None = None) -> tuple[Ints, Ints]:
        """Return the makespan of each case, and the ticks by which a unit of work of each microbatch makes it longer.

        These are the ticks of its operations on one longest path.
        """
        delays = self._delays(messages)
        ends = self._slots.sweep.ends(self._lengths(work), delays)
        path = self._slots.sweep.longest(ends, delays)
        return ends.max(axis=0), (self._ticks_by_owner @ path.astype(np.float64)).astype(np.int64)

    @cached_property
    def _ticks_by_owner(self) -> Ints:
        """The ticks for a unit of work of each microbatch, a column a slot; floats are exact for so few."""
        table, slots = np.zeros((self.microbatches, len(self._slots))), self._slots
        for rows, tasks in ((np.arange(len(slots)), slots.tasks), (slots.paired, slots.partners)):
            table[tasks % self.microbatches, rows] += self._ticks[tasks]
        return table

    def levels_of_memory(self, device: int) -> Ints:
        """Return what a device holds as each slot starts, in grains for a unit of activation of each microbatch.

        They are Python's own ints, for grains may be many.
        """
        index, graph, pairs = self._plan.index, self._graph, self._plan.pairs
        held = [0] * index.microbatches
        found = []
        for task in self._plan.orders[device]:
            operations = [task, pairs[task]] if task in pairs else [task]
            for operation in operations:
                held[index.owner_of(operation)] += graph.takes[operation]
            found.append([*held])
            for operation in operations:
                held[index.owner_of(operation)] -= graph.gives[operation]
        return np.array(found, dtype=object)

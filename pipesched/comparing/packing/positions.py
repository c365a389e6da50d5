"""What many orders of unlike microbatches take at once, under a plan whose positions do not depend on costs.

A column of an array is a case. All numbers are whole, so that sums are exact, and alike on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.pipeline.lowering import lower, precedence_rows
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.feeding.levels import SlotLevels

MOST_TICKS = 1 << 26
Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers


class Lasting(NamedTuple):
    """What some rows last: `ticks` where the work of the microbatch, their owner, is 1; `kinds` are rows of a table."""

    rows: Whole
    ticks: Whole
    owners: Whole
    kinds: Whole


class Messages(NamedTuple):
    """What rows wait for beside the ends of others, one a row: `ticks` where the message of the sender is of size 1.

    `hops` are rows of a table of latencies, the last one where there is no message.
    """

    ticks: Whole
    senders: Whole
    hops: Whole


class LoadTable(NamedTuple):
    """What given microbatches take, a column each: by kind of operation and stage, and of messages by hop.

    Row b of `hops` is for forwards over boundary b, row S + b for gradients over it, and the last one is of zeros.
    """

    lengths: Whole
    hops: Whole


class Positions:
    """A plan as levels of slots; `problem` is that of M microbatches alike, whose works and messages are 1.

    So that products of ticks and works stay within 64 bits, these ticks are rounded: the stages together have at most
    MOST_TICKS. Exact times are those of a `LoadTable`.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._graph, self._plan = lower(problem, plan.index), plan
        self.grains_per_unit = problem.grains.per_unit
        rows = [*precedence_rows(problem, plan.index)]
        self._levels = SlotLevels(plan, [pair for row in rows for pair in zip(row.before, row.after, strict=True)])
        self._count = len(self._levels)
        whole = sum(self._graph.durations) // problem.microbatches + sum(row.lag for row in rows)
        self._scale = max(whole // MOST_TICKS, 1)
        owner, nothing = plan.index.owner_of, 2 * plan.index.stages - 1
        sent = [
            (row.lag // self._scale, owner(n), self._hop(row.boundary, row.after)) for row in rows for n in row.before
        ]
        table = np.array([*sent, (0, 0, nothing)])  # the order of a device, precedence -1, waits for no message
        self._messages = [Messages(*table[arrows].T) for arrows in self._levels.arrows]
        self._lasting = [*self._parts()]

    def _hop(self, boundary: int, after: range) -> int:
        """Return the row of a table for what crosses a boundary: forwards first, then gradients."""
        if boundary < 0:
            return 2 * self._plan.index.stages - 1
        return boundary if self._plan.index.is_forward(after[0]) else boundary + self._plan.index.stages

    @property
    def microbatches(self) -> int:
        """The number of microbatches."""
        return self._plan.index.microbatches

    @property
    def letters(self) -> str:
        """The kinds of operations of the plan."""
        return self._plan.index.letters

    @property
    def has_lags(self) -> bool:
        """Whether any operation waits for a message."""
        return any(part.ticks.any() for part in self._messages)

    def _parts(self) -> Iterator[Lasting]:
        """Yield what the operations last: all but the backwards of pairs, then these, which add to them."""
        index, pairs, durations = self._plan.index, self._plan.pairs, self._graph.durations
        slots = [*enumerate(self._levels.tasks)]
        for part in (slots, [(row, pairs[task]) for row, task in slots if task in pairs]):
            if part:
                found = [(n, durations[one] // self._scale, index.owner_of(one), index.row_of(one)) for n, one in part]
                yield Lasting(*np.array(found).T)

    def _lengths(self, work: Whole) -> Whole:
        """Return how long the rows last, a column a case, and in a last row 0."""
        made = np.empty((self._count + 1, work.shape[1]), dtype=work.dtype)
        made[-1] = 0
        (_, ticks, owners, _), *pairs = self._lasting
        np.multiply(ticks[:, None], work[owners], out=made[:-1])
        for rows, ticks, owners, _ in pairs:
            made[rows] += ticks[:, None] * work[owners]
        return made

    def exact_makespans(self, table: LoadTable, microbatches: Whole) -> Whole:
        """Return the makespan of each case in the ticks of a table; a case lists columns of it, in the order fed."""
        made = np.zeros((self._count + 1, microbatches.shape[1]), dtype=table.lengths.dtype)
        for rows, _, owners, kinds in self._lasting:
            made[rows] += table.lengths[kinds[:, None], microbatches[owners]]
        delays: list[Any] = []
        if table.hops.any():
            delays = [table.hops[part.hops[:, None], microbatches[part.senders]] for part in self._messages]
        makespans: Whole = self._levels.ends(made, delays).max(axis=0)
        return makespans

    def makespans(self, work: Whole, messages: Whole | None = None) -> Whole:
        """Return the makespan of each case: a column of works, and of sizes of messages, by the microbatch fed."""
        makespans: Whole = self._levels.ends(self._lengths(work), self._delays(messages)).max(axis=0)
        return makespans

    def _delays(self, messages: Whole | None) -> list[Any]:
        """Return what passes between rows, a column a case, for each column of waits; None where nothing does."""
        if messages is None:
            return [None] * len(self._messages)
        return [part.ticks[:, None] * messages[part.senders] if part.ticks.any() else None for part in self._messages]

    def slopes(self, work: Whole, messages: Whole | None = None) -> tuple[Whole, Whole]:
        """Return the makespan of each case, and the ticks by which a unit of work of each microbatch makes it longer.

        These are the ticks of its operations on one longest path.
        """
        delays = self._delays(messages)
        ends = self._levels.ends(self._lengths(work), delays)
        cases = np.arange(work.shape[1])
        here, path = ends.argmax(axis=0), []
        while (here < self._count).any():
            path.append(here)
            latest, chosen = np.full(len(cases), -1, dtype=ends.dtype), here
            for before, delay in zip(self._before_or_none, delays, strict=True):
                other = before[here]
                late = ends[other, cases]
                if delay is not None:
                    late = late + delay[np.minimum(here, self._count - 1), cases]
                chosen = np.where(late > latest, other, chosen)
                latest = np.maximum(latest, late)
            here = chosen
        return ends.max(axis=0), self._ticks_by_owner(len(work))[np.array(path)].sum(axis=0).T

    @cached_property
    def _before_or_none(self) -> list[Whole]:
        """What each row waits for, with a last row that waits for itself."""
        return [np.append(before, self._count) for before in self._levels.before]

    def _ticks_by_owner(self, microbatches: int) -> Whole:
        """Return the ticks for a unit of work of each microbatch, a row a slot, and a last row of nothing."""
        table = np.zeros((self._count + 1, microbatches), dtype=np.int64)
        for rows, ticks, owners, _ in self._lasting:
            table[rows, owners] += ticks
        return table

    def levels_of_memory(self, device: int) -> Whole:
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

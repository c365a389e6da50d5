"""What many orders of unlike microbatches take at once, under a plan whose positions do not depend on costs.

The operations of the plan stand in levels: each waits for operations of earlier levels alone, so that a level is a few
steps on arrays, in which a column is a case. All numbers are whole, so that sums are exact, and alike on every machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.pipeline.lowering import lower, precedence_rows
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem

Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers


class Wait(NamedTuple):
    """That an operation waits for another, and for how long after its end: `lag` for a message of size 1."""

    before: int
    lag: int = 0
    owner: int = 0  # the microbatch whose message it is


class Lasting(NamedTuple):
    """How long some rows last: so many ticks for each unit of work of a microbatch."""

    rows: Whole
    ticks: Whole
    owners: Whole


class Level(NamedTuple):
    """Rows that follow one another, and the rows that each waits for, one column after another."""

    rows: slice
    waits: list[Whole]


class Positions:
    """A plan as levels; `problem` is that of M microbatches alike, whose costs are those of work and messages of 1."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._graph = lower(problem, plan.index)
        self._plan = plan
        waits = _waits(problem, plan)
        order, heights = _by_height(waits)
        row = {task: number for number, task in enumerate(order)}
        self._count = len(order)
        nothing = Wait(-1)
        row[-1] = self._count
        columns = range(max(map(len, waits.values())))
        table = [[waits[task][n] if n < len(waits[task]) else nothing for task in order] for n in columns]
        self._before = [np.array([row[wait.before] for wait in column]) for column in table]
        self._lags = [np.array([wait.lag for wait in column]) for column in table]
        self._senders = [np.array([wait.owner for wait in column]) for column in table]
        cuts = [0, *(n for n, (a, b) in enumerate(pairwise(heights), 1) if a != b), self._count]
        self._levels = [
            Level(slice(a, b), [before[a:b] for before in self._before]) for a, b in pairwise(cuts)
        ]
        self._widest = max(b - a for a, b in pairwise(cuts))
        self.lasting = [*self._lasting(row)]

    @property
    def has_lags(self) -> bool:
        """Whether any operation waits for a message."""
        return any(map(np.any, self._lags))

    @property
    def rows(self) -> int:
        """The number of rows: of slots of the devices."""
        return self._count

    def _lasting(self, row: dict[int, int]) -> Iterator[Lasting]:
        """Yield what the operations last: all but the backwards of pairs, then these, which their slots last besides."""
        index, durations = self._plan.index, self._graph.durations
        slots = [(number, task) for task, number in row.items() if task >= 0]
        pairs = [(number, self._plan.pairs[task]) for number, task in slots if task in self._plan.pairs]
        for part in (slots, pairs):
            if part:
                numbers, operations = zip(*sorted(part), strict=True)
                owners = [index.owner_of(operation) for operation in operations]
                ticks = [durations[operation] for operation in operations]
                yield Lasting(*map(np.array, (numbers, ticks, owners)))

    def lengths(self, work: Whole) -> Whole:
        """Return how long the rows last, a column a case; `work` has a row a microbatch, and a last row that is free."""
        made = np.empty((self._count + 1, work.shape[1]), dtype=work.dtype)
        made[-1] = 0
        (_, ticks, owners), *pairs = self.lasting
        np.multiply(ticks[:, None], work[owners], out=made[:-1])
        for rows, ticks, owners in pairs:
            made[rows] += ticks[:, None] * work[owners]
        return made

    def makespans(self, work: Whole, messages: Whole | None = None) -> Whole:
        """Return the makespan of each case: a column of works, and of sizes of messages, by the microbatch fed."""
        return self.ends(self.lengths(work), messages).max(axis=0)

    def ends(self, lengths: Whole, messages: Whole | None = None) -> Whole:
        """Return the ends of the rows, in the place of their lengths, and in the last row 0."""
        lags = self._delays(messages)
        first = np.empty((self._widest, lengths.shape[1]), dtype=lengths.dtype)
        second = np.empty_like(first)
        for rows, waits in self._levels:
            latest, other = first[: rows.stop - rows.start], second[: rows.stop - rows.start]
            for column, before in enumerate(waits):
                target = other if column else latest
                np.take(lengths, before, axis=0, out=target, mode="clip")
                if lags[column] is not None:
                    target += lags[column][rows]
                if column:
                    np.maximum(latest, other, out=latest)
            lengths[rows] += latest
        return lengths

    def _delays(self, messages: Whole | None) -> list[Any]:
        """Return what passes between rows, a column a case, for each column of waits; None where nothing does."""
        if messages is None:
            return [None] * len(self._lags)
        pairs = zip(self._lags, self._senders, strict=True)
        return [lag[:, None] * messages[sender] if lag.any() else None for lag, sender in pairs]

    def slopes(self, work: Whole, messages: Whole | None = None) -> tuple[Whole, Whole]:
        """Return the makespan of each case, and the ticks by which a unit of work of each microbatch makes it longer.

        These are the ticks of its operations on one longest path.
        """
        ends, delays = self.ends(self.lengths(work), messages), self._delays(messages)
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
        return [np.append(before, self._count) for before in self._before]

    def _ticks_by_owner(self, microbatches: int) -> Whole:
        """Return the ticks for a unit of work of each microbatch, a row a slot, and a last row of nothing."""
        table = np.zeros((self._count + 1, microbatches), dtype=np.int64)
        for rows, ticks, owners in self.lasting:
            table[rows, owners] += ticks
        return table

    def levels_of_memory(self, device: int) -> Whole:
        """Return what a device holds as each slot starts, in grains for a unit of activation of each microbatch."""
        index, graph, pairs = self._plan.index, self._graph, self._plan.pairs
        held = np.zeros(index.microbatches, dtype=np.int64)
        found = []
        for task in self._plan.orders[device]:
            operations = [task, pairs[task]] if task in pairs else [task]
            for operation in operations:
                held[index.owner_of(operation)] += graph.takes[operation]
            found.append(held.copy())
            for operation in operations:
                held[index.owner_of(operation)] -= graph.gives[operation]
        return np.array(found)


def _waits(problem: Problem, plan: Plan) -> dict[int, list[Wait]]:
    """Return for each slot what it waits for: the slot before it first, if any; what that implies is left out."""
    index, task_of = plan.index, {backward: forward for forward, backward in plan.pairs.items()}
    machine, position, waits = {}, {}, defaultdict[int, list[Wait]](list)
    for number, order in enumerate(plan.orders):
        for entry, task in enumerate(order):
            machine[task], position[task] = number, entry
            waits[task] = [Wait(order[entry - 1])] if entry else []
    for row in precedence_rows(problem, index):
        for before, after in zip(row.before, row.after, strict=True):
            first, second = task_of.get(before, before), task_of.get(after, after)
            if first not in machine or second not in machine or first == second:
                continue
            if machine[first] != machine[second] or position[first] > position[second]:
                waits[second].append(Wait(first, row.lag, index.owner_of(before)))
    return waits


def _by_height(waits: dict[int, list[Wait]]) -> tuple[list[int], list[int]]:
    """Return the slots by their heights, the most waits on a way to each, and the heights."""
    open_waits = {task: len(known) for task, known in waits.items()}
    followers = defaultdict[int, list[int]](list)
    for task, known in waits.items():
        for wait in known:
            followers[wait.before].append(task)
    height = dict.fromkeys(waits, 0)
    ready = [task for task, count in open_waits.items() if not count]
    for task in ready:  # grows while it is walked
        for follower in followers[task]:
            height[follower] = max(height[follower], height[task] + 1)
            open_waits[follower] -= 1
            if not open_waits[follower]:
                ready.append(follower)
    order = sorted(ready, key=height.__getitem__)
    return order, [height[task] for task in order]

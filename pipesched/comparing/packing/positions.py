"""What many orders of unlike microbatches take at once, under a plan whose positions do not depend on costs.

The operations of the plan stand in levels: each waits for operations of earlier levels alone, so that a level is a few
steps on arrays, in which a column is a case. All numbers are whole, so that sums are exact, and alike on every machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.pipeline.lowering import lower, precedence_rows
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem

MOST_TICKS = 1 << 26
Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers


class Wait(NamedTuple):
    """That a slot waits for another; for a message of a microbatch, which takes `lag` where its size is 1.

    `hop` is the row of the message in a table of latencies, -1 where there is none.
    """

    before: int
    lag: int = 0
    owner: int = 0
    hop: int = -1


class Lasting(NamedTuple):
    """What some rows last: `ticks` where the work of the microbatch, their owner, is 1; `kinds` are rows of a table."""

    rows: Whole
    ticks: Whole
    owners: Whole
    kinds: Whole


class Level(NamedTuple):
    """Rows that follow one another, and the rows that each waits for, one column after another."""

    rows: slice
    waits: list[Whole]


class Table(NamedTuple):
    """What given microbatches take, a column each: by kind of operation and stage, and of messages by hop.

    Row b of `hops` is for forwards over boundary b, row S + b for gradients over it, and the last one is of zeros.
    """

    lengths: Whole
    hops: Whole


class Positions:
    """A plan as levels; `problem` is that of M microbatches alike, whose costs are those of works and messages of 1.

    So that products of ticks and works stay within 64 bits, these ticks are rounded: the stages together have at most
    MOST_TICKS. Exact times are those of a `Table`.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._graph = lower(problem, plan.index)
        self._plan = plan
        waits = _waits(problem, plan)
        order, heights = _by_height(waits)
        row = {task: number for number, task in enumerate(order)}
        self._count = len(order)
        self._scale = max(sum(self._graph.durations) // (problem.microbatches * MOST_TICKS), 1)
        nothing = Wait(-1)
        row[-1] = self._count
        columns = range(max(map(len, waits.values())))
        table = [[waits[task][n] if n < len(waits[task]) else nothing for task in order] for n in columns]
        self._before = [np.array([row[wait.before] for wait in column]) for column in table]
        self._lags = [np.array([wait.lag // self._scale for wait in column]) for column in table]
        self._senders = [np.array([wait.owner for wait in column]) for column in table]
        self._hops = [np.array([wait.hop for wait in column]) for column in table]
        cuts = [0, *(n for n, (a, b) in enumerate(pairwise(heights), 1) if a != b), self._count]
        self._levels = [Level(slice(a, b), [before[a:b] for before in self._before]) for a, b in pairwise(cuts)]
        self._widest = max(b - a for a, b in pairwise(cuts))
        self._lasting = [*self._parts(row)]

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
        return any(map(np.any, self._lags))

    def _parts(self, row: dict[int, int]) -> Iterator[Lasting]:
        """Yield what the operations last: all but the backwards of pairs, then these, which their slots last besides."""
        index, durations = self._plan.index, self._graph.durations
        slots = [(number, task) for task, number in row.items() if task >= 0]
        pairs = [(number, self._plan.pairs[task]) for number, task in slots if task in self._plan.pairs]
        for part in (slots, pairs):
            if part:
                numbers, operations = zip(*sorted(part), strict=True)
                ticks = [durations[operation] // self._scale for operation in operations]
                owners, kinds = map(index.owner_of, operations), map(index.row_of, operations)
                yield Lasting(*map(np.array, (numbers, ticks, [*owners], [*kinds])))

    def _lengths(self, work: Whole) -> Whole:
        """Return how long the rows last, a column a case, and in a last row 0."""
        made = np.empty((self._count + 1, work.shape[1]), dtype=work.dtype)
        made[-1] = 0
        (_, ticks, owners, _), *pairs = self._lasting
        np.multiply(ticks[:, None], work[owners], out=made[:-1])
        for rows, ticks, owners, _ in pairs:
            made[rows] += ticks[:, None] * work[owners]
        return made

    def exact_makespans(self, table: Table, microbatches: Whole) -> Whole:
        """Return the makespan of each case in the ticks of a table; a case lists columns of it, in the order fed."""
        made = np.zeros((self._count + 1, microbatches.shape[1]), dtype=table.lengths.dtype)
        for rows, _, owners, kinds in self._lasting:
            made[rows] += table.lengths[kinds[:, None], microbatches[owners]]
        delays: list[Any] = [None] * len(self._hops)
        if table.hops.any():
            messages = zip(self._hops, self._senders, strict=True)
            delays = [table.hops[hops[:, None], microbatches[senders]] for hops, senders in messages]
        return self._ends(made, delays).max(axis=0)

    def makespans(self, work: Whole, messages: Whole | None = None) -> Whole:
        """Return the makespan of each case: a column of works, and of sizes of messages, by the microbatch fed."""
        return self._ends(self._lengths(work), self._delays(messages)).max(axis=0)

    def _ends(self, lengths: Whole, delays: Sequence[Whole | None]) -> Whole:
        """Return the ends of the rows, in the place of their lengths; `delays` are those of messages, by column."""
        first = np.empty((self._widest, lengths.shape[1]), dtype=lengths.dtype)
        second = np.empty_like(first)
        for rows, waits in self._levels:
            latest, other = first[: rows.stop - rows.start], second[: rows.stop - rows.start]
            for column, before in enumerate(waits):
                target = other if column else latest
                lengths.take(before, axis=0, out=target, mode="clip")
                delay = delays[column]
                if delay is not None:
                    target += delay[rows]
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
        delays = self._delays(messages)
        ends = self._ends(self._lengths(work), delays)
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
                hop = row.boundary if index.is_forward(after) or row.boundary < 0 else row.boundary + index.stages
                waits[second].append(Wait(first, row.lag, index.owner_of(before), hop))
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

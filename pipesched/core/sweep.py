"""Tasks whose order is settled, timed in many cases at once: with other lengths, or other lags, in each.

A row is a task, a column a case. Each row waits for earlier rows alone, so one pass over the rows times all cases. A
compiled kernel goes row by row; without one, numpy goes level by level, since the rows of a level do not wait for each
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from pipesched.core.arrays import Ints, Kernels, column, compiled_kernels, is_wide, np
from pipesched.core.clock import look
from pipesched.core.tasks import Edges, WaitTable
from pipesched.core.timing import Orders, arrange

_NONE = -1


class _RowsOfLevel(NamedTuple):
    """Neighbouring rows of a level, and those (None: all) that have a first wait, a second, ..; its number and row."""

    rows: slice
    waiting: list[tuple[Ints | None, Ints, Ints]]


class CaseSweep:
    """What stands in some orders, in rows: `tasks[r]` is the task of row r, `machines[r]` the number of its order.

    Row r waits for the rows of `before` from `first[r]` to `first[r + 1]`. `edges` says by which of the edges that were
    given, below 0 by the order alone. `rows[m]` are the rows of order m.
    """

    def __init__(self, size: int, orders: Orders, edges: Edges) -> None:
        """Arrange orders, of `size` tasks at most, that can run: they and the edges hold no cycle.

        Edges of tasks that stand nowhere are left out, and those of no lag within an order, which implies them.
        """
        counts = [*map(len, orders)]
        tasks = np.concatenate([column(()), *map(column, orders)]).astype(np.int64, copy=False)
        count, machines, place = len(tasks), np.repeat(np.arange(len(counts)), counts), np.full(size, _NONE)
        place[tasks] = np.arange(count)
        before, after = place[edges.before], place[edges.after]
        kept = np.flatnonzero((before >= 0) & (after >= 0))
        kept = kept[(machines[before[kept]] != machines[after[kept]]) | (edges.lag[kept] != 0)]
        behind = np.flatnonzero(machines[1:] == machines[:-1]) + 1
        before, after = np.concatenate([behind - 1, before[kept]]), np.concatenate([behind, after[kept]])
        sequence = np.argsort(after, kind="stable")  # who waits for the same stands by its number
        followers = WaitTable(before[sequence], after[sequence], sequence, count)
        arranged, height, _ = arrange(followers, np.bincount(after, minlength=count))
        row = np.empty(count, dtype=np.int64)
        row[arranged] = np.arange(count)
        waits = WaitTable(row[after], row[before], np.concatenate([np.full(len(behind), _NONE), kept]), count)
        self.first, self.before, self.edges = waits.first, waits.task, waits.lag
        self.tasks, self.machines = tasks[arranged], machines[arranged]
        self.rows = np.split(row, np.cumsum(counts)[:-1]) if counts else []
        self._levels = np.flatnonzero(np.diff(height[arranged], append=_NONE)) + 1  # where each ends

    def __len__(self) -> int:
        return len(self.tasks)

    def vectors(self, kept: Ints) -> tuple[Ints, int]:
        """Return a vector for the ends of each row, and how many there are: few, for what is read is written again.

        Those of the rows `kept` are read when all rows are done.
        """
        unread = np.bincount(self.before, minlength=len(self))
        unread[kept] += 1
        kernels = Kernels()
        vector, free = kernels.blank(len(self)), kernels.blank(len(self))
        count = kernels.run.share_vectors(*map(kernels.give, (self.first, self.before, unread)), vector, free)
        return column(vector), count

    def ends(self, lengths: Ints, delays: Ints | None = None, lag: Ints | None = None) -> Ints:
        """Return when each row ends in each case, by what rows last.

        `delays` has a row a wait, or none at all; `lag` a number a wait, which all cases have.
        """
        ends = np.empty_like(lengths)
        compiled = None if is_wide(ends) else compiled_kernels()
        if compiled is None:
            self._by_level(0, lengths, ends, None, lag, delays)
            return ends
        every, none = np.arange(len(self)), np.zeros(len(self.before), dtype=ends.dtype)
        more = ends[:0] if delays is None else np.ascontiguousarray(delays)
        lags, lasting = none if lag is None else lag, np.ascontiguousarray(lengths)
        compiled.sweep(0, self.first, self.before, every, lags, more, lasting, ends)
        return ends

    def advance(self, begin: int, lengths: Ints, ends: Ints, vector: Ints, lag: Ints) -> None:
        """Put when rows from `begin` on end into their vectors, by what each lasts, and a `lag` for each wait.

        All numbers are of one type: of 64 bits, whole or not, or Python's own.
        """
        compiled = None if is_wide(ends) else compiled_kernels()
        if compiled is None:
            self._by_level(begin, lengths, ends, vector, lag if lag.any() else None, None)
        else:
            compiled.sweep(begin, self.first, self.before, vector, lag, ends[:0], lengths, ends)

    def _by_level(
        self, begin: int, lengths: Ints, ends: Ints, vector: Ints | None, lag: Ints | None, delays: Ints | None
    ) -> None:
        """Do what the kernel does; without `vector` row r of `ends` is that of row r."""
        for rows, waiting in self._every_step if vector is None else self._steps(begin, begin + len(lengths)):
            found, latest = lengths[rows.start - begin : rows.stop - begin], None
            for some, waits, before in waiting:
                ready = ends.take(before if vector is None else vector[before], axis=0)
                if lag is not None:
                    ready += lag[waits, None]
                if delays is not None:
                    ready += delays.take(waits, axis=0)
                if latest is None:
                    latest = ready
                elif some is None:
                    np.maximum(latest, ready, out=latest)
                else:
                    latest[some] = np.maximum(latest[some], ready)
            ends[rows if vector is None else vector[rows]] = found if latest is None else latest + found

    @cached_property
    def _every_step(self) -> list[_RowsOfLevel]:
        return [*self._steps(0, len(self))]

    def _steps(self, begin: int, stop: int) -> Iterator[_RowsOfLevel]:
        """Yield the rows from one to another in parts of a level each."""
        low, high = np.searchsorted(self._levels, [begin + 1, stop])
        inside = self._levels[low:high].tolist()
        for start, end in zip([begin, *inside], [*inside, stop], strict=True):
            look()
            firsts = self.first[start:end]
            counts = self.first[start + 1 : end + 1] - firsts
            waiting: list[tuple[Ints | None, Ints, Ints]] = []
            for number in range(int(counts.max(initial=0))):
                some = np.flatnonzero(counts > number)
                waits = firsts[some] + number
                waiting.append((None if len(some) == end - start else some, waits, self.before[waits]))
            yield _RowsOfLevel(slice(start, end), waiting)

    def longest(self, ends: Ints, delays: Ints | None = None) -> Ints:
        """Return 1 for the rows of a longest path of each case, whose ends are given, and 0 for all others."""
        kernels, cases = Kernels(ends), ends.shape[1]
        found = kernels.blank(ends.size)
        delayed = kernels.blank(len(self.before) * cases) if delays is None else kernels.give(delays.ravel())
        columns = [kernels.give(values) for values in (self.first, self.before)]
        last = kernels.give(ends.argmax(axis=0))
        kernels.run.trace(*columns, delayed, kernels.give(ends.ravel()), last, found)
        return column(found).reshape(ends.shape)

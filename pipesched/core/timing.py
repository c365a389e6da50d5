"""From the order on each machine to times (`earliest_times`): every task as early as order and predecessors allow.

Linear in tasks and precedences. A machine runs on until its next task waits for a task that has not ended; the end of
that task wakes it again. When every machine sleeps, they wait for each other in a cycle: a deadlock. `Retiming` times
orders again with other durations. `CaseSweep` times orders that can run in many cases at once, with other lengths or
lags in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from pipesched.core.arrays import Ints, column, compiled_kernels, in_range, kernels_for, lists, np, run_kernel
from pipesched.core.clock import EVERY, check_deadline
from pipesched.core.tasks import Edges, TaskGraph, WaitTable
from pipesched.errors import Deadlock, InvalidSchedule

UNTIMED = -1
Orders = Sequence[Sequence[int]] | Sequence[Ints]  # of machines: the tasks of each, in order
_NONE = -1
UNREACHED = -1


class Times:
    """The start and the end of each task in ticks, as arrays and as lists; UNTIMED for a task in no order."""

    def __init__(self, start: Ints | Sequence[int], end: Ints | Sequence[int]) -> None:
        self.start, self.end = column(start), column(end)

    @cached_property
    def starts(self) -> list[int]:
        return lists(self.start)

    @cached_property
    def ends(self) -> list[int]:
        return lists(self.end)

    def __iter__(self) -> Iterator[list[int]]:
        return iter((self.starts, self.ends))


def earliest_times(graph: TaskGraph, orders: Orders) -> Times:
    """Return when each task runs if each of `orders` runs one task at a time, in that order, from time 0.

    Raises Deadlock with the cycle, or InvalidSchedule when a task waits for one that no order holds.
    """
    return Retiming(graph, orders).times()


class Retiming:
    """The same orders timed with one or several sets of durations; what waits for what is looked up once."""

    def __init__(self, graph: TaskGraph, orders: Orders) -> None:
        self._graph = graph
        self.bounds = np.cumsum([0, *map(len, orders)])  # of each machine in the order of all
        self._begins, self._stops = self.bounds[:-1], self.bounds[1:]
        self.order = np.concatenate([column(()), *map(column, orders)]).astype(np.int64, copy=False)

    def times(self) -> Times:
        """Return when each task runs, as `earliest_times` does."""
        times, done = self._run()
        if done < len(self.order):  # also where a task stands twice
            raise self._stuck(times.ends)
        return times

    def tried(self) -> Times | None:
        """Return when each task runs; None for a deadlock."""
        times, done = self._run()
        return None if done < len(self.order) else times

    def _run(self, *state: Ints) -> tuple[Times, int]:
        """Return the times, and how many tasks have run.

        The state, if other than at the begin, is the durations, a place and a time from which on each machine runs, and
        starts and ends.
        """
        check_deadline()
        waits, size, machines = self._graph.waits, len(self._graph), len(self._stops)
        begins, blank = self._begins, np.zeros((2, machines), int)
        begun = state or (self._graph.duration, begins.copy(), begins * 0, *np.full((2, size), UNTIMED))
        duration, places, clocks, *times = begun
        fixed = (self.order, self._stops, waits.first, waits.task, waits.lag, duration)
        done, found = run_kernel("replay", *fixed, *times, clocks, places, *blank, written=6)
        return Times(*found[:2]), done

    def changed(self, times: Times, durations: Sequence[int], since: int) -> Times:
        """Return the times with other durations, which differ in no task that starts before `since` in `times`."""
        duration, start, end = column(durations), times.start, times.end
        if self._graph.duration.dtype == object:
            duration, start, end = (values.astype(object) for values in (duration, start, end))
        is_left, begins = start[self.order] >= since, self._begins
        early = np.append(0, np.cumsum(~is_left))
        places = begins + early[self._stops] - early[begins]
        last = self.order[np.maximum(places - 1, 0)] if len(self.order) else places
        clocks = np.where(places > begins, end[last] if len(end) else 0, 0)
        start, end = start.copy(), end.copy()
        end[self.order[is_left]] = UNTIMED
        return self._run(duration, places, clocks, start, end)[0]

    def critical(self, times: Times) -> bytearray:
        """Return for each task 1 if it is in an order and cannot end later without a later end of all, else 0."""
        waits, size = self._graph.waits, len(self._graph)
        machine, position = self.positions
        lasts = self.order[self._stops[np.diff(self._stops, prepend=0) > 0] - 1]
        end = times.end
        late = lasts[end[lasts] == end[lasts].max()]
        left = np.zeros(len(waits.task) + size + len(late), int)
        left[: len(late)] = late
        columns = (self.order, self._begins, machine, position, waits.first, waits.task, waits.lag, times.start, end)
        _, (found, *_) = run_kernel("critical", *columns, np.zeros(size, int), left, len(late), written=3)
        return bytearray(lists(found))

    @cached_property
    def positions(self) -> tuple[Ints, Ints]:
        """The machine of each task, and its position in that machine's order."""
        machine, position = np.full(len(self._graph), _NONE), np.full(len(self._graph), _NONE)
        begins = self._begins
        counts = self._stops - begins
        machine[self.order] = np.repeat(np.arange(len(counts)), counts)
        position[self.order] = np.arange(len(self.order)) - np.repeat(begins, counts)
        return machine, position

    def _stuck(self, ends: Sequence[int]) -> InvalidSchedule:
        """Return the error with the cycle: walk from each machine to the one it waits for, until one comes again."""
        machine, waits = self.positions[0].tolist(), self._graph.waits
        twice = np.flatnonzero(np.bincount(self.order) > 1)
        if len(twice):
            return InvalidSchedule(f"task {twice[0]} stands twice")
        stuck = {
            number: next(task for task in self.order[begin:stop].tolist() if ends[task] < 0)
            for number, (begin, stop) in enumerate(zip(self._begins.tolist(), self._stops.tolist(), strict=True))
            if begin < stop and ends[self.order[stop - 1]] < 0
        }
        path: list[tuple[int, int, int]] = []  # (machine, the task it is stuck at, the task that it waits for)
        here = next(iter(stuck))
        while here not in (seen for seen, _, _ in path):
            task = stuck[here]
            needed = waits.task[waits.first[task] : waits.first[task + 1]].tolist()
            before = next(wait for wait in needed if ends[wait] < 0)
            path.append((here, task, before))
            here = machine[before]
            if here == _NONE:
                return InvalidSchedule(f"task {task} waits for task {before}, which no order holds")
        cycle = path[[seen for seen, _, _ in path].index(here) :]
        chain = ", ".join(f"task {task} on machine {number} waits for task {before}" for number, task, before in cycle)
        links = [(task, number) for number, task, _ in cycle]
        return Deadlock(f"deadlock: {chain}", links, [before for _, _, before in cycle])


def in_order(graph: TaskGraph, tasks: Ints, key: Ints) -> Ints:
    """Return tasks by the key of each task, each behind what it waits for; none that is in a cycle."""
    check_deadline()
    size, follows, waiting, (_, kernels, give) = len(graph), graph.followers, np.diff(graph.waits.first), kernels_for()
    free, place, begun = tasks[waiting[tasks] == 0], np.zeros(size, int), np.zeros(size, int)
    begun[: len(free)] = free[np.argsort(key[free], kind="stable")]
    place[begun[: len(free)]] = np.arange(len(free))
    ready = kernels.Heaps(*map(give, (begun, column([0]), column([len(free)]), key, place)))
    order = give(np.zeros(size, int))
    count = kernels.sort_by_key(*map(give, (follows.first, follows.task, waiting)), order, ready)
    return column(order)[:count]


def topological_order(graph: TaskGraph) -> list[int]:
    """Return the tasks in an order in which each comes after all that it waits for.

    Raises InvalidSchedule for a cycle.
    """
    return lists(arranged(graph)[0])


def arranged(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Return `topological_order`, and how many tasks are before each in the longest chain that leads to it."""
    check_deadline()
    follows, waiting = graph.followers, np.diff(graph.waits.first)
    columns = (follows.first, follows.task, waiting, 0 * waiting, 0 * waiting)
    _, (left, height, tasks) = run_kernel("arrange", *columns, written=3)
    if left.any():
        raise InvalidSchedule(f"the precedences of tasks {np.flatnonzero(left)[:8].tolist()} form a cycle")
    return tasks, height


def heads(graph: TaskGraph, releases: Iterable[int] = ()) -> list[int]:
    """Return the earliest start (ASAP) of each task in ticks, by its longest path of predecessors.

    `releases` is when each task may start at all, UNREACHED for one that only others release (default: at once).
    """
    return _lengthened(graph, column(releases), graph.followers)


def tails(graph: TaskGraph, ends: Iterable[int] = ()) -> list[int]:
    """Return the ticks that must pass between the end of each task and the end of the schedule (longest path).

    `ends` is what passes after each task that may be the last one, UNREACHED for others (default: its delivery).
    """
    begun = column(ends)
    return _lengthened(graph, begun if len(begun) else graph.delivery, graph.waits)


def _lengthened(graph: TaskGraph, begun: Ints, arrows: WaitTable) -> list[int]:
    """Return the ticks before each task, at first `begun`, as the longest paths along `arrows` make them."""
    order = arranged(graph)[0]
    check_deadline()
    lengths = in_range(begun, int(begun.max())) if len(begun) else np.zeros(len(graph), dtype=np.int64)
    columns = (order if arrows is graph.followers else order[::-1], arrows.first, arrows.task, arrows.lag)
    _, (found,) = run_kernel("lengthen", *columns, graph.duration, lengths.copy(), written=1)
    return lists(found)


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
        columns = (followers.first, followers.task, np.bincount(after, minlength=count), 0 * tasks, 0 * tasks)
        sorted_rows = run_kernel("arrange", *columns, written=1)[1][0]
        row = np.empty(count, dtype=np.int64)
        row[sorted_rows] = np.arange(count)
        waits = WaitTable(row[after], row[before], np.concatenate([np.full(len(behind), _NONE), kept]), count)
        self.first, self.before, self.edges = waits.first, waits.task, waits.lag
        self.tasks, self.machines = tasks[sorted_rows], machines[sorted_rows]
        self.rows = np.split(row, np.cumsum(counts)[:-1]) if counts else []

    def __len__(self) -> int:
        return len(self.tasks)

    def vectors(self, kept: Ints) -> tuple[Ints, int]:
        """Return a vector for the ends of each row, and how many there are: few, for what is read is written again.

        Those of the rows `kept` are read when all rows are done.
        """
        unread = np.bincount(self.before, minlength=len(self))
        unread[kept] += 1
        blank = np.zeros(len(self), int), np.zeros(len(self), int)
        count, (vector, _) = run_kernel("share_vectors", self.first, self.before, unread, *blank, written=2)
        return vector, count

    def ends(self, lengths: Ints, delays: Ints | None = None, lag: Ints | None = None) -> Ints:
        """Return when each row ends in each case, by what rows last.

        `delays` has a row a wait, or none at all; `lag` a number a wait, which all cases have.
        """
        ends = np.empty_like(lengths)
        self.advance(0, lengths, ends, np.arange(len(self)), lag, delays)
        return ends

    def advance(
        self, begin: int, lengths: Ints, ends: Ints, vector: Ints, lag: Ints | None, delays: Ints | None = None
    ) -> None:
        """Put when rows from `begin` on end into their vectors, by what each lasts, and a `lag` for each wait.

        All numbers are of one type: of 64 bits, whole or not, or Python's own.
        """
        compiled = None if ends.dtype == object else compiled_kernels()
        lags = np.zeros(len(self.before), ends.dtype) if lag is None else lag
        if compiled is not None:
            more, lasting = ends[:0] if delays is None else np.ascontiguousarray(delays), np.ascontiguousarray(lengths)
            compiled.sweep(begin, self.first, self.before, vector, lags, more, lasting, ends)
            return
        stops = self.first[begin : begin + len(lengths) + 1].tolist()
        for row, (first, stop, lasting) in enumerate(zip(stops, stops[1:], lengths, strict=False), begin):
            if not row & EVERY:
                check_deadline()
            ready = ends[vector[self.before[first:stop]]] + lags[first:stop, None]
            ready = ready if delays is None else ready + delays[first:stop]
            ends[vector[row]] = ready.max(axis=0, initial=0) + lasting

    def longest(self, ends: Ints, delays: Ints | None = None) -> Ints:
        """Return 1 for the rows of a longest path of each case, whose ends are given, and 0 for all others."""
        delayed = np.zeros(len(self.before) * ends.shape[1], ends.dtype) if delays is None else delays.ravel()
        columns = (self.first, self.before, delayed, ends.ravel(), ends.argmax(axis=0), np.zeros(ends.size, int))
        found: Ints = run_kernel("trace", *columns, written=1)[1][0]
        return found.reshape(ends.shape)


def highest(events: Ints, stops: Ints, cells: Ints) -> Ints:
    """Return the highest level of each machine in each case, at least 0; events add the rows of `cells` they name."""
    compiled = None if cells.dtype == object else compiled_kernels()
    if compiled is None:
        own = (np.cumsum(cells[part], axis=0) for part in np.split(events, stops[:-1]))
        return np.array([levels.max(axis=0, initial=0) for levels in own])
    found = np.zeros((len(stops), cells.shape[1]), np.int64)
    compiled.pile(events, stops, np.ascontiguousarray(cells), found[0].copy(), found)
    return found

"""From the order on each machine to times: every task as early as its order and its predecessors allow.

Linear in tasks and precedences. A machine runs on until its next task waits for a task that has not ended; the end of
that task wakes it again. When every machine sleeps, they wait for each other in a cycle: a deadlock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Sequence
from itertools import chain
from operator import lt
from typing import NamedTuple

from pipesched.core.clock import EVERY, look
from pipesched.core.tasks import Edge, EdgeRows, LaggedRow, TaskGraph
from pipesched.errors import Deadlock, InvalidSchedule

UNTIMED = -1
_NONE, _SEVERAL = -1, -2


class Times(NamedTuple):
    """The start and the end of each task in ticks; UNTIMED for a task in no order."""

    starts: list[int]
    ends: list[int]


def earliest_times(graph: TaskGraph, orders: Sequence[Sequence[int]]) -> Times:
    """Return when each task runs if each of `orders` runs one task at a time, in that order, from time 0.

    Raises Deadlock with the cycle, or InvalidSchedule when a task waits for one that no order holds.
    """
    return Retiming(graph, orders).times()


class Retiming:
    """The same orders timed with one or several sets of durations; what waits for what is looked up once."""

    def __init__(self, graph: TaskGraph, orders: Sequence[Sequence[int]]) -> None:
        self.orders = orders
        self._graph = graph
        self._machine, self._position = _positions(len(graph), orders)
        complete = sum(map(len, orders)) == len(graph)
        self._waits = _WaitTable(graph.edges, self._machine, self._position, complete)

    def times(self) -> Times:
        """Return when each task runs, as `earliest_times` does."""
        times = Times([UNTIMED] * len(self._graph), [UNTIMED] * len(self._graph))
        _run_all(self.orders, self._graph.durations, self._waits, times, [0] * len(self.orders))
        stuck = {
            number: next(task for task in order if times.ends[task] < 0)
            for number, order in enumerate(self.orders)
            if order and times.ends[order[-1]] < 0
        }
        if stuck:
            raise _deadlock(stuck, self._waits, self._machine, times.ends)
        return times

    def changed(self, times: Times, durations: Sequence[int], since: int) -> Times:
        """Return the times with other durations, which differ in no task that starts before `since` in `times`."""
        starts, ends = [*times.starts], [*times.ends]
        kept = [bisect_left(order, since, key=starts.__getitem__) for order in self.orders]
        clocks = [ends[order[count - 1]] if count else 0 for order, count in zip(self.orders, kept, strict=True)]
        left = [order[count:] for order, count in zip(self.orders, kept, strict=True)]
        for task in chain.from_iterable(left):
            ends[task] = UNTIMED
        _run_all(left, durations, self._waits, Times(starts, ends), clocks)
        return Times(starts, ends)

    def critical(self, times: Times) -> bytearray:
        """Return for each task 1 if it is in an order and cannot end later without a later end of all, else 0."""
        starts, ends = times
        first, lags, several = self._waits.first, self._waits.lag, self._waits.several
        lasts = [order[-1] for order in self.orders if order]
        whole = max(ends[task] for task in lasts)
        found = bytearray(len(ends))
        left = [task for task in lasts if ends[task] == whole]
        while left:
            task = left.pop()
            order, position = self.orders[self._machine[task]], self._position[task]
            while not found[task]:  # back along its machine, as long as that did not wait
                found[task] = 1
                start = starts[task]
                before = first[task]
                if before >= 0:
                    if ends[before] + lags[task] == start and not found[before]:
                        left.append(before)
                elif before == _SEVERAL:
                    left += [before for before, lag in several[task] if ends[before] + lag == start]
                position -= 1
                if position >= 0 and ends[order[position]] == start:
                    task = order[position]
        return found


def _positions(size: int, orders: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the machine of each task, and its position in that machine's order."""
    machine, position = [_NONE] * size, [_NONE] * size
    for number, order in enumerate(orders):
        look()
        for entry, task in enumerate(order):
            machine[task] = number
            position[task] = entry
    return machine, position


class _WaitTable:
    """The tasks that each task waits for, with the lags.

    A precedence without lag inside one machine holds by the order itself, so it is dropped where the positions agree.
    Most tasks are then left with at most one wait: `first` and `lag` hold it. For the others `first` is _SEVERAL,
    and `several` holds their waits.
    """

    def __init__(self, edges: Sequence[Edge], machine: list[int], position: list[int], complete: bool) -> None:
        self.first = [_NONE] * len(machine)
        self.lag = [0] * len(machine)
        self.several: dict[int, list[tuple[int, int]]] = {}
        has_wait = bytearray(len(machine))
        for edge in edges.rows if isinstance(edges, EdgeRows) else edges:
            look()
            before, after = _slice(edge.before), _slice(edge.after)
            lags = edge.lags if isinstance(edge, LaggedRow) else [edge.lag] * len(edge.after)
            absent = not complete and _NONE in machine[after]
            inside = not absent and not any(lags) and machine[before] == machine[after]
            if inside and all(map(lt, position[before], position[after])):
                continue
            if absent or 1 in has_wait[after]:
                self._add_one_by_one(edge, lags, machine)
            else:
                self.first[after] = edge.before
                self.lag[after] = lags
            has_wait[after] = b"\1" * len(edge.after)

    def _add_one_by_one(self, edge: Edge | LaggedRow, lags: Sequence[int], machine: list[int]) -> None:
        for before, after, lag in zip(edge.before, edge.after, lags, strict=True):
            if machine[after] == _NONE:
                continue
            if self.first[after] == _NONE:
                self.first[after], self.lag[after] = before, lag
                continue
            if self.first[after] != _SEVERAL:
                self.several[after] = [(self.first[after], self.lag[after])]
                self.first[after] = _SEVERAL
            self.several[after].append((before, lag))

    def of(self, task: int) -> list[int]:
        """Return the tasks that `task` waits for."""
        if self.first[task] == _SEVERAL:
            return [before for before, _ in self.several[task]]
        return [self.first[task]] if self.first[task] != _NONE else []


_Machine = Generator[int, None, None]


def _slice(tasks: range) -> slice:
    return slice(tasks.start, tasks.stop, tasks.step)


def _run_all(
    orders: Sequence[Sequence[int]], durations: Sequence[int], waits: _WaitTable, times: Times, clocks: Sequence[int]
) -> None:
    """Fill in `times`, as far as the machines get; each begins at its clock."""
    sleepers: dict[int, list[_Machine]] = {}  # task -> the machines that sleep until it has ended
    awake: list[_Machine] = []
    awake += [
        _machine(order, durations, waits, times, clock, sleepers, awake)
        for order, clock in zip(orders, clocks, strict=True)
    ]
    steps = 0
    while awake:
        steps += 1
        if not steps & EVERY:
            look()
        machine = awake.pop()
        before = next(machine, None)
        if before is None:
            continue
        if before in sleepers:
            sleepers[before].append(machine)
        else:
            sleepers[before] = [machine]


def _machine(
    order: Sequence[int],
    durations: Sequence[int],
    waits: _WaitTable,
    times: Times,
    clock: int,
    sleepers: dict[int, list[_Machine]],
    awake: list[_Machine],
) -> _Machine:
    """Run the order of one machine; yield the task that it waits for whenever it has to sleep."""
    first, lags, several = waits.first, waits.lag, waits.several
    starts, ends = times
    for task in order:
        before = first[task]
        if before >= 0:
            while ends[before] < 0:
                yield before
            ready = ends[before] + lags[task]
            if ready > clock:
                clock = ready
        elif before == _SEVERAL:
            for before, lag in several[task]:
                while ends[before] < 0:
                    yield before
                clock = max(clock, ends[before] + lag)
        starts[task] = clock
        clock += durations[task]
        ends[task] = clock
        if task in sleepers:
            awake += sleepers.pop(task)


def _deadlock(stuck: dict[int, int], waits: _WaitTable, machine: list[int], ends: list[int]) -> InvalidSchedule:
    """Return the error with the cycle: walk from each machine to the one that it waits for, until one comes again."""
    path: list[tuple[int, int, int]] = []  # (machine, the task it is stuck at, the task that it waits for)
    here = next(iter(stuck))
    while here not in (seen for seen, _, _ in path):
        task = stuck[here]
        before = next(wait for wait in waits.of(task) if ends[wait] < 0)
        path.append((here, task, before))
        here = machine[before]
        if here == _NONE:
            return InvalidSchedule(f"task {task} waits for task {before}, which no order holds")
    cycle = path[[seen for seen, _, _ in path].index(here) :]
    chain = ", ".join(f"task {task} on machine {number} waits for task {before}" for number, task, before in cycle)
    links = [(task, number) for number, task, _ in cycle]
    return Deadlock(f"deadlock: {chain}", links, [before for _, _, before in cycle])

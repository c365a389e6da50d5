"""Trials of many orders for one problem: time each, take the best, and improve it by local search on its critical path.

That path visits devices in blocks: operations that run back to back on one device between two hops. Another device
waits for the last operation of a block, and its first one has waited for another device. Only a change at either end
can shorten the path: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, here with insertions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.core.arrays import Kernels, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, Times, earliest_times
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, timed_schedule
from pipesched.schedulers.options import OBJECTIVES

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up


class CriticalBlockSearch:
    """A local search that shortens the largest over devices of (last end - `offsets[device]`), in ticks.

    `capacities` limits the memory of each device. `slack` is how much longer than the best orders their neighbours may
    be at first, in thousandths of the idle time of the best.
    """

    def __init__(
        self, graph: TaskGraph, index: OpIndex, capacities: Sequence[int], offsets: Sequence[int], slack: int
    ) -> None:
        self.graph, self.index, self.capacities, self.offsets = graph, index, capacities, offsets
        self.random, self.slack = Random(0), slack
        self._kernels = Kernels(graph.take, graph.give, column([*capacities]))
        self._memory = self._kernels.give(graph.take), self._kernels.give(graph.give)
        tasks: Any = np.arange(len(graph))
        self._row = np.asarray(index.row_of(tasks))
        self._needs = [np.asarray(index.kinds_on(tasks, step)) for step in (1, -1)]  # the next of a unit, and the last

    def improve(self, orders: Sequence[Sequence[int]], rounds: int) -> list[list[int]]:
        """Return orders at least as good, after timing at most `rounds` neighbours. Raises Deadlock.

        Threshold accepting (Dueck and Scheuer 1990): the search goes on from any neighbour that is longer than the best
        orders by no more than a threshold, which falls to 0 over the rounds.
        """
        here = Retiming(self.graph, orders)
        times = here.times()
        length = self._length(here, times)
        best, least = here.orders(), length
        busy = max(sum(self.graph.durations[task] for task in order) for order in orders)
        left, dry, moves = rounds, 0, self._moves(here, times)
        while left and dry < MOST_DRY:
            look()
            if not moves:
                dry, moves = dry + 1, self._moves(here, times)
                continue
            device, source, target = moves.pop()
            there = self._moved(here, device, source, target)
            left -= there is not None
            reached = 0 if there is None else self._length(here, there)
            if there is None or reached > least + self.slack * (least - busy) * left // (1000 * rounds):
                here.move(device, target, source)
                continue
            dry = dry if reached == length else 0
            times, length = there, reached
            moves = self._moves(here, times)
            if length < least:
                best, least = here.orders(), length
        return best

    def _length(self, orders: Retiming, times: Times) -> int:
        return max(self._lates(orders, times))

    def _lates(self, orders: Retiming, times: Times) -> list[int]:
        ends: list[int] = times.end[orders.order[orders.bounds[1:] - 1]].tolist()
        return [end - offset for end, offset in zip(ends, self.offsets, strict=True)]

    def _moved(self, orders: Retiming, device: int, source: int, target: int) -> Times | None:
        """Move an operation of a device, and return the times, if that fits in memory and runs."""
        orders.move(device, source, target)
        order = self._kernels.give(orders.order_of(device))
        return orders.tried() if self._kernels.run.fits(order, *self._memory, self.capacities[device]) else None

    def _moves(self, orders: Retiming, times: Times) -> list[Sequence[int]]:
        """Return the moves at the inner ends of the blocks of a critical path, of several a random one, shuffled."""
        lates = self._lates(orders, times)
        latest = max(lates)
        device = self.random.choice([number for number, late in enumerate(lates) if late == latest])
        waits, size = self.graph.waits, len(self.graph)
        kernels = Kernels(waits.lag, times.start, times.end)
        columns = (orders.order, orders.bounds, *orders.positions, waits.first, waits.task, waits.lag)
        given = map(kernels.give, (*columns, times.start, times.end, self._row, *self._needs))
        found = kernels.blank(6 * size)
        written = [kernels.blank(count) for count in (3 * size, len(self._row) // self.index.units, size)]
        count = kernels.run.block_moves(*given, device, self.random.random, *written, found)
        moves: list[Sequence[int]] = np.reshape(found[:count], (-1, 3)).tolist()
        self.random.shuffle(moves)
        return moves


LEAST_ROUNDS = 40  # timings of the local search: with fewer it is not worth its time

Orders = Sequence[Sequence[int]]


class Effort(NamedTuple):
    """What a local search may cost: operations in all its timings, and timings; and its slack (CriticalBlockSearch)."""

    operations: int
    rounds: int
    slack: int


@dataclass(frozen=True)
class Trials:
    """A problem, the capacity of each device in grains, and the objective: span or makespan."""

    problem: Problem
    index: OpIndex
    graph: TaskGraph
    capacities: Sequence[int]
    objective: str

    def timed(self, orders: Orders) -> Schedule:
        """Return the schedule of these orders. Raises Deadlock."""
        times = earliest_times(self.graph, orders)
        return timed_schedule(self.problem, Plan(self.index, orders), times, self.graph)

    def fits(self, schedule: Schedule) -> bool:
        """Return whether no device ever holds more than its capacity."""
        return all(peak <= capacity for peak, capacity in zip(schedule.peak_grains, self.capacities, strict=True))

    def best(self, schedules: Iterable[Schedule]) -> Schedule:
        """Return the least schedule by the objective, or by the other one among equals."""
        return min(schedules, key=OBJECTIVES[self.objective])

    def improved(self, schedule: Schedule, effort: Effort) -> Plan:
        """Return the plan of a schedule, after a local search if the ideal is not reached and the effort is enough."""
        rounds = min(effort.operations // self.index.size, effort.rounds)
        if rounds < LEAST_ROUNDS or OBJECTIVES[self.objective](schedule)[0] == schedule.ideal_ticks:
            return schedule.plan
        offsets = schedule.first_start_ticks if self.objective == "span" else [0] * self.problem.devices
        search = CriticalBlockSearch(self.graph, self.index, self.capacities, offsets, effort.slack)
        return Plan(self.index, search.improve(schedule.plan.orders, rounds))


def trials(problem: Problem, letters: str, capacities: Sequence[int], objective: str) -> Trials:
    """Return trials of plans with operations of the kinds `letters`, and `capacities` in grains on each device.

    Raises ConfigError for an unknown objective.
    """
    look_up(OBJECTIVES, objective, "objective", "objective")
    index = OpIndex(letters, problem.stages, problem.microbatches, problem.slices.count)
    return Trials(problem, index, lower(problem, index), capacities, objective)

"""Trials of many orders for one problem: time each, take the best, improve it by local search on its critical path.

`trials` makes them; a family then asks `best` and `improved`.

That path visits devices in blocks: operations that run back to back on one device between two hops. Another device
waits for the last operation of a block, and its first one has waited for another device. Only a change at either end
can shorten the path: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, here with insertions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from random import Random
from typing import Any, NamedTuple

from pipesched.checks import look_up
from pipesched.core.arrays import column, in_range, kernels_for, lists, np
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, earliest_times
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule, timed_schedule
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.options import OBJECTIVES

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up


def shorten_path(
    graph: TaskGraph,
    index: OpIndex,
    capacities: Sequence[int],
    offsets: Sequence[int],
    orders: Sequence[Sequence[int]],
    rounds: int,
    slack: int,
) -> list[list[int]]:
    """Return orders whose largest over devices of (last end - `offsets[device]`), in ticks, is no longer.

    At most `rounds` neighbours are timed. `capacities` limits the memory of each device. Raises Deadlock. Threshold
    accepting (Dueck and Scheuer 1990): the search goes on from any neighbour that is longer than the best orders by no
    more than a threshold. It begins at `slack` thousandths of the idle time of the best, and falls to 0.
    """
    here, size, random = Retiming(graph, orders), len(graph), Random(0)
    times, waits, (machine, position) = here.times(), graph.waits, here.positions
    busy = max(sum(graph.duration[own].tolist()) for own in np.split(here.order, here.bounds[1:-1]))
    tasks: Any = np.arange(size)
    end = in_range(times.end, int(max(times.end.tolist())) * max(slack * rounds, 1))
    columns = (here.bounds, waits.first, waits.task, waits.lag, graph.duration, graph.take, graph.give,
               column([*capacities]), column([*offsets]), np.asarray(index.row_of(tasks)),
               *(tasks + step * index.stages * index.units for step in (1, -1)), here.order, times.start, end,
               machine, position)  # fmt: skip
    kernels, _, give = kernels_for(*columns)
    counts = [size, size, size // index.units, 3 * size, 6 * size, *[len(orders)] * 4]
    best, none, *blanks = map(give, (here.order.copy(), *(np.zeros(count, int) for count in counts)))
    kernels.shorten(
        rounds, slack, busy, MOST_DRY, check_deadline, random.random, random.getrandbits, best,
        *map(give, columns), none, give(np.zeros(size, int)), *blanks,
    )  # fmt: skip
    bounds = here.bounds.tolist()
    return [[*map(int, best[begin:stop])] for begin, stop in pairwise(bounds)]


LEAST_ROUNDS = 40  # timings of the local search: with fewer it is not worth its time

Orders = Sequence[Sequence[int]]


class Effort(NamedTuple):
    """What a local search may cost: operations in all its timings, and timings; and its slack (`shorten_path`)."""

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
        return timed_schedule(self.problem, Plan(self.index, [*map(lists, orders)]), times, self.graph)

    def fits(self, schedule: Schedule) -> bool:
        """Return whether no device ever holds more than its capacity."""
        return all(peak <= capacity for peak, capacity in zip(schedule.peak_grains, self.capacities, strict=True))

    def best(self, found: Iterable[Orders]) -> Schedule:
        """Return the schedule of the orders that are least by the objective, or by the other one among equals."""
        best, least = None, None
        for orders in found:
            retiming = Retiming(self.graph, orders)
            times, order, bounds = retiming.times(), retiming.order, retiming.bounds
            first, last = times.start[order[bounds[:-1]]].tolist(), times.end[order[bounds[1:] - 1]].tolist()
            span, makespan = max(map(sub, last, first)), max(last) - min(first)  # of a schedule of passes
            value = (span, makespan) if self.objective == "span" else (makespan, span)
            if least is None or value < least:
                best, least = orders, value
        assert best is not None
        return self.timed(best)

    def improved(self, schedule: Schedule, effort: Effort) -> Plan:
        """Return the plan of a schedule, after a local search if the ideal is not reached and the effort is enough."""
        rounds = min(effort.operations // self.index.size, effort.rounds)
        if rounds < LEAST_ROUNDS or OBJECTIVES[self.objective](schedule)[0] == schedule.ideal_ticks:
            return schedule.plan
        offsets = schedule.first_start_ticks if self.objective == "span" else [0] * self.problem.devices
        orders = shorten_path(
            self.graph, self.index, self.capacities, offsets, schedule.plan.orders, rounds, effort.slack
        )
        return Plan(self.index, orders)


def trials(problem: Problem, letters: str, capacities: Sequence[int], objective: str) -> Trials:
    """Return trials of plans with operations of the kinds `letters`, and `capacities` in grains on each device.

    Raises ConfigError for an unknown objective.
    """
    look_up(OBJECTIVES, objective, "objective", "objective")
    index = OpIndex(letters, problem.stages, problem.microbatches, problem.slices.count)
    return Trials(problem, index, lower(problem, index), capacities, objective)

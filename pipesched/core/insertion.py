"""Serial schedule generation: tasks one after another, each into the earliest time that is free (Kolisch 1996).

Unlike list scheduling, which goes through time and starts whatever is ready, the order of the tasks alone says who
takes memory first. So a tight limit is kept in the order of a schedule that is known to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipesched.core.arrays import Ints, Kernels, column, lists, np, total
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph

AT_ONCE = 100_000  # tasks between two looks at the clock


class Inserted(NamedTuple):
    """The start of each task in ticks, and the order of each resource."""

    starts: list[int]
    orders: list[list[int]]


def insert_in_order(graph: TaskGraph, order: Iterable[int] | Ints, capacities: Sequence[int | None]) -> Inserted | None:
    """Return the schedule of tasks that are inserted in this order, in which none comes before what it waits for.

    Resources are machines and memory pools at once: `capacities[r]` limits what tasks on r hold (None: no limit). None
    when a task never fits.
    """
    tasks, size = column(order), len(graph)
    take, give = (values if len(values) else np.zeros(size, dtype=np.int64) for values in (graph.take, graph.give))
    enough = total(take)
    capacity = column([enough if limit is None else limit for limit in capacities])
    machine = graph.resource
    counts = np.bincount(machine[tasks], minlength=len(capacities)) if size else np.zeros(len(capacities), np.int64)
    base = np.concatenate([[0], np.cumsum(counts)])[:-1].astype(np.int64)
    waits, kernels = graph.waits, Kernels(graph.duration, graph.waits.lag, take, give, capacity)
    given = [*map(kernels.give, (waits.first, waits.task, waits.lag, graph.duration, take, give, machine, capacity))]
    ordered, bases = kernels.give(tasks), kernels.give(base)
    count, changes, level = (kernels.blank(len(capacities)) for _ in range(3))
    runs = [kernels.blank(len(tasks)) for _ in range(3)]
    times, sizes = (kernels.blank(2 * len(tasks)) for _ in range(2))
    start, end = kernels.blank(size), kernels.blank(size)
    for since in range(0, len(tasks), AT_ONCE):
        look()
        until = min(since + AT_ONCE, len(tasks))
        state = (bases, count, *runs, changes, times, sizes, level, start, end)
        if kernels.run.insert(ordered, since, until, *given, *state) >= 0:
            return None
    listed, stops = lists(runs[2]), np.cumsum(counts).tolist()
    return Inserted(lists(start), [listed[first:stop] for first, stop in zip(base.tolist(), stops, strict=True)])

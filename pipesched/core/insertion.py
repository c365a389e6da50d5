"""Serial schedule generation: tasks one after another, each into the earliest time that is free (Kolisch 1996).

Unlike list scheduling, which goes through time and starts whatever is ready, the order of the tasks alone says who
takes memory first. So a tight limit is kept in the order of a schedule that is known to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from pipesched.core.arrays import LARGEST, Ints, Kernels, column, is_wide, lists, np, total
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph

AT_ONCE = 50_000  # tasks between two looks at the clock


class Inserted(NamedTuple):
    """The start of each task in ticks, and the order of each resource."""

    starts: list[int]
    orders: list[list[int]]


def insert_in_order(graph: TaskGraph, order: Iterable[int] | Ints, capacities: Sequence[int | None]) -> Inserted | None:
    """Return the schedule of tasks that are inserted in this order, in which none comes before what it waits for.

    Resources are machines and memory pools at once: `capacities[r]` limits what tasks on r hold (None: no limit). None
    when a task never fits.
    """
    tasks, size, machines = column(order), len(graph), len(capacities)
    duration, machine, waits = graph.duration, graph.resource, graph.waits
    take, give = (values if len(values) else np.zeros(size, dtype=np.int64) for values in (graph.take, graph.give))
    places = np.argsort(machine[tasks], kind="stable")
    stops = np.searchsorted(machine[tasks][places], np.arange(machines + 1))
    parts = [tasks[places[begin:stop]] for begin, stop in pairwise(stops.tolist())]
    enough = [total(take[part]) for part in parts]
    rooms = zip(capacities, enough, strict=True)
    limit = column([-1 if room is None or room >= most else max(room, 0) for room, most in rooms])
    least = column([min(duration[part].tolist(), default=0) for part in parts])  # what no task fits into is no gap
    kernels = Kernels(duration, waits.lag, take, give, limit)
    columns = (waits.first, waits.task, waits.lag, duration, take, give, machine, limit, least)
    given = [*map(kernels.give, (*columns, stops[:-1] + np.arange(machines)))]
    zones, ordered, never = len(tasks) + machines, kernels.give(tasks), LARGEST
    if is_wide(duration, waits.lag):
        never = 1 + total(duration) + size * max(lists(waits.lag), default=0)  # after all ends
    gaps = [kernels.blank(machines, 1), kernels.blank(zones), kernels.blank(zones, never)]
    memory = [kernels.blank(count) for count in (machines, 2 * zones, 2 * zones, machines)]
    start, end, tie = (kernels.blank(size) for _ in range(3))
    for since in range(0, len(tasks), AT_ONCE):
        look()
        until = min(since + AT_ONCE, len(tasks))
        if kernels.lists.insert(ordered, since, until, *given, *gaps, *memory, start, end, tie) >= 0:
            return None
    starts, ties = column(start), column(tie)
    return Inserted(lists(starts), [part[np.lexsort((ties[part], starts[part]))].tolist() for part in parts])

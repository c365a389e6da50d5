"""Local search on the critical path of a schedule, under a memory limit.

The critical path visits devices in blocks: operations that run back to back on one device between two hops. Another
device waits for the last operation of a block, and its first operation has waited for another device. Only a change at
either end can shorten the path: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, here with insertions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

from pipesched.core.arrays import Kernels, column, in_range, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]


def shorten_path(
    graph: TaskGraph,
    index: OpIndex,
    capacities: Sequence[int],
    offsets: Sequence[int],
    orders: Sequence[Sequence[int]],
    rounds: int,
    slack: int,
) -> Orders:
    """Return orders whose largest over devices of (last end - `offsets[device]`), in ticks, is no longer.

    At most `rounds` neighbours are timed. `capacities` limits the memory of each device. Raises Deadlock. Threshold
    accepting (Dueck and Scheuer 1990): the search goes on from any neighbour that is longer than the best orders by no
    more than a threshold. It begins at `slack` thousandths of the idle time of the best, and falls to 0.
    """
    here, size, random = Retiming(graph, orders), len(graph), Random(0)
    times, waits, (machine, position) = here.times(), graph.waits, here.positions
    busy = max(sum(graph.duration[here.order_of(device)].tolist()) for device in range(len(orders)))
    tasks: Any = np.arange(size)
    end = in_range(times.end, int(max(times.end.tolist())) * max(slack * rounds, 1))
    columns = (here.bounds, waits.first, waits.task, waits.lag, graph.duration, graph.take, graph.give,
               column([*capacities]), column([*offsets]), np.asarray(index.row_of(tasks)),
               *(np.asarray(index.kinds_on(tasks, step)) for step in (1, -1)), here.order, times.start, end,
               machine, position)  # fmt: skip
    kernels = Kernels(*columns)
    best, sleepers = kernels.give(here.order.copy()), kernels.blank(size, -1)
    blanks = [kernels.blank(count) for count in (size, size // index.units, 3 * size, 6 * size, *[len(orders)] * 4)]
    kernels.run.shorten(
        rounds, slack, busy, MOST_DRY, look, random.random, random.getrandbits, best,
        *map(kernels.give, columns), kernels.blank(size), kernels.blank(size), sleepers, *blanks,
    )  # fmt: skip
    bounds = here.bounds.tolist()
    return [[*map(int, best[begin:stop])] for begin, stop in pairwise(bounds)]

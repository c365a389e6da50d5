"""Local search on the critical path of a schedule, under a memory limit.

The critical path visits devices in blocks: operations that run back to back on one device between two hops. Another
device waits for the last operation of a block, and its first operation has waited for another device. Only a change at
either end can shorten the path: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, here with insertions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

from pipesched.core.arrays import Kernels, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, Times
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]


class CriticalBlockSearch:
    """A local search that shortens the largest over devices of (last end - `offsets[device]`), in ticks.

    `capacities` limits the memory of each device. `slack` is how much longer than the best orders their neighbours may
    be at first, as a part of the idle time of the best.
    """

    def __init__(
        self, graph: TaskGraph, index: OpIndex, capacities: Sequence[int], offsets: Sequence[int], slack: Fraction
    ) -> None:
        self.graph, self.index, self.capacities, self.offsets = graph, index, capacities, offsets
        self.random, self.slack = Random(0), slack
        self._kernels = Kernels(graph.take, graph.give, column([*capacities]))
        self._memory = self._kernels.give(graph.take), self._kernels.give(graph.give)
        tasks: Any = np.arange(len(graph))
        self._row = np.asarray(index.row_of(tasks))
        self._needs = [np.asarray(index.kinds_on(tasks, step)) for step in (1, -1)]  # the next of a unit, and the last

    def improve(self, orders: Sequence[Sequence[int]], rounds: int) -> Orders:
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
            here.move(device, source, target)
            fits = self._kernels.run.fits(
                self._kernels.give(here.order_of(device)), *self._memory, self.capacities[device]
            )
            there = here.tried() if fits else None
            left -= there is not None
            reached = 0 if there is None else self._length(here, there)
            if there is None or reached > least + self.slack * (least - busy) * left // rounds:
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

    def _moves(self, orders: Retiming, times: Times) -> list[Sequence[int]]:
        """Return the moves at the inner ends of the blocks of a critical path, shuffled: device, from, and to.

        Where paths are equally long, or fork, take a random one.
        """
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

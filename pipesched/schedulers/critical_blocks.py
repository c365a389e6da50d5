"""Local search on the critical path of a schedule, under a memory limit.

The critical path visits devices in blocks: operations that run back to back on one device between two hops. Only
what changes the end of a block (another device waits for its last operation) or its start (its first operation has
waited for another device) can shorten it: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, with
insertions in place of swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple, cast

from pipesched.core.arrays import Ints, Kernels, column, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Retiming, Times
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]
CriticalBlock = tuple[int, int, int]  # a device, and the first and the last position in its order


def quick(values: Ints) -> Sequence[int]:
    """Return integers that are plain ones when they are read one by one."""
    plain: Any = memoryview(values) if values.dtype == np.int64 else values.tolist()  # type: ignore[arg-type]
    return cast("Sequence[int]", plain)


class BlockMove(NamedTuple):
    """Take the operation at position `source` of a device's order out, and put it in at position `target`."""

    device: int
    source: int
    target: int


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
        tasks = range(len(graph.duration))
        self._resource: list[int] = graph.resource.tolist()
        self._row = [index.row_of(task) for task in tasks]
        self._needs = {step: [index.kinds_on(task, step) for task in tasks] for step in (1, -1)}
        self._awaited = [[*self._from_others(task)] for task in tasks]

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
            move = moves.pop()
            there = self._moved(here, move)
            left -= there is not None
            reached = 0 if there is None else self._length(here, there)
            if there is None or reached > least + self.slack * (least - busy) * left // rounds:
                here.move(move.device, move.target, move.source)
                continue
            dry = dry if reached == length else 0
            times, length = there, reached
            moves = self._moves(here, times)
            if length < least:
                best, least = here.orders(), length
        return best

    def _length(self, orders: Retiming, times: Times) -> int:
        lasts = [orders.order_of(device)[-1] for device in range(len(self.offsets))]
        ends: list[int] = times.end[lasts].tolist()
        return max(end - offset for end, offset in zip(ends, self.offsets, strict=True))

    def _moved(self, orders: Retiming, move: BlockMove) -> Times | None:
        """Move, and return the times, if the orders fit in memory and run."""
        orders.move(*move)
        order = self._kernels.give(orders.order_of(move.device))
        return orders.tried() if self._kernels.run.fits(order, *self._memory, self.capacities[move.device]) else None

    def _moves(self, orders: Retiming, times: Times) -> list[BlockMove]:
        """Return the moves at the inner ends of the blocks of a critical path, shuffled."""
        blocks = [*self._blocks(orders, times)]
        ends, starts = ([block for block in part if block[1] < block[2]] for part in (blocks[1:], blocks[:-1]))
        moves = [move for block in ends for move in self._moves_of(orders, block, to_end=True)]
        moves += [move for block in starts for move in self._moves_of(orders, block, to_end=False)]
        self.random.shuffle(moves)
        return moves

    def _blocks(self, orders: Retiming, times: Times) -> Iterator[CriticalBlock]:
        """Yield the blocks of a critical path, the last one first. Where the path forks, take a random branch."""
        devices, starts, ends = range(len(self.offsets)), quick(times.start), quick(times.end)
        every = [quick(orders.order_of(device)) for device in devices]
        lates = [ends[order[-1]] - offset for order, offset in zip(every, self.offsets, strict=True)]
        latest = max(lates)
        device = self.random.choice([number for number in devices if lates[number] == latest])
        order = every[device]
        position = last = len(order) - 1
        while True:
            task = order[position]
            start = starts[task]
            back_to_back = position > 0 and ends[order[position - 1]] == start
            waits = self._awaited[task]
            before = next((other for other, lag in waits if ends[other] + lag == start), None) if waits else None
            if before is not None and not (back_to_back and self.random.random() < 0.5):
                yield device, position, last
                device = self._resource[before]
                order = every[device]
                position = last = int(orders.positions[1][before])
            elif back_to_back:
                position -= 1
            else:
                yield device, position, last
                return

    def _from_others(self, task: int) -> Iterator[tuple[int, int]]:
        """Yield the operations of other devices that `task` waits for, and how long after their ends."""
        waits = self.graph.waits
        for wait in range(waits.first[task], waits.first[task + 1]):
            before = int(waits.task[wait])
            if self._resource[before] != self._resource[task]:
                yield before, int(waits.lag[wait])

    def _moves_of(self, orders: Retiming, block: CriticalBlock, *, to_end: bool) -> Iterator[BlockMove]:
        """Yield moves of the nearest operation of each other kind behind the last one, which then runs earlier.

        Or, not `to_end`, before the first one, to fill the time that it waits.
        """
        device, first, last = block
        positions = range(first, last + 1)[:: -1 if to_end else 1]
        tasks = orders.order_of(device)[first : last + 1].tolist()
        for place in self._nearest(tasks[::-1] if to_end else tasks, needed_by=1 if to_end else -1):
            yield BlockMove(device, positions[place], positions[0])

    def _nearest(self, tasks: Sequence[int], needed_by: int) -> Iterator[int]:
        """Yield the place of the nearest of `tasks` of each kind but the first's, unless a dependency lies between.

        That is the same microbatch's next kind (`needed_by` 1) or last kind (-1).
        """
        seen: set[int] = set()
        rows: set[int] = set()  # of one kind and stage each
        needed = self._needs[needed_by]
        for place, task in enumerate(tasks):
            row = self._row[task]
            if rows and row not in rows and needed[task] not in seen:
                yield place
            rows.add(row)
            seen.add(task)

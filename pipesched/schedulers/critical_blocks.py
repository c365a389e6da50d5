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
from typing import NamedTuple

from pipesched.core.arrays import Ints, column
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times, earliest_times
from pipesched.errors import Deadlock
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]


class Incumbent(NamedTuple):
    """Orders with their times, and the length that is to be shortened, in ticks."""

    orders: Orders
    lines: list[Ints]  # the orders as arrays
    times: Times
    length: int


class CriticalBlock(NamedTuple):
    """The positions `first` to `last` of a device's order."""

    device: int
    first: int
    last: int


class BlockMove(NamedTuple):
    """Take the operation at position `source` of a device's order out, and put it in at position `target`."""

    device: int
    source: int
    target: int


def fits(graph: TaskGraph, order: Sequence[int], capacity: int) -> bool:
    """Return whether tasks that run one by one in this order never hold more than `capacity`."""
    for task in order:
        capacity -= graph.takes[task]
        if capacity < 0:
            return False
        capacity += graph.gives[task]
    return True


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

    def improve(self, orders: Sequence[Sequence[int]], rounds: int) -> Orders:
        """Return orders at least as good, after timing at most `rounds` neighbours.

        Threshold accepting (Dueck and Scheuer 1990): the search goes on from any neighbour that is longer than the best
        orders by no more than a threshold, which falls to 0 over the rounds.
        """
        best = here = self._timed([list(order) for order in orders], [*map(column, orders)])
        busy = max(sum(self.graph.durations[task] for task in order) for order in orders)
        left, dry, moves = rounds, 0, self._moves(here)
        while left and dry < MOST_DRY:
            look()
            if not moves:
                dry, moves = dry + 1, self._moves(here)
                continue
            there = self._moved(here, moves.pop())
            if there is None:
                continue
            left -= 1
            if there.length > best.length + self.slack * (best.length - busy) * left // rounds:
                continue
            dry = dry if there.length == here.length else 0
            here, moves = there, self._moves(there)
            best = min(best, here, key=lambda incumbent: incumbent.length)
        return best.orders

    def _timed(self, orders: Orders, lines: list[Ints]) -> Incumbent:
        """Return `orders` with their times. Raises Deadlock."""
        times = earliest_times(self.graph, lines)
        length = max(int(times.end[order[-1]]) - offset for order, offset in zip(orders, self.offsets, strict=True))
        return Incumbent(orders, lines, times, length)

    def _moved(self, incumbent: Incumbent, move: BlockMove) -> Incumbent | None:
        """Return the orders after a move, if they fit in memory and run."""
        order = incumbent.orders[move.device].copy()
        order.insert(move.target, order.pop(move.source))
        if not fits(self.graph, order, self.capacities[move.device]):
            return None
        orders, lines = incumbent.orders.copy(), incumbent.lines.copy()
        orders[move.device], lines[move.device] = order, column(order)
        try:
            return self._timed(orders, lines)
        except Deadlock:
            return None

    def _moves(self, incumbent: Incumbent) -> list[BlockMove]:
        """Return the moves at the inner ends of the blocks of a critical path, shuffled."""
        blocks = list(self._blocks(incumbent))
        moves = [move for block in blocks[1:] for move in self._moves_of(incumbent.orders, block, to_end=True)]
        moves += [move for block in blocks[:-1] for move in self._moves_of(incumbent.orders, block, to_end=False)]
        self.random.shuffle(moves)
        return moves

    def _blocks(self, incumbent: Incumbent) -> Iterator[CriticalBlock]:
        """Yield the blocks of a critical path, the last one first. Where the path forks, take a random branch."""
        orders, starts, ends = incumbent.orders, incumbent.times.start, incumbent.times.end
        late = [d for d, order in enumerate(orders) if ends[order[-1]] - self.offsets[d] == incumbent.length]
        device = self.random.choice(late)
        position = last = len(orders[device]) - 1
        while True:
            order = orders[device]
            task = order[position]
            back_to_back = position > 0 and ends[order[position - 1]] == starts[task]
            before = self._awaited(task, incumbent.times)
            if before is not None and not (back_to_back and self.random.random() < 0.5):
                yield CriticalBlock(device, position, last)
                device = self.graph.resources[before]
                position = last = orders[device].index(before)
            elif back_to_back:
                position -= 1
            else:
                yield CriticalBlock(device, position, last)
                return

    def _awaited(self, task: int, times: Times) -> int | None:
        """Return the operation of another device that keeps `task` from an earlier start, if any."""
        for before, lag in self.graph.predecessors[task]:
            elsewhere = self.graph.resources[before] != self.graph.resources[task]
            if elsewhere and times.end[before] + lag == times.start[task]:
                return before
        return None

    def _moves_of(self, orders: Orders, block: CriticalBlock, *, to_end: bool) -> Iterator[BlockMove]:
        """Yield moves of the nearest operation of each other kind behind the last one, which then runs earlier.

        Or, not `to_end`, before the first one, to fill the time that it waits.
        """
        positions = range(block.first, block.last + 1)[:: -1 if to_end else 1]
        for position in self._nearest(orders[block.device], positions, needed_by=1 if to_end else -1):
            yield BlockMove(block.device, position, positions[0])

    def _nearest(self, order: Sequence[int], positions: range, needed_by: int) -> Iterator[int]:
        """Yield the nearest of `positions` of each kind but the first's, unless a dependency lies between.

        That is the same microbatch's next kind (`needed_by` 1) or last kind (-1).
        """
        seen: set[int] = set()
        rows: set[int] = set()  # of one kind and stage each
        for position in positions:
            task = order[position]
            row = self.index.row_of(task)
            if rows and row not in rows and self.index.kinds_on(task, needed_by) not in seen:
                yield position
            rows.add(row)
            seen.add(task)

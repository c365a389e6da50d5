"""Local search on the critical path of a schedule, under a memory limit.

The critical path visits devices in blocks: operations that run back to back on one device between two hops. Only
what changes the end of a block (its last operation leaves for another device) or its start (its first one has come
from another device) can shorten it: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, with
insertions in place of swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times, earliest_times
from pipesched.errors import Deadlock
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]


class Point(NamedTuple):
    """Orders with their times, and what is to be shortened."""

    orders: Orders
    times: Times
    length: int


class CriticalBlock(NamedTuple):
    """Places `first` to `last` of a device's order."""

    device: int
    first: int
    last: int


class Move(NamedTuple):
    """Take the operation at place `source` of a device's order out, and put it in at place `target`."""

    device: int
    source: int
    target: int


def fits(graph: TaskGraph, order: Sequence[int], room: int) -> bool:
    """Whether tasks that run one by one in this order never hold more than `room`."""
    for task in order:
        room -= graph.takes[task]
        if room < 0:
            return False
        room += graph.gives[task]
    return True


class CriticalBlockSearch:
    """Shortens the largest over devices of (last end - `offsets[device]`).

    `slack` is how much longer than the best one a neighbour may be at first, as a part of the best one's idle time.
    """

    def __init__(
        self, graph: TaskGraph, index: OpIndex, rooms: Sequence[int], offsets: Sequence[int], slack: Fraction
    ) -> None:
        self.graph, self.index, self.rooms, self.offsets = graph, index, rooms, offsets
        self.random, self.slack = Random(0), slack

    def improve(self, orders: Sequence[Sequence[int]], rounds: int) -> Orders:
        """Orders at least as good, after timing at most `rounds` neighbours.

        Threshold accepting (Dueck and Scheuer 1990): the search walks on to any neighbour that is little longer than
        the best one known; how little shrinks to nothing over the rounds.
        """
        best = here = self._timed([list(order) for order in orders])
        busy = max(sum(self.graph.durations[task] for task in order) for order in orders)
        left, dry, moves = rounds, 0, self._moves(here)
        while left and dry < MOST_DRY:
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
            best = min(best, here, key=lambda point: point.length)
        return best.orders

    def _timed(self, orders: Orders) -> Point:
        """`orders` with their times. Raises Deadlock."""
        times = earliest_times(self.graph, orders)
        length = max(times.ends[order[-1]] - offset for order, offset in zip(orders, self.offsets, strict=True))
        return Point(orders, times, length)

    def _moved(self, point: Point, move: Move) -> Point | None:
        """The orders after a move, if they fit in memory and run."""
        order = point.orders[move.device].copy()
        order.insert(move.target, order.pop(move.source))
        if not fits(self.graph, order, self.rooms[move.device]):
            return None
        try:
            return self._timed([*point.orders[: move.device], order, *point.orders[move.device + 1 :]])
        except Deadlock:
            return None

    def _moves(self, point: Point) -> list[Move]:
        """The moves at the inner ends of the blocks of a critical path, shuffled."""
        blocks = list(self._blocks(point))
        moves = [move for block in blocks[1:] for move in self._to_end(point.orders, block)]
        moves += [move for block in blocks[:-1] for move in self._to_start(point.orders, block)]
        self.random.shuffle(moves)
        return moves

    def _blocks(self, point: Point) -> Iterator[CriticalBlock]:
        """The blocks of a critical path, the last one first. Where it forks, chance decides."""
        orders, (starts, ends) = point.orders, point.times
        late = [d for d, order in enumerate(orders) if ends[order[-1]] - self.offsets[d] == point.length]
        device = self.random.choice(late)
        place = last = len(orders[device]) - 1
        while True:
            order = orders[device]
            task = order[place]
            back_to_back = place > 0 and ends[order[place - 1]] == starts[task]
            before = self._awaited(task, point.times)
            if before is not None and not (back_to_back and self.random.random() < 0.5):
                yield CriticalBlock(device, place, last)
                device = self.graph.resources[before]
                place = last = orders[device].index(before)
            elif back_to_back:
                place -= 1
            else:
                yield CriticalBlock(device, place, last)
                return

    def _awaited(self, task: int, times: Times) -> int | None:
        """The operation of another device that keeps `task` from an earlier start, if there is one."""
        for before, lag in self.graph.predecessors[task]:
            elsewhere = self.graph.resources[before] != self.graph.resources[task]
            if elsewhere and times.ends[before] + lag == times.starts[task]:
                return before
        return None

    def _to_end(self, orders: Orders, block: CriticalBlock) -> Iterator[Move]:
        """Let the last operation go earlier: the nearest one of each other kind goes behind it."""
        places = range(block.last, block.first - 1, -1)
        for place in self._nearest(orders[block.device], places, needed_by=1):
            yield Move(block.device, place, block.last)

    def _to_start(self, orders: Orders, block: CriticalBlock) -> Iterator[Move]:
        """Fill the time before the first operation: the nearest one of each other kind goes in front of it."""
        places = range(block.first, block.last + 1)
        for place in self._nearest(orders[block.device], places, needed_by=-1):
            yield Move(block.device, place, block.first)

    def _nearest(self, order: Sequence[int], places: range, needed_by: int) -> Iterator[int]:
        """The nearest place of each kind but the first's, unless the same microbatch's next kind (`needed_by` 1) or
        last kind (-1) lies between.
        """
        seen: set[int] = set()
        rows: set[int] = set()  # one a kind and stage
        for place in places:
            task = order[place]
            row = task // self.index.microbatches
            if rows and row not in rows and task + needed_by * self.index.size // len(self.index.kinds) not in seen:
                yield place
            rows.add(row)
            seen.add(task)

"""Local search on the critical path of a schedule, under a memory limit, for one stage a device and a split backward.

The critical path visits devices in blocks: operations that run back to back on one device between two hops. Only
what changes the end of a block (its last operation leaves for another device) or its start (its first one has come
from another device) can shorten it: the neighbourhood of Nowicki and Smutnicki (1996) for job shops, with
insertions in place of swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times, earliest_times
from pipesched.errors import Deadlock
from pipesched.pipeline.ops import OpIndex

MOST_DRY = 8  # critical paths without a move that helps, before the search gives up

Orders = list[list[int]]


class Block(NamedTuple):
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


class BlockSearch:
    """Shortens the largest over devices of (last end - `offsets[device]`)."""

    def __init__(self, graph: TaskGraph, index: OpIndex, rooms: Sequence[int], offsets: Sequence[int]) -> None:
        self.graph, self.index, self.rooms, self.offsets = graph, index, rooms, offsets
        self.random = Random(0)

    def improve(self, orders: Sequence[Sequence[int]], rounds: int) -> Orders:
        """Orders at least as good, after timing at most `rounds` neighbours; equal ones are accepted on the way."""
        best = [list(order) for order in orders]
        times = earliest_times(self.graph, best)
        length, dry, moves = self.length(best, times), 0, self._moves(best, times)
        while rounds and dry < MOST_DRY:
            if not moves:
                dry, moves = dry + 1, self._moves(best, times)
                continue
            tried = self._moved(best, moves.pop())
            if tried is None:
                continue
            rounds -= 1
            there = self._timed(tried)
            if there is None or self.length(tried, there) > length:
                continue
            dry = 0 if self.length(tried, there) < length else dry
            best, times, length = tried, there, self.length(tried, there)
            moves = self._moves(best, times)
        return best

    def length(self, orders: Orders, times: Times) -> int:
        """What is to be shortened."""
        return max(times.ends[order[-1]] - offset for order, offset in zip(orders, self.offsets, strict=True))

    def _timed(self, orders: Orders) -> Times | None:
        try:
            return earliest_times(self.graph, orders)
        except Deadlock:
            return None

    def _moved(self, orders: Orders, move: Move) -> Orders | None:
        """The orders after a move, if they fit in memory."""
        order = orders[move.device].copy()
        order.insert(move.target, order.pop(move.source))
        if not fits(self.graph, order, self.rooms[move.device]):
            return None
        return [*orders[: move.device], order, *orders[move.device + 1 :]]

    def _moves(self, orders: Orders, times: Times) -> list[Move]:
        """The moves at the inner ends of the blocks of a critical path, shuffled."""
        blocks = list(self._blocks(orders, times))
        moves = [move for block in blocks[1:] for move in self._to_end(orders, block)]
        moves += [move for block in blocks[:-1] for move in self._to_start(orders, block)]
        self.random.shuffle(moves)
        return moves

    def _blocks(self, orders: Orders, times: Times) -> Iterator[Block]:
        """The blocks of a critical path, the last one first. Where it forks, chance decides."""
        starts, ends = times
        length = self.length(orders, times)
        late = [d for d, order in enumerate(orders) if ends[order[-1]] - self.offsets[d] == length]
        device = self.random.choice(late)
        place = last = len(orders[device]) - 1
        while True:
            order = orders[device]
            task = order[place]
            back_to_back = place > 0 and ends[order[place - 1]] == starts[task]
            before = self._awaited(task, times)
            if before is not None and not (back_to_back and self.random.random() < 0.5):
                yield Block(device, place, last)
                device = self.graph.resources[before]
                place = last = orders[device].index(before)
            elif back_to_back:
                place -= 1
            else:
                yield Block(device, place, last)
                return

    def _awaited(self, task: int, times: Times) -> int | None:
        """The operation of another device that keeps `task` from an earlier start, if there is one."""
        for before, lag in self.graph.predecessors[task]:
            elsewhere = self.graph.resources[before] != self.graph.resources[task]
            if elsewhere and times.ends[before] + lag == times.starts[task]:
                return before
        return None

    def _to_end(self, orders: Orders, block: Block) -> Iterator[Move]:
        """Let the last operation go earlier: the nearest one of each other kind goes behind it."""
        places = range(block.last, block.first - 1, -1)
        for place in self._nearest(orders[block.device], places, needed_by=1):
            yield Move(block.device, place, block.last)

    def _to_start(self, orders: Orders, block: Block) -> Iterator[Move]:
        """Fill the time before the first operation: the nearest one of each other kind goes in front of it."""
        places = range(block.first, block.last + 1)
        for place in self._nearest(orders[block.device], places, needed_by=-1):
            yield Move(block.device, place, block.first)

    def _nearest(self, order: Sequence[int], places: range, needed_by: int) -> Iterator[int]:
        """The nearest place of each kind but the first's, unless the same microbatch's next kind (`needed_by` 1) or
        last kind (-1) lies between.
        """
        row = self.index.stages * self.index.microbatches
        seen: set[tuple[int, int]] = set()
        kinds: set[int] = set()
        for place in places:
            kind, microbatch = order[place] // row, order[place] % self.index.microbatches
            if kinds and kind not in kinds and (kind + needed_by, microbatch) not in seen:
                yield place
            kinds.add(kind)
            seen.add((kind, microbatch))
            if len(kinds) == len(self.index.kinds):
                return

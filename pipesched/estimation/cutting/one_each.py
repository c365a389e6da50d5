"""Cuts where every device has one chunk: dynamic programming over (item, chunk), exact.

A chunk costs no less with more items, so under limits of work and memory the ends that a chunk may have from a given
begin are all those up to a furthest one. Sets of items are the bits of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.estimation.cutting.costs import Amount, Costs, Ends
from pipesched.estimation.cutting.profiles import profiles

Reach = list[list[int]]  # for each chunk, the furthest end from each item; the item itself where not even it can be


class Room(NamedTuple):
    """Where chunks may end under limits, and the items from which the rest can be cut: a set for each chunk."""

    reach: Reach
    open: list[int]

    @property
    def is_enough(self) -> bool:
        """Whether there is any cut."""
        return bool(self.open[0] & 1)


def one_each(costs: Costs) -> list[Ends]:
    """Return cuts of the least excess and of these with the least largest work, the most even one first."""
    excess = _least_excess(costs)
    memory = _memory_reach(costs, excess)
    room = _least_work(costs, memory)
    return [_evenest(costs, room, weights) for weights in profiles(costs.stages)]


def _begins(costs: Costs, stage: int) -> range:
    """Return where a chunk may begin, so that every chunk has an item."""
    return range(stage, costs.items - costs.stages + stage + 1) if stage else range(1)


def _furthest(costs: Costs, begins: range, fits: Callable[[int, int], bool]) -> list[int]:
    """Return the furthest end of a chunk that fits, from each item."""
    reach, end = [*range(costs.items + 1)], 0
    for begin in begins:
        end = max(end, begin)
        while end < costs.items and fits(begin, end + 1):
            end += 1
        reach[begin] = end
    return reach


def _bytes(costs: Costs, stage: int) -> Callable[[int, int], Amount]:
    """Return the function of the bytes of a chunk by its begin and end, less the capacity."""
    question = costs.question
    device = question.devices[stage]
    count = max(vector[0] for vector in question.held[device])
    capacity = question.capacity[device]

    def above(begin: int, end: int) -> Amount:
        chunk = costs.at(begin, end)
        return 0 if capacity is None else chunk.static + count * chunk.activation - capacity

    return above


def _memory_reach(costs: Costs, excess: Amount) -> Reach:
    """Return the furthest ends with which no chunk has more than `excess` bytes above its capacity."""
    reach = []
    for stage in range(costs.stages):
        above = _bytes(costs, stage)
        if costs.question.capacity[costs.question.devices[stage]] is None:
            reach.append([costs.items] * (costs.items + 1))
        else:
            reach.append(_furthest(costs, _begins(costs, stage), lambda *run, above=above: above(*run) <= excess))
    return reach


def _room(costs: Costs, reach: Reach) -> Room:
    """Return from which items on the rest can be cut, chunk by chunk from the last one."""
    sets = [0] * costs.stages + [1 << costs.items]
    for stage in range(costs.stages - 1, -1, -1):
        after, found = sets[stage + 1], 0
        for begin in _begins(costs, stage):
            if (after >> (begin + 1)) & ((1 << (reach[stage][begin] - begin)) - 1):
                found |= 1 << begin
        sets[stage] = found
    return Room(reach, sets)


def _least_excess(costs: Costs) -> Amount:
    """Return the least possible largest excess of a device, by halving the interval it must lie in.

    That ends when no chunk has an excess inside the interval.
    """
    if not costs.question.is_limited or _room(costs, _memory_reach(costs, 0)).is_enough:
        return 0
    low: Amount = 0
    high = costs.judge(tuple(range(costs.items - costs.stages + 1, costs.items + 1))).excess
    while True:
        middle = Fraction(low + high) / 2
        reach = _memory_reach(costs, middle)
        room = _room(costs, reach)
        if room.is_enough:
            high = costs.judge(_any(costs, room)).excess
            continue
        low = middle
        if _next_excess(costs, reach) >= high:
            return high


def _next_excess(costs: Costs, reach: Reach) -> Amount:
    """Return the least excess of a chunk that reaches one item further."""
    return min(
        _bytes(costs, stage)(begin, reach[stage][begin] + 1)
        for stage in range(costs.stages)
        for begin in _begins(costs, stage)
        if reach[stage][begin] < costs.items
    )


def _least_work(costs: Costs, memory: Reach) -> Room:
    """Return the room under the least largest work."""

    def room_with(most: int) -> Room:
        reach = _furthest(costs, range(costs.items), lambda begin, end: costs.at(begin, end).work <= most)
        both = [[min(pair) for pair in zip(reach, limited, strict=True)] for limited in memory]
        return _room(costs, both)

    low, high = -1, costs.judge(_any(costs, _room(costs, memory))).device
    while high - low > 1:
        middle = (low + high) // 2
        room = room_with(middle)
        if room.is_enough:
            high = costs.judge(_any(costs, room)).device
        else:
            low = middle
    return room_with(high)


def _evenest(costs: Costs, room: Room, weights: Sequence[int]) -> Ends:
    """Return the cut with the least sum of weight x work^2; of equals the one with longer chunks first."""
    best: dict[int, tuple[int, int]] = {costs.items: (0, 0)}
    choices = []
    for stage in range(costs.stages - 1, -1, -1):
        found = {}
        for begin in _begins(costs, stage):
            options = [
                (weights[stage] * costs.at(begin, end).work ** 2 + best[end][0], -end)
                for end in _members(room, stage, begin)
            ]
            if options:
                found[begin] = min(options)
        best = found
        choices.append({begin: -end for begin, (_, end) in found.items()})
    ends, begin = [], 0
    for choice in reversed(choices):
        begin = choice[begin]
        ends.append(begin)
    return tuple(ends)


def _any(costs: Costs, room: Room) -> Ends:
    """Return the cut with the longest chunks first."""
    ends, begin = [], 0
    for stage in range(costs.stages):
        begin = max(_members(room, stage, begin))
        ends.append(begin)
    return tuple(ends)


def _members(room: Room, stage: int, begin: int) -> Iterator[int]:
    """Yield where a chunk may end so that the rest can be cut."""
    after = room.open[stage + 1]
    return (end for end in range(begin + 1, room.reach[stage][begin] + 1) if after >> end & 1)

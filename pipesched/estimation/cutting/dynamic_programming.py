"""Cuts where every device has one chunk: dynamic programming over (item, chunk), exact.

A chunk costs no less with more items, so under limits of work and memory the ends that a chunk may have from a given
begin are all those up to a furthest one. Sets of items are the bits of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pipesched.estimation.cutting.costs import ChunkCosts, Ends, profiles

Reach = list[list[int]]  # for each chunk, the furthest end from each item; the item itself where not even it can be


class ChunkEnds(NamedTuple):
    """Where chunks may end under limits, and the items from which the rest can be cut: a set for each chunk."""

    reach: Reach
    open: list[int]

    @property
    def is_enough(self) -> bool:
        """Whether there is any cut."""
        return bool(self.open[0] & 1)


def cut_single_chunks(costs: ChunkCosts) -> list[Ends]:
    """Return cuts of the least excess and of these with the least largest work, the most even one first."""
    chunk_ends = _least_work(costs, _memory_reach(costs, _least_excess(costs)))
    return [_evenest(costs, chunk_ends, weights) for weights in profiles(costs.stages)]


def _begins(costs: ChunkCosts, stage: int) -> range:
    """Return where a chunk may begin, so that every chunk has an item."""
    return range(stage, costs.items - costs.stages + stage + 1) if stage else range(1)


def _furthest(costs: ChunkCosts, begins: range, fits: Callable[[int, int], bool]) -> list[int]:
    """Return the furthest end of a chunk that fits, from each item."""
    reach, end = [*range(costs.items + 1)], 0
    for begin in begins:
        end = max(end, begin)
        while end < costs.items and fits(begin, end + 1):
            end += 1
        reach[begin] = end
    return reach


def _memory_reach(costs: ChunkCosts, excess: int) -> Reach:
    """Return the furthest ends with which no chunk has more than `excess` bytes above its capacity."""
    problem, reach = costs.problem, []
    for stage, device in enumerate(problem.devices):
        capacity, count = problem.capacity[device], max(vector[0] for vector in problem.held[device])

        def fits(begin: int, end: int, most: int = (capacity or 0) + excess, count: int = count) -> bool:
            chunk = costs.at(begin, end)
            return chunk.static + count * chunk.activation <= most

        is_free = capacity is None
        reach.append([costs.items] * (costs.items + 1) if is_free else _furthest(costs, _begins(costs, stage), fits))
    return reach


def _chunk_ends(costs: ChunkCosts, reach: Reach) -> ChunkEnds:
    """Return from which items on the rest can be cut, chunk by chunk from the last one."""
    sets = [0] * costs.stages + [1 << costs.items]
    for stage in range(costs.stages - 1, -1, -1):
        after, found = sets[stage + 1], 0
        for begin in _begins(costs, stage):
            if (after >> (begin + 1)) & ((1 << (reach[stage][begin] - begin)) - 1):
                found |= 1 << begin
        sets[stage] = found
    return ChunkEnds(reach, sets)


def _least_excess(costs: ChunkCosts) -> int:
    """Return the least possible largest excess of a device."""

    def within(excess: int) -> ChunkEnds:
        return _chunk_ends(costs, _memory_reach(costs, excess))

    if not costs.problem.is_limited or within(0).is_enough:
        return 0
    longest_last = tuple(range(costs.items - costs.stages + 1, costs.items + 1))
    return _least(0, costs.value(longest_last).excess, within, lambda ends: costs.value(_any(costs, ends)).excess)


def _least_work(costs: ChunkCosts, memory: Reach) -> ChunkEnds:
    """Return where chunks may end under the least largest work."""

    def within(most: int) -> ChunkEnds:
        def reach(times: int) -> list[int]:
            return _furthest(costs, range(costs.items), lambda begin, end: costs.at(begin, end).work * times <= most)

        reaches = {times: reach(times) for times in {*costs.slowness}}
        rows = zip(costs.slowness, memory, strict=True)
        return _chunk_ends(costs, [[*map(min, reaches[times], limited)] for times, limited in rows])

    def work(ends: ChunkEnds) -> int:
        return costs.value(_any(costs, ends)).device

    return within(_least(-1, work(_chunk_ends(costs, memory)), within, work))


def _least(low: int, high: int, within: Callable[[int], ChunkEnds], used: Callable[[ChunkEnds], int]) -> int:
    """Return the least limit in (low, high] with which there is a cut; `used` is what one of those cuts has."""
    while high - low > 1:
        middle = (low + high) // 2
        found = within(middle)
        low, high = (low, used(found)) if found.is_enough else (middle, high)
    return high


def _evenest(costs: ChunkCosts, chunk_ends: ChunkEnds, weights: Sequence[int]) -> Ends:
    """Return the cut with the least sum of weight x work^2; of equals the one with longer chunks first."""
    best: dict[int, tuple[int, int]] = {costs.items: (0, 0)}
    choices = []
    for stage in range(costs.stages - 1, -1, -1):
        found = {}
        for begin in _begins(costs, stage):
            options = [
                (weights[stage] * (costs.slowness[stage] * costs.at(begin, end).work) ** 2 + best[end][0], -end)
                for end in _members(chunk_ends, stage, begin)
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


def _any(costs: ChunkCosts, chunk_ends: ChunkEnds) -> Ends:
    """Return the cut with the longest chunks first."""
    ends, begin = [], 0
    for stage in range(costs.stages):
        begin = max(_members(chunk_ends, stage, begin))
        ends.append(begin)
    return tuple(ends)


def _members(chunk_ends: ChunkEnds, stage: int, begin: int) -> Iterator[int]:
    """Yield where a chunk may end so that the rest can be cut."""
    after = chunk_ends.open[stage + 1]
    return (end for end in range(begin + 1, chunk_ends.reach[stage][begin] + 1) if after >> end & 1)

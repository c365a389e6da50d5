"""All cuts with one stage a device, in the order of their bounds: the first has the least that any cut can have.

Dynamic programming over (stage, first item) gives the least bound with which the items from one on can be cut, and the
least largest work. A search that always goes on with the best beginning then meets cuts in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.solver.cuts.chain import Chain, Way


class RankedCut(NamedTuple):
    """A cut: its bound, its largest work of a device for one microbatch, both in ticks, and where its stages end."""

    bound: int
    work: int
    ends: tuple[int, ...]


class _Beginning(NamedTuple):
    """The first stages of a cut: what the whole has at least, and what they have themselves; the longest come first."""

    bound: float
    work: float
    left: int  # stages
    ends: tuple[int, ...]
    latency: int
    own_bound: int
    own_work: int


class CutsInOrder:
    """The cuts of a chain with a stage a device, with which one microbatch fits each device."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._latencies = self._least_latencies()
        self._bounds, self._works = self._least_of_rest()

    @property
    def least(self) -> float:
        """The least bound of a cut, but where latencies differ by boundary maybe less; infinite where none fits."""
        return self._bounds[0][0]

    def __iter__(self) -> Iterator[RankedCut]:
        """Yield the cuts by their bounds, then by their largest work."""
        chain, stages = self.chain, self.chain.stages
        queue = [_Beginning(self._bounds[0][0], self._works[0][0], stages, (), 0, 0, 0)]
        while queue:
            look()
            best = heappop(queue)
            if not best.left:
                yield RankedCut(best.own_bound, best.own_work, best.ends)
            elif best.bound < inf:
                for longer in self._longer(best):
                    heappush(queue, longer)

    def _longer(self, first: _Beginning) -> Iterator[_Beginning]:
        """Yield what a beginning becomes with each next stage."""
        chain, stage = self.chain, self.chain.stages - first.left
        begin = first.ends[-1] if first.ends else 0
        latency = first.latency + (chain.latency(stage, begin) if stage else 0)
        for end, bound, work in self._next(stage, begin, latency):
            own = max(first.own_bound, bound), max(first.own_work, work)
            most = max(own[0], self._bounds[stage + 1][end]), max(own[1], self._works[stage + 1][end])
            yield _Beginning(*most, first.left - 1, (*first.ends, end), latency, *own)

    def _next(self, stage: int, begin: int, latency: int) -> Iterator[tuple[int, int, int]]:
        """Yield where a stage may end, with its bound and its work; both grow."""
        chain, left = self.chain, self.chain.stages - 1 - stage
        (there, back), hop = chain.ways[begin], chain.hops[stage]
        way = Way(there + hop.there + latency, back + hop.back + latency)
        for end in range(begin + 1, len(chain) - left + 1) if left else (len(chain),):
            if not chain.fits(stage, begin, end):
                return
            load = chain.load(stage, begin, end)
            yield end, chain.bound(way, load), load.all

    def _least_latencies(self) -> list[list[int]]:
        """Return for each stage and first item the least latencies of boundaries on the way there, of any cut."""
        chain, known = self.chain, [[0] * (len(self.chain) + 1)]
        for stage in range(1, chain.stages):
            least, row = known[-1][stage - 1], [0] * (len(chain) + 1)
            for begin in range(stage, len(chain)):
                least = min(least, known[-1][begin - 1])
                row[begin] = least + chain.latency(stage, begin)
            known.append(row)
        return known

    def _least_of_rest(self) -> tuple[list[list[float]], list[list[float]]]:
        """Return for each stage and first item the least bound, and the least largest work, of it and those behind."""
        chain, size = self.chain, len(self.chain) + 1
        bounds, works = [[inf] * size for _ in range(chain.stages)], [[inf] * size for _ in range(chain.stages)]
        nothing = [inf] * (size - 1) + [0.0]
        bounds.append(nothing)
        works.append(nothing)
        for stage in range(chain.stages - 1, -1, -1):
            left = chain.stages - 1 - stage
            for begin in range(stage, len(chain) - left) if stage else (0,):
                look()
                best, least = inf, inf
                for end, bound, work in self._next(stage, begin, self._latencies[stage][begin]):
                    best = min(best, max(bound, bounds[stage + 1][end]))
                    least = min(least, max(work, works[stage + 1][end]))
                    if bound >= best and work >= least:
                        break
                bounds[stage][begin], works[stage][begin] = best, least
        return bounds, works

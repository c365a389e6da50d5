"""All cuts of lanes in the order of their bounds: the first has the least that any cut can have.

Dynamic programming over (device, place) gives the least bound with which the rest can be cut, and the least largest
work. A search that always goes on with the best beginning then meets cuts in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.solver.cuts.chain import Chain, CutLanes, CutWay, LaneMove, LanePlace, lanes_of


class RankedCut(NamedTuple):
    """A cut: its bound, its largest work of a device for one microbatch, both in ticks, and where its stages end."""

    bound: int
    work: int
    ends: tuple[int, ...]


class Least(NamedTuple):
    """The least bound that a place leads to, and the least largest work; infinite where no cut goes on from there."""

    bound: float = inf
    work: float = inf


class _Beginning(NamedTuple):
    """The first devices of a cut: what the whole has at least, and what they have; of equals the longest come first."""

    bound: float
    work: float
    left: int  # devices
    places: tuple[tuple[int, ...], ...]
    regions: tuple[tuple[int, int], ...]
    latency: int
    own: tuple[int, int]


class TooManyMoves(Exception):
    """Raised where there are more ways to cut than can be gone through."""


def cuts_in_order(
    chain: Chain, most: float = inf, most_moves: int | None = None, most_starts: float = inf
) -> CutsInOrder | None:
    """Return the cuts of a chain by their bounds, up to `most` ticks; None where these cannot be gone through."""
    lanes = lanes_of(chain, most, most_starts)
    try:
        return None if lanes is None else CutsInOrder(lanes, most_moves)
    except TooManyMoves:
        return None


class CutsInOrder:
    """The cuts of lanes with which one microbatch fits each device. Raises TooManyMoves.

    `ahead` is a bound of all that were not yielded, infinite where there is none: of those above `lanes.most` that.
    """

    def __init__(self, lanes: CutLanes, most_moves: int | None = None) -> None:
        self.lanes, self.chain = lanes, lanes.chain
        self._begins = [*lanes.begins()]
        self._moves = self._all_moves(most_moves)
        self._least = self._least_of_rest()
        self.ahead = self.least

    @property
    def least(self) -> float:
        """The least bound of a cut, but where latencies differ by boundary maybe less; infinite where none fits."""
        return min([*(self._of(0, place).bound for place in self._begins), self.lanes.most])

    def _of(self, number: int, place: LanePlace) -> Least:
        return self._least[number].get(place, Least())

    def __iter__(self) -> Iterator[RankedCut]:
        return self.within(None)

    def within(self, most: int | None) -> Iterator[RankedCut]:
        """Yield the cuts by their bounds, then by their largest work, until `most` beginnings were made longer."""
        count, made = len(self.lanes.order), 0
        queue = [
            _Beginning(*self._of(0, place), count, (place.at,), place.regions, 0, (0, 0)) for place in self._begins
        ]
        heapify(queue)
        while queue and queue[0].bound < inf and made != most:
            look()
            best = heappop(queue)
            if best.left:
                made += 1
                for longer in self._longer(best):
                    heappush(queue, longer)
            self.ahead = min(queue[0].bound if queue else inf, self.lanes.most)
            if not best.left:
                yield RankedCut(*best.own, self.lanes.ends(best.places))

    def _longer(self, first: _Beginning) -> Iterator[_Beginning]:
        """Yield what a beginning becomes with what the next device may take."""
        number, place = len(self.lanes.order) - first.left, LanePlace(first.places[-1], first.regions)
        latency = first.latency + self._latency(number, place)
        way = self._way(number, place, latency)
        for move in self._moves[number].get(place, ()):
            own = max(first.own[0], self.chain.bound(way, move.load)), max(first.own[1], move.load.all)
            rest = self._of(number + 1, LanePlace(move.at, first.regions))
            most = max(own[0], rest.bound), max(own[1], rest.work)
            if most[0] <= self.lanes.most and rest.bound < inf:
                yield _Beginning(*most, first.left - 1, (*first.places, move.at), first.regions, latency, own)

    def _latency(self, number: int, place: LanePlace) -> int:
        """Return the latency of the boundary before the first stage of a device."""
        return self.chain.latency(number, place.at[0]) if number else 0

    def _way(self, number: int, place: LanePlace, latency: int) -> CutWay:
        (there, back), hop = self.chain.ways[place.at[0]], self.chain.hops[number]
        return CutWay(there + hop.there + latency, back + hop.back + latency)

    def _all_moves(self, most: int | None) -> list[dict[LanePlace, list[LaneMove]]]:
        """Return for each device and place what it may take, with the least latencies of any cut on the way there."""
        found, made = list[dict[LanePlace, list[LaneMove]]](), 0
        self._latencies: list[dict[LanePlace, int]] = [dict.fromkeys(self._begins, 0)]
        for number in range(len(self.lanes.order)):
            here: dict[LanePlace, list[LaneMove]] = {}
            behind: dict[LanePlace, int] = {}
            for place, before in self._latencies[-1].items():
                look()
                latency = self._latencies[-1][place] = before + self._latency(number, place)
                here[place] = [*self.lanes.moves(number, place, self._way(number, place, latency))]
                made += len(here[place])
                if most is not None and made > most:
                    raise TooManyMoves
                for move in here[place]:
                    following = LanePlace(move.at, place.regions)
                    behind[following] = min(latency, behind.get(following, latency))
            found.append(here)
            self._latencies.append(behind)
        return found

    def _least_of_rest(self) -> list[dict[LanePlace, Least]]:
        """Return for each device and place the least bound, and the least largest work, of it and those behind."""
        least = [dict.fromkeys(self._latencies[-1], Least(0, 0))]
        for number in range(len(self.lanes.order) - 1, -1, -1):
            here: dict[LanePlace, Least] = {}
            for place, moves in self._moves[number].items():
                look()
                way, best, work = self._way(number, place, self._latencies[number][place]), inf, inf
                for move in moves:
                    rest = least[-1].get(LanePlace(move.at, place.regions), Least())
                    best = min(best, max(self.chain.bound(way, move.load), rest.bound))
                    work = min(work, max(move.load.all, rest.work))
                if best < inf:
                    here[place] = Least(best, work)
            least.append(here)
        return least[::-1]

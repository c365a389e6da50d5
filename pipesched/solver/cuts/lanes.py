"""Lanes: rows of stages of which each goes through all devices, down or up, as with one stage a device, loop, V, wave.

A cut is then made device by device. What is known of the devices so far is how far each lane has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from math import comb, inf
from typing import NamedTuple

from pipesched.solver.cuts.chain import Chain, CutWay, Load


class LanePlace(NamedTuple):
    """How far each lane has come, and the items between which it runs; two lanes that meet share theirs."""

    at: tuple[int, ...]
    regions: tuple[tuple[int, int], ...]


class LaneMove(NamedTuple):
    """What the next device takes: where the lanes are then, and its load."""

    at: tuple[int, ...]
    load: Load


class CutLanes:
    """The lanes of a chain, whose cuts are looked for with a bound of no more than `most` ticks."""

    def __init__(self, chain: Chain, order: Sequence[int], is_back: Sequence[bool], most: float) -> None:
        self.chain, self.order, self.is_back, self.most = chain, order, is_back, most
        rates = [chain.microbatches * chain.least_time(chain.devices.speed[device]) for device in order]
        self._rates = [0.0] * (len(order) + 1)  # the work of the devices from one on in a tick
        for number in range(len(order) - 1, -1, -1):
            self._rates[number] = self._rates[number + 1] + (float(1 / rates[number]) if rates[number] else 0.0)

    def begins(self) -> Iterator[LanePlace]:
        """Yield where lanes may begin, for each choice of the items at which those begin that meet none."""
        lanes = range(len(self.is_back))
        inner = [lane for lane in lanes[1:] if not self.is_back[lane]]
        for starts in combinations(range(1, len(self.chain)), len(inner)):
            edges, regions = (0, *starts, len(self.chain)), list[tuple[int, int]]()
            for lane in lanes:
                number = sum(not back for back in self.is_back[: lane + 1]) - 1
                regions.append(edges[number : number + 2])  # type: ignore[arg-type]
            at = tuple(right if back else left for back, (left, right) in zip(self.is_back, regions, strict=True))
            place = LanePlace(at, tuple(regions))
            if all(right - left >= regions.count((left, right)) * len(self.order) for left, right in regions):
                yield place

    def moves(self, number: int, place: LanePlace, way: CutWay) -> Iterator[LaneMove]:
        """Yield what a device may take from a place on, with a way before it, so that the others can have the rest."""
        yield from self._moved(number, place, way, (), Load(0, 0))

    def _moved(
        self, number: int, place: LanePlace, way: CutWay, moved: tuple[int, ...], load: Load
    ) -> Iterator[LaneMove]:
        lane = len(moved)
        if lane == len(self.is_back):
            left = self.most - way.there
            if left == inf or self._rest(place, moved) <= self._rates[number + 1] * left * 1.000_000_000_001:
                yield LaneMove(moved, load)
            return
        at, back = place.at[lane], self.is_back[lane]
        for end in self._ends(number, place, moved):
            begin, behind = (end, at) if back else (at, end)
            more = self.chain.load(number, begin, behind)
            own = Load(load.all + more.all, load.before + more.before)
            if self.chain.bound(way, own) > self.most or not self._fits(number, place, (*moved, end)):
                return
            yield from self._moved(number, place, way, (*moved, end), own)

    def _ends(self, number: int, place: LanePlace, moved: tuple[int, ...]) -> range:
        """Return how far the next lane may come, nearest first, so that each device behind has an item of each lane."""
        lane, behind = len(moved), len(self.order) - 1 - number
        at, right, back = place.at[lane], place.regions[lane][1], self.is_back[lane]
        is_met = lane + 1 < len(self.is_back) and self.is_back[lane + 1]
        if is_met:
            return range(at + 1, place.at[lane + 1] - 2 * behind)
        if back:
            return range(at - 1, moved[-1] + 2 * behind - 1, -1) if behind else range(moved[-1], moved[-1] - 1, -1)
        return range(at + 1, right - behind + 1) if behind else range(right, right + 1)

    def _fits(self, number: int, place: LanePlace, moved: tuple[int, ...]) -> bool:
        runs = [(min(pair), max(pair)) for pair in zip(place.at, moved, strict=False)]
        return self.chain.fits(number, runs)

    def _rest(self, place: LanePlace, at: tuple[int, ...]) -> int:
        """Return the work that is left for the devices behind."""
        least, rest = self.chain.least_work, 0
        for lane, (end, (_, right)) in enumerate(zip(at, place.regions, strict=True)):
            if self.is_back[lane]:
                rest -= least[right] - least[end]
            else:
                rest += least[right] - least[end]
        return rest

    def ends(self, places: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Return where the stages of a cut end, by the places before each device and behind the last."""
        found: list[int] = []
        for lane, back in enumerate(self.is_back):
            row = [at[lane] for at in places]
            found += row[-2::-1] if back else row[1:]
        return tuple(found)


def lanes_of(chain: Chain, most: float, most_starts: float = inf) -> CutLanes | None:
    """Return the lanes of a chain for cuts of a bound of `most` ticks at most; None where its stages stand in none.

    So it is too where lanes may begin at more than `most_starts` choices of items.
    """
    of_stages, count = chain.devices.of_stages, len(chain.devices.speed)
    order = of_stages[:count]
    rows = [of_stages[start : start + count] for start in range(0, len(of_stages), count)]
    if chain.devices.mirrored or len({*order}) < count or any(row not in (order, order[::-1]) for row in rows):
        return None
    backs = [row != order for row in rows]
    if any(one and other for one, other in pairwise(backs)):
        return None
    if comb(len(chain), backs.count(False) - 1) > most_starts:
        return None
    return CutLanes(chain, order, backs, most)

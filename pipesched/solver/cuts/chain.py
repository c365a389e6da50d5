"""A model as a row of items that no cut divides (`Chain`): the bound of each cut into stages, and cuts by their bounds.

`tried.py` makes a `Chain` and asks `cuts_in_order` for its cuts; `Chain.bound_of` bounds one cut: a device begins when
the forwards of the items before its first stage are done, runs its work for all microbatches, and where its last
operation is no weight gradient, the gradient still goes back through those items.

A lane is a row of stages with one on each device. `cuts_in_order` has cuts where the first lane goes through all
devices, and each other in the same order or back. `CutLanes` says what items a device may take, lane by lane, once the
devices before it have theirs. `CutsInOrder` then has by dynamic programming over (device, place) the least bound with
which the rest can be cut, and the least largest work. A search that goes on with the best beginning meets cuts so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import accumulate, combinations, pairwise
from math import comb, gcd, inf
from typing import NamedTuple

from pipesched.core.clock import check_deadline
from pipesched.pipeline.layers.cutting import CutItems
from pipesched.pipeline.problem.costs import at_speed
from pipesched.pipeline.problem.quantities import MOST_DIGITS, grains_per_unit, ticks_per_unit

SLACK = Fraction(5, 10**MOST_DIGITS)  # the part that rounding to so many digits takes off at most


class Devices(NamedTuple):
    """The device of each stage; of devices the speed and the memory (None: no limit), and the links between them.

    A second copy of the stages may be on the devices of `second`, for half of the microbatches.
    """

    of_stages: Sequence[int]
    speed: Sequence[Fraction]
    room: Sequence[Fraction] | None = None
    links: Sequence[Sequence[Fraction]] | None = None
    second: Sequence[int] = ()

    def link(self, here: int, there: int) -> Fraction:
        """Return the latency from a device to another, beside that of the boundary."""
        return Fraction(0) if self.links is None else self.links[here][there]


class CutWay(NamedTuple):
    """What it takes from the first item to others, and for the gradient to come home; in ticks."""

    there: int
    back: int


class Load(NamedTuple):
    """What a device does for each microbatch: all of it, and what comes before the gradient goes on; in ticks."""

    all: int
    before: int


NO_LOAD = Load(0, 0)


@dataclass(frozen=True)
class Chain:
    """Items to be cut into stages of one or more, and the devices of the stages, for so many microbatches.

    `counts_ways`: bounds are of the makespan, to which the way to a device and back belongs; else of the span.
    `keeps_activations`: none is recomputed or offloaded.
    """

    items: CutItems
    devices: Devices
    microbatches: int
    counts_ways: bool = True
    keeps_activations: bool = True
    _loads: dict[tuple[int, int, int], Load] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.items.forward)

    @property
    def stages(self) -> int:
        return len(self.devices.of_stages)

    @cached_property
    def _times(self) -> set[Fraction]:
        items, links = self.items, self.devices.links or ()
        columns = (items.forward, items.gradient, items.weight, items.pair or (), items.p2p, *links)
        return {value for column in columns for value in column}

    @cached_property
    def per_unit(self) -> int:
        scale = ticks_per_unit(self._times)
        return scale if {*self.devices.speed} == {1} else scale * 10**MOST_DIGITS  # durations have more digits

    def ticks(self, time: Fraction) -> int:
        """Return a time in ticks, rounded down."""
        return int(time * self.per_unit)  # rounded down

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times in ticks, of which every makespan is a multiple."""
        return 1 if {*self.devices.speed} != {1} else gcd(*map(self.ticks, self._times)) or 1

    @cached_property
    def _sums(self) -> dict[str, list[int]]:
        """The sums of the first 0, 1, .. items."""
        items = self.items
        columns = {"forward": items.forward, "gradient": items.gradient, "weight": items.weight}
        if items.pair is not None:
            columns["pair"] = items.pair
        return {key: [*accumulate(map(self.ticks, column), initial=0)] for key, column in columns.items()}

    @cached_property
    def _memory(self) -> tuple[list[int], list[list[int]], list[int]]:
        """The static memory and what is held of the first 0, 1, .. items, and the room of each device, in grains."""
        items, room = self.items, self.devices.room or ()
        scale = grains_per_unit([*items.static, *room, *(size for column in items.held for size in column)])

        def sums(column: Sequence[Fraction]) -> list[int]:
            return [*accumulate((int(size * scale) for size in column), initial=0)]

        return sums(items.static), [*map(sums, items.held)], [int(limit * scale) for limit in room]

    @cached_property
    def fastest(self) -> Fraction:
        """What a cost of 1 lasts at least, on whatever device."""
        return min(self.least_time(speed) for speed in {*self.devices.speed})

    def least_time(self, speed: Fraction) -> Fraction:
        """Return what a cost of 1 lasts at least at a speed: where durations may be rounded down, a trifle less."""
        return 1 / speed if self.is_exact(speed) else (1 - SLACK) / speed

    def is_exact(self, speed: Fraction) -> bool:
        """Return whether no duration at a speed is rounded, whatever the cut."""
        if speed == 1:
            return True
        items = self.items
        columns = [items.forward, items.gradient, items.weight, items.pair or ()]
        try:
            scale = ticks_per_unit({value / speed for column in columns for value in column})
        except ValueError:
            return False
        return all(sum(column, Fraction(0)) / speed * scale < 10**MOST_DIGITS for column in columns)

    @property
    def has_ways(self) -> bool:
        """Whether it is known what comes before the work of a device, and counts."""
        return self.counts_ways and not self.devices.second

    @cached_property
    def ways(self) -> list[CutWay]:
        """The least time of the forwards of the first 0, 1, .. items, and of the gradients back through them."""
        if not self.has_ways:
            return [CutWay(0, 0)] * (len(self) + 1)
        forward, gradient = [*map(self.ticks, self.items.forward)], [*map(self.ticks, self.items.gradient)]
        if self.items.pair is not None:
            pair = [*map(self.ticks, self.items.pair)]
            forward, gradient = [*map(min, forward, pair)], [*map(min, gradient, pair)]
        rows = zip(accumulate(forward, initial=0), accumulate(gradient, initial=0), strict=True)
        return [CutWay(int(there * self.fastest), int(back * self.fastest)) for there, back in rows]

    @cached_property
    def hops(self) -> list[CutWay]:
        """The latencies of links on the way to each stage."""
        if not self.has_ways:
            return [CutWay(0, 0)] * self.stages
        pairs, link = [*pairwise(self.devices.of_stages)], self.devices.link
        forth = accumulate((self.ticks(link(here, there)) for here, there in pairs), initial=0)
        back = accumulate((self.ticks(link(there, here)) for here, there in pairs), initial=0)
        return [*map(CutWay, forth, back)]

    def latency(self, stage: int, begin: int) -> int:
        """Return the latency of the boundary before a stage that begins with an item."""
        return self.latencies[begin - 1] if self.is_crossed[stage] else 0

    @cached_property
    def latencies(self) -> list[int]:
        return [*map(self.ticks, self.items.p2p)]

    @cached_property
    def is_crossed(self) -> list[bool]:
        """Whether the boundary before each stage is one between devices, and counts."""
        return [False, *(here != there and self.has_ways for here, there in pairwise(self.devices.of_stages))]

    def load(self, stage: int, begin: int, end: int) -> Load:
        """Return what a stage of the items from `begin` to the one before `end` does for each microbatch."""
        device = self._alike[self.devices.of_stages[stage]]
        found = self._loads.get((device, begin, end))
        if found is None:
            speed = self.devices.speed[device]
            times = {key: sums[end] - sums[begin] for key, sums in self._sums.items()}
            if speed != 1:
                times = {key: self.ticks(at_speed(Fraction(cost, self.per_unit), speed)) for key, cost in times.items()}
            before = times["forward"] + times["gradient"] * self._counts_backwards
            whole = before + times["weight"] * self._counts_backwards
            pair = times.get("pair", whole)
            found = self._loads[device, begin, end] = Load(min(whole, pair), min(before, pair))
        return found

    @cached_property
    def _alike(self) -> list[int]:
        """The first device of the same speed, for each device."""
        return [*map(self.devices.speed.index, self.devices.speed)]

    @cached_property
    def _counts_backwards(self) -> bool:
        """Whether it is known what is left of a backward in a pair: it may be with the forward of another stage."""
        devices = self.devices
        is_single = not devices.second and self.stages == len(devices.speed) == len({*devices.of_stages})
        return self.items.pair is None or is_single

    def bound(self, way: CutWay, load: Load) -> int:
        """Return the least makespan with a device that has this load, and this way before it."""
        work = [self.microbatches * amount for amount in load]
        return max(way.there + work[0], way.there + work[1] + way.back)

    def fits(self, stage: int, runs: Sequence[tuple[int, int]]) -> bool:
        """Return whether the device of a stage has memory for one microbatch of stages of these items.

        Of several stages it holds the activations of all, if all are kept, else of one at a time.
        """
        if self.devices.room is None:
            return True
        static, held, room = self._memory
        sizes = [[sums[end] - sums[begin] for sums in held] for begin, end in runs]
        most = max(map(max, sizes))
        if len(runs) > 1 and self.keeps_activations:
            most = max(most, sum(size[0] for size in sizes))
        return sum(static[end] - static[begin] for begin, end in runs) + most <= room[self.devices.of_stages[stage]]

    @cached_property
    def least_work(self) -> list[int]:
        """The least work of the first 0, 1, .. items at speed 1."""
        items = self.items
        columns = [items.forward, items.gradient, items.weight] if self._counts_backwards else [items.forward]
        work = [sum(map(self.ticks, one)) for one in zip(*columns, strict=True)]
        if items.pair is not None:
            work = [*map(min, work, map(self.ticks, items.pair))]
        return [*accumulate(work, initial=0)]

    def way(self, stage: int, begin: int, latency: int) -> CutWay:
        """Return the way to a stage that begins with an item, with so much latency of the boundaries before it."""
        (there, back), hop = self.ways[begin], self.hops[stage]
        return CutWay(there + hop.there + latency, back + hop.back + latency)

    def bound_of(self, ends: Sequence[int]) -> tuple[int, int]:
        """Return the bound of a cut with these ends, and its largest work of a device for one microbatch; in ticks."""
        ways, loads, latency = dict[int, CutWay](), [NO_LOAD] * len(self.devices.speed), 0
        for stage, (begin, end) in enumerate(pairwise((0, *ends))):
            device = self.devices.of_stages[stage]
            loads[device] = _sum(loads[device], self.load(stage, begin, end))
            latency += self.latency(stage, begin)
            ways.setdefault(device, self.way(stage, begin, latency))  # to its first stage
        if self.devices.second:
            loads = [Load(*(time // 2 for time in _sum(*pair))) for pair in zip(loads, loads[::-1], strict=True)]
        return max(self.bound(way, loads[device]) for device, way in ways.items()), max(load.all for load in loads)


def _sum(one: Load, other: Load) -> Load:
    return Load(one.all + other.all, one.before + other.before)


class LanePlace(NamedTuple):
    """How far each lane has come, and the items between which it runs: a lane and one back, that meet share theirs."""

    at: tuple[int, ...]
    regions: tuple[tuple[int, int], ...]


LaneMove = tuple[tuple[int, ...], Load]  # what the next device takes: where the lanes are then, and its load


class CutLanes:
    """The lanes of a chain, whose cuts are looked for with a bound of no more than `most` ticks."""

    def __init__(self, chain: Chain, order: Sequence[int], is_back: Sequence[bool], most: float) -> None:
        self.chain, self.order, self.is_back, self.most = chain, order, is_back, most
        rates = [chain.microbatches * chain.least_time(chain.devices.speed[device]) for device in order]
        done = (float(1 / rate) if rate else 0.0 for rate in reversed(rates))
        self._rates = [*accumulate(done, initial=0.0)][::-1]  # the work of the devices from one on in a tick

    def begins(self) -> Iterator[LanePlace]:
        """Yield where lanes may begin: one back at the end of the items that it shares."""
        numbers = [self.is_back[: lane + 1].count(False) - 1 for lane in range(len(self.is_back))]
        for starts in combinations(range(1, len(self.chain)), numbers[-1]):
            parts = [*pairwise((0, *starts, len(self.chain)))]
            regions = [parts[number] for number in numbers]
            at = tuple(right if back else left for back, (left, right) in zip(self.is_back, regions, strict=True))
            place = LanePlace(at, tuple(regions))
            if all(right - left >= regions.count((left, right)) * len(self.order) for left, right in regions):
                yield place

    def moves(
        self, number: int, place: LanePlace, way: CutWay, moved: tuple[int, ...] = (), load: Load = NO_LOAD
    ) -> Iterator[LaneMove]:
        """Yield what a device may take from a place on, with a way before it, so that the others can have the rest.

        Its lanes are moved one after another: `moved` are those that are, with their load.
        """
        lane = len(moved)
        if lane == len(self.is_back):
            least, lanes = self.chain.least_work, zip(self.is_back, moved, place.regions, strict=True)
            rest = sum((-1 if back else 1) * (least[right] - least[end]) for back, end, (_, right) in lanes)
            left = self.most - way.there
            if left == inf or rest <= self._rates[number + 1] * left * 1.000_000_000_001:
                yield moved, load
            return
        at, back = place.at[lane], self.is_back[lane]
        for end in self._ends(number, place, moved):
            begin, behind = (end, at) if back else (at, end)
            own = _sum(load, self.chain.load(number, begin, behind))
            runs = [(min(pair), max(pair)) for pair in zip(place.at, (*moved, end), strict=False)]
            if self.chain.bound(way, own) > self.most or not self.chain.fits(number, runs):
                return
            yield from self.moves(number, place, way, (*moved, end), own)

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

    def ends(self, places: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Return where the stages of a cut end, by the places before each device and behind the last."""
        found: list[int] = []
        for row, back in zip(zip(*places, strict=True), self.is_back, strict=True):
            found += row[-2::-1] if back else row[1:]
        return tuple(found)


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
    """Return the cuts of a chain by their bounds, up to `most` ticks; None where its stages stand in no lanes.

    None also where lanes may begin at more than `most_starts` choices of items, or have more than `most_moves`.
    """
    of_stages, count = chain.devices.of_stages, len(chain.devices.speed)
    order = of_stages[:count]
    rows = [of_stages[start : start + count] for start in range(0, len(of_stages), count)]
    backs = [row != order for row in rows]
    if chain.devices.second or len({*order}) < count or any(row not in (order, order[::-1]) for row in rows):
        return None
    if any(one and other for one, other in pairwise(backs)) or comb(len(chain), backs.count(False) - 1) > most_starts:
        return None
    with suppress(TooManyMoves):
        return CutsInOrder(CutLanes(chain, order, backs, most), most_moves)
    return None


class CutsInOrder:
    """The cuts of lanes with which one microbatch fits each device. Raises TooManyMoves.

    `ahead` is a bound of all cuts that were not yielded: at most `lanes.most`, above which none is looked for.
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

    def within(self, limit: int | None = None) -> Iterator[RankedCut]:
        """Yield the cuts by their bounds, then by their largest work, until `limit` beginnings were made longer."""
        count, made = len(self.lanes.order), 0
        queue = [_Beginning(*self._of(0, one), count, (one.at,), one.regions, 0, (0, 0)) for one in self._begins]
        heapify(queue)
        while queue and queue[0].bound < inf and made != limit:
            check_deadline()
            best = heappop(queue)
            if best.left:
                made += 1
                number, place = count - best.left, LanePlace(best.places[-1], best.regions)
                latency = best.latency + self.chain.latency(number, place.at[0])
                way = self.chain.way(number, place.at[0], latency)
                for at, load in self._moves[number].get(place, ()):
                    own = max(best.own[0], self.chain.bound(way, load)), max(best.own[1], load.all)
                    rest = self._of(number + 1, LanePlace(at, best.regions))
                    most = max(own[0], rest.bound), max(own[1], rest.work)
                    if most[0] <= self.lanes.most and rest.bound < inf:
                        places = *best.places, at
                        heappush(queue, _Beginning(*most, best.left - 1, places, best.regions, latency, own))
            self.ahead = min(queue[0].bound if queue else inf, self.lanes.most)
            if not best.left:
                yield RankedCut(*best.own, self.lanes.ends(best.places))

    __iter__ = within

    def _all_moves(self, most: int | None) -> list[dict[LanePlace, list[LaneMove]]]:
        """Return for each device and place what it may take, with the least latencies of any cut on the way there."""
        found, made = list[dict[LanePlace, list[LaneMove]]](), 0
        self._latencies: list[dict[LanePlace, int]] = [dict.fromkeys(self._begins, 0)]
        for number in range(len(self.lanes.order)):
            here: dict[LanePlace, list[LaneMove]] = {}
            behind: dict[LanePlace, int] = {}
            for place, before in self._latencies[-1].items():
                check_deadline()
                latency = self._latencies[-1][place] = before + self.chain.latency(number, place.at[0])
                here[place] = [*self.lanes.moves(number, place, self.chain.way(number, place.at[0], latency))]
                made += len(here[place])
                if most is not None and made > most:
                    raise TooManyMoves
                for at, _ in here[place]:
                    following = LanePlace(at, place.regions)
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
                check_deadline()
                way = self.chain.way(number, place.at[0], self._latencies[number][place])
                best = work = inf
                for at, load in moves:
                    rest = least[-1].get(LanePlace(at, place.regions), Least())
                    best = min(best, max(self.chain.bound(way, load), rest.bound))
                    work = min(work, max(load.all, rest.work))
                if best < inf:
                    here[place] = Least(best, work)
            least.append(here)
        return least[::-1]

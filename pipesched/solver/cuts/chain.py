"""A model as a row of items that no cut divides, on the devices of its stages: what runs of items last, hold, and allow.

The bound of a cut: a device begins when the forwards of the items before its first stage are done, runs its work for
all microbatches, and where its last operation is no weight gradient, the gradient still goes back through those items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from math import gcd
from typing import NamedTuple

from pipesched.pipeline.device_costs import at_speed
from pipesched.pipeline.quantities import MOST_DIGITS, ticks_per_unit

FINER = 10**9  # where speeds differ, durations have digits beyond those of the costs
SLACK = Fraction(5, 10**MOST_DIGITS)  # the part that rounding to so many digits takes off at most


class Items(NamedTuple):
    """What each item takes at speed 1, in a time unit, and holds, in a memory unit; and the latencies between them.

    `gradient` is the time of what must run before the gradient goes on: I, or a whole backward, whose `weight` is 0.
    `pair` is that of a pair F&B where it may be shorter than its parts. `held` is what one microbatch holds at most.
    """

    forward: Sequence[Fraction]
    gradient: Sequence[Fraction]
    weight: Sequence[Fraction]
    pair: Sequence[Fraction] | None
    p2p: Sequence[Fraction]
    static: Sequence[Fraction]
    held: Sequence[Sequence[Fraction]]  # in each way to count it; the largest sum counts


class Devices(NamedTuple):
    """The device of each stage; of devices the speed and the memory (None: no limit), and the links between them."""

    of_stages: Sequence[int]
    speed: Sequence[Fraction]
    room: Sequence[Fraction] | None = None
    links: Sequence[Sequence[Fraction]] | None = None

    def link(self, here: int, there: int) -> Fraction:
        """Return the latency from a device to another, beside that of the boundary."""
        return Fraction(0) if self.links is None else self.links[here][there]


class Way(NamedTuple):
    """What it takes from the first item to others, and for the gradient to come home; in ticks."""

    there: int
    back: int


class Load(NamedTuple):
    """What a device does for each microbatch: all of it, and what comes before the gradient goes on; in ticks."""

    all: int
    before: int


@dataclass(frozen=True)
class Chain:
    """Items to be cut into stages of one or more, and the devices of the stages, for so many microbatches."""

    items: Items
    devices: Devices
    microbatches: int

    def __len__(self) -> int:
        return len(self.items.forward)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.devices.of_stages)

    @property
    def is_single(self) -> bool:
        """Whether each device has one stage."""
        return self.stages == len(self.devices.speed) == len({*self.devices.of_stages})

    @cached_property
    def per_unit(self) -> int:
        """The ticks in a time unit."""
        items, links = self.items, self.devices.links or ()
        columns = (items.forward, items.gradient, items.weight, items.pair or (), items.p2p, *links)
        scale = ticks_per_unit({value for column in columns for value in column})
        return scale if {*self.devices.speed} == {1} else scale * FINER

    def ticks(self, time: Fraction) -> int:
        """Return a time in ticks, rounded down."""
        return int(time * self.per_unit)

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times in ticks, of which every makespan is a multiple."""
        if {*self.devices.speed} != {1}:
            return 1
        items, links = self.items, self.devices.links or ()
        columns = (items.forward, items.gradient, items.weight, items.pair or (), items.p2p, *links)
        return gcd(*(self.ticks(value) for column in columns for value in column)) or 1

    @cached_property
    def _sums(self) -> dict[str, list[int]]:
        """The sums of the first 0, 1, .. items."""
        items = self.items
        columns = {"forward": items.forward, "gradient": items.gradient, "weight": items.weight}
        if items.pair is not None:
            columns["pair"] = items.pair
        return {key: [*accumulate(map(self.ticks, column), initial=0)] for key, column in columns.items()}

    @cached_property
    def _memory(self) -> tuple[list[Fraction], list[list[Fraction]]]:
        static, held = ([*accumulate(self.items.static, initial=Fraction(0))], self.items.held)
        return static, [[*accumulate(column, initial=Fraction(0))] for column in held]

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

    @cached_property
    def ways(self) -> list[Way]:
        """The least time of the forwards of the first 0, 1, .. items, and of the gradients back through them."""
        forward, gradient = [*map(self.ticks, self.items.forward)], [*map(self.ticks, self.items.gradient)]
        if self.items.pair is not None:
            pair = [*map(self.ticks, self.items.pair)]
            forward, gradient = [*map(min, forward, pair)], [*map(min, gradient, pair)]
        rows = zip(accumulate(forward, initial=0), accumulate(gradient, initial=0), strict=True)
        return [Way(int(there * self.fastest), int(back * self.fastest)) for there, back in rows]

    @cached_property
    def hops(self) -> list[Way]:
        """The latencies of links on the way to each stage."""
        found, devices = [Way(0, 0)], self.devices
        for here, there in pairwise(devices.of_stages):
            way = Way(self.ticks(devices.link(here, there)), self.ticks(devices.link(there, here)))
            found.append(Way(*map(sum, zip(found[-1], way, strict=True))))
        return found

    def latency(self, stage: int, begin: int) -> int:
        """Return the latency of the boundary before a stage that begins with an item."""
        here, there = self.devices.of_stages[stage - 1 : stage + 1]
        return 0 if here == there else self.ticks(self.items.p2p[begin - 1])

    def least_latency(self, stage: int) -> int:
        """Return the least latency that the boundary before a stage may have."""
        return min((self.latency(stage, begin) for begin in range(1, len(self))), default=0)

    @property
    def has_one_latency(self) -> bool:
        """Whether all boundaries have the same latency."""
        return len({*self.items.p2p}) <= 1

    def load(self, stage: int, begin: int, end: int) -> Load:
        """Return what a stage of the items from `begin` to the one before `end` does for each microbatch."""
        speed = self.devices.speed[self.devices.of_stages[stage]]
        times = {key: self._lasts(sums[end] - sums[begin], speed) for key, sums in self._sums.items()}
        before = times["forward"] + times["gradient"]
        whole = before + times["weight"]
        pair = times.get("pair", whole)
        return Load(min(whole, pair), min(before, pair))

    def _lasts(self, cost: int, speed: Fraction) -> int:
        return cost if speed == 1 else self.ticks(at_speed(Fraction(cost, self.per_unit), speed))

    def bound(self, way: Way, load: Load) -> int:
        """Return the least makespan with a device that has this load, and this way before it."""
        work = [self.microbatches * amount for amount in load]
        return max(way.there + work[0], way.there + work[1] + way.back)

    def fits(self, stage: int, begin: int, end: int) -> bool:
        """Return whether the device of a stage has memory for one microbatch of it."""
        if self.devices.room is None:
            return True
        static, held = self._memory
        most = max(sums[end] - sums[begin] for sums in held)
        return static[end] - static[begin] + most <= self.devices.room[self.devices.of_stages[stage]]

    def way_to(self, stage: int, ends: Sequence[int]) -> Way:
        """Return the way to a stage of a cut, of which `ends` are the first item behind each stage."""
        begin, hop = ends[stage - 1] if stage else 0, self.hops[stage]
        latency = sum(self.latency(number, ends[number - 1]) for number in range(1, stage + 1))
        there, back = self.ways[begin]
        return Way(there + hop.there + latency, back + hop.back + latency)

    def bound_of(self, ends: Sequence[int]) -> tuple[int, int]:
        """Return the bound of a cut, and its largest work of a device for one microbatch; in ticks."""
        loads: dict[int, Load] = {}
        firsts: dict[int, int] = {}
        for stage, (begin, end) in enumerate(pairwise((0, *ends))):
            device = self.devices.of_stages[stage]
            own = self.load(stage, begin, end)
            loads[device] = Load(*map(sum, zip(own, loads.get(device, (0, 0)), strict=True)))
            firsts.setdefault(device, stage)
        bounds = [self.bound(self.way_to(stage, ends), loads[device]) for device, stage in firsts.items()]
        return max(bounds), max(load.all for load in loads.values())

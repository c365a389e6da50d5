"""What units last and send where microbatches differ: the one place that says so, by stage and unit.

Of a stage and a microbatch, the cost in its table (or that of all microbatches) is multiplied by the microbatch's
factor and by the slice's share; the speed of the device divides that, rounded half up to 9 digits, and the overhead of
a slice is added, the same on every device. All of it is exact: ticks are the least integers that make every
amount whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import gcd, lcm
from operator import mul
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.pipeline.costs import PER_STAGE, SCALED, TRANSFER_TIMES, Costs, Entry, Links, Ticks, at_speed
from pipesched.pipeline.memory import Grains, Memory
from pipesched.pipeline.quantities import Exact, in_one_scale, to_fraction
from pipesched.pipeline.units import FACTORS, SHARED, Sizes, Slices

Row = Sequence[int]  # one a unit
ONE = Fraction(1)


class Units(NamedTuple):
    """The M microbatches of a problem, their factors (None: all 1), and their slices."""

    microbatches: int
    sizes: Sizes | None
    slices: Slices

    def factors(self, key: str) -> Sequence[Fraction]:
        """Return a factor of each microbatch: of its work, activation or message."""
        return [ONE] * self.microbatches if self.sizes is None else [*map(to_fraction, getattr(self.sizes, key))]

    def wholes(self, key: str) -> tuple[list[int], int]:
        """Return the same as whole multiples of 1/scale, and the scale."""
        return ([1] * self.microbatches, 1) if self.sizes is None else self.sizes.wholes[key]

    def part(self, microbatches: range) -> slice:
        """Return which units are of these microbatches."""
        return slice(microbatches.start * self.slices.count, microbatches.stop * self.slices.count)


class Rescaled:
    """Rows in another scale; a row that several stages share stays one."""

    def __init__(self, old: int, new: int) -> None:
        common = gcd(old, new)
        self._up, self._down = new // common, old // common
        self._known: dict[int, tuple[Row, list[int]]] = {}

    def row(self, row: Row) -> list[int]:
        known = self._known.get(id(row))
        if known is None:
            known = self._known[id(row)] = (row, self._rescaled(row))
        return known[1]

    def _rescaled(self, row: Row) -> list[int]:
        if self._down == 1:
            return [*row] if self._up == 1 else [value * self._up for value in row]
        return [value * self._up // self._down for value in row]


class Wholes:
    """Numbers, of which some may stand in tuples, as whole multiples of 1/`scale`, the least for which they are."""

    def __init__(self, numbers: Iterable[Entry]) -> None:
        distinct: set[Exact] = set()
        for number in {id(number): number for number in numbers}.values():
            distinct.update(number if isinstance(number, tuple) else (number,))
        ints, self.scale = in_one_scale(distinct)
        self._ints = dict(zip(distinct, ints, strict=True))

    def ints(self, numbers: Iterable[Exact]) -> list[int]:
        """Return some of the numbers in 1/`scale`."""
        return [self._ints[number] for number in numbers]


class Route(NamedTuple):
    """Which microbatches go one way through the pipeline, and the device of each stage on it (None: not settled)."""

    microbatches: range
    devices: Sequence[int] | None


class UnitTicks(NamedTuple):
    """Durations by field of Ticks and stage, and latencies by boundary on the way there and back, unit by unit."""

    per_unit: int
    lasts: Mapping[str, Sequence[Row]]
    hops: Sequence[Row]
    hops_back: Sequence[Row]

    @property
    def typical(self) -> Ticks:
        """The ticks of the mean unit, for heuristics and texts."""
        every = {id(row): row for row in chain(*self.lasts.values(), self.hops, self.hops_back)}
        mean = {name: _mean(row) for name, row in every.items()}

        def means(rows: Sequence[Row]) -> tuple[int, ...]:
            return tuple(mean[id(row)] for row in rows)

        columns = {key: means(self.lasts[key]) if key in self.lasts else None for key in (*PER_STAGE, "backward")}
        hops, back = means(self.hops), means(self.hops_back)
        return Ticks(self.per_unit, **columns, p2p=hops, p2p_back=back)  # type: ignore[arg-type]


def unit_ticks(
    costs: Costs, units: Units, ways: Sequence[Route], speed: Sequence[Exact] | None, links: Links | None
) -> UnitTicks:
    """Return what the units last and send on these ways, in ticks that are the same for all placements."""
    exactly = _Times(costs, units, links)
    lasts = {key: [exactly.row(key, stage) for stage in range(costs.stages)] for key in exactly.keys}
    there, back = exactly.hops(ways)
    at_speeds = _quotients(exactly, lasts, {*map(to_fraction, speed or ())})
    values = chain(
        *_distinct(row for key in lasts for row in lasts[key]), *_distinct([*there, *back]), exactly.all_hops()
    )
    fine = lcm(
        _least([exactly.scale // gcd(exactly.scale, *values)] + [one.denominator for one in at_speeds.values()]),
        costs.resolution,
    )
    whole = Rescaled(exactly.scale, fine)

    def on(key: str, stage: int) -> Row:
        row = lasts[key][stage]
        if key in TRANSFER_TIMES or speed is None or ways[0].devices is None:
            return whole.row(row)
        joined: list[int] = []
        for way in ways:
            own, part = to_fraction(speed[way.devices[stage]]), row[units.part(way.microbatches)]  # type: ignore[index]
            more = exactly.overhead(key)
            joined += whole.row(part) if own == 1 else [int(at_speeds[value, more, own] * fine) for value in part]
        return joined

    rows = {key: [on(key, stage) for stage in range(costs.stages)] for key in lasts}
    return UnitTicks(fine, rows, [*map(whole.row, there)], [*map(whole.row, back)])


class _Times:
    """The times of units as whole numbers of 1/`scale` units of time, at speed 1."""

    def __init__(self, costs: Costs, units: Units, links: Links | None) -> None:
        self.costs, self.units, self.links = costs, units, links
        slices = units.slices
        columns: list[Sequence[Entry]] = [getattr(costs, key) or () for key in (*PER_STAGE, "p2p")]
        shares = {slices.tokens, *(slices.of(key, stage) for key in SHARED for stage in range(costs.stages))}
        self._costs = Wholes([*chain(*columns), slices.overhead, *chain(*(links or ()))])
        self._factors, self._shares = {key: units.wholes(key) for key in FACTORS}, Wholes([*shares])
        self._of_factors = lcm(*(scale for _, scale in self._factors.values()))
        self.scale = self._costs.scale * self._of_factors * self._shares.scale
        self._known: dict[tuple[object, ...], list[int]] = {}
        self.keys = [key for key in (*PER_STAGE, "backward") if key == "backward" or getattr(costs, key) is not None]

    def row(self, key: str, stage: int) -> list[int]:
        """Return the durations of a kind on a stage; equal ones of several stages are one list."""
        look()
        if key == "backward":
            return self._backward(stage)
        entry: Entry = getattr(self.costs, key)[stage]
        if key == "overlap":
            whole = self.scale // self._costs.scale
            return self._once((key, entry), lambda: [one * whole for one in self._entries(entry)])
        if key in TRANSFER_TIMES:
            return self._product(entry, "activation", None, 0)
        if key not in SHARED:
            return self._product(entry, "work", None, 0)
        return self._product(entry, "work", self.units.slices.of(key, stage), self.overhead(key))

    def _backward(self, stage: int) -> list[int]:
        """Return the durations of the full backward: both halves, with the overhead of a slice once."""
        halves = [self.row(key, stage) for key in SHARED[1:]]
        more = self.overhead("backward")

        def add() -> list[int]:
            return [one + other - more for one, other in zip(*halves, strict=True)]

        return self._once(("backward", *map(id, halves)), add)

    def overhead(self, key: str) -> int:
        """Return what every operation of a kind lasts beside its cost."""
        return int(to_fraction(self.units.slices.overhead_of(key)) * self.scale) if key in (*SHARED, "backward") else 0

    def _entries(self, entry: Entry) -> list[int]:
        """Return what an entry says of each microbatch, in 1/scale of costs."""
        return self._costs.ints(entry) if isinstance(entry, tuple) else self._costs.ints((entry,)) * self._count

    @property
    def _count(self) -> int:
        return self.units.microbatches

    def _product(
        self, entry: Entry, factor: str, shares: Sequence[Fraction] | None, more: int, link: Exact = 0
    ) -> list[int]:
        """Return (cost + link) x factor x share + `more` of each unit; without `shares` of whole microbatches."""

        def multiply() -> list[int]:
            late = self._costs.ints((link,))[0] if link else 0
            count = 1 if self.units.sizes is None and not isinstance(entry, tuple) else self._count  # one for all
            wholes = map(mul, [one + late for one in self._entries(entry)[:count]], self._by_factor(factor))
            parts = [self._shares.scale] * self.units.slices.count if shares is None else self._shares.ints(shares)
            return [whole * part + more for whole in wholes for part in parts] * (self._count // count)

        return self._once((entry, factor, id(shares), more, link), multiply)

    def _by_factor(self, factor: str) -> list[int]:
        ints, scale = self._factors[factor]
        more = self._of_factors // scale
        return ints if more == 1 else self._once((factor,), lambda: [one * more for one in ints])

    def _once(self, name: tuple[object, ...], make: Callable[[], list[int]]) -> list[int]:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def hops(self, ways: Sequence[Route]) -> tuple[list[list[int]], list[list[int]]]:
        """Return the latency of each boundary for each unit, on the way of forwards and on that of gradients."""
        there, back = list[list[int]](), list[list[int]]()
        for boundary, entry in enumerate(self.costs.p2p):
            rows = [[self._latencies(entry, ends) for ends in self._ends(way, boundary)] for way in ways]
            parts = [self.units.part(way.microbatches) for way in ways]
            for side, joined in enumerate((there, back)):
                joined.append([*chain.from_iterable(row[side][part] for row, part in zip(rows, parts, strict=True))])
        return there, back

    def _ends(self, way: Route, boundary: int) -> Sequence[tuple[int, int] | None]:
        if way.devices is None:
            return (None, None)
        here, there = way.devices[boundary : boundary + 2]
        return ((here, there), (there, here))

    def _latencies(self, entry: Entry, ends: tuple[int, int] | None) -> list[int]:
        tokens = self.units.slices.tokens
        if ends is not None and ends[0] == ends[1]:
            return self._once((), lambda: [0] * (self._count * len(tokens)))
        link = 0 if self.links is None or ends is None else self.links[ends[0]][ends[1]]
        return self._product(entry, "message", tokens, 0, link)

    def all_hops(self) -> Iterable[int]:
        """Yield the latencies of all links, which other placements may use."""
        for latency in {*chain(*(self.links or ()))}:
            yield from self._product(latency, "message", self.units.slices.tokens, 0)
        for entry in {*self.costs.p2p}:
            yield from self._product(entry, "message", self.units.slices.tokens, 0)


def _quotients(
    exactly: _Times, lasts: Mapping[str, Sequence[Row]], speeds: set[Fraction]
) -> dict[tuple[int, int, Fraction], Fraction]:
    """Return what each duration that a speed divides, and its overhead, last at each speed other than 1."""
    values = {
        (value, exactly.overhead(key))
        for key in SCALED
        if key in lasts and speeds - {ONE}
        for row in _distinct(lasts[key])
        for value in row
    }
    return {
        (value, more, one): at_speed(Fraction(value - more, exactly.scale), one) + Fraction(more, exactly.scale)
        for one in speeds - {ONE}
        for value, more in values
    }


def _distinct(rows: Iterable[Row]) -> Iterable[set[int]]:
    """Yield the values of each row once; a list that stands there several times is looked at once."""
    return (set(row) for row in {id(row): row for row in rows}.values())


def _least(scales: Sequence[int]) -> int:
    """Return the least multiple of all scales: a power of ten where one is."""
    least = rest = lcm(*scales)
    powers = []
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        powers.append(power)
    return 10 ** max(powers) if rest == 1 else least


def _mean(row: Row) -> int:
    return (2 * sum(row) + len(row)) // (2 * len(row))


class UnitGrains(NamedTuple):
    """What units hold, by stage: columns of Grains, and `cached`, the part that keys and values are."""

    per_unit: int
    activation: Sequence[Row]
    retained: Sequence[Row]
    checkpointed: Sequence[Row]
    cached: Sequence[Row]


def unit_grains(memory: Memory, units: Units) -> UnitGrains:
    """Return what the units hold, in the least grains that make every amount whole."""
    exactly = _Sizes(memory, units)
    columns = [
        exactly.rows(shares) for shares in (None, memory.retain, memory.checkpoint, [memory.kv] * len(memory.retain))
    ]
    whole = Rescaled(exactly.scale, exactly.least)
    return UnitGrains(exactly.least, *([*map(whole.row, rows)] for rows in columns))


def largest_grains(memory: Memory, known: UnitGrains, slices: int) -> Grains:
    """Return the memory of the largest microbatch, all of its slices together, in the grains of its units.

    The largest of a stage is that with the largest activation.
    """
    columns = [known.activation, known.retained, known.checkpointed]
    most = {name: max(_by_microbatch(row, slices)) for name, row in {id(row): row for row in chain(*columns)}.items()}
    sizes, held, kept = (tuple(most[id(row)] for row in rows) for rows in columns)
    static = tuple(int(to_fraction(size) * known.per_unit) for size in memory.static)
    budget = (
        None if memory.budget is None else tuple(int(to_fraction(limit) * known.per_unit) for limit in memory.budget)
    )
    return Grains(known.per_unit, sizes, held, kept, static, budget)


def _by_microbatch(row: Row, slices: int) -> Iterable[int]:
    return row if slices == 1 else (sum(row[first : first + slices]) for first in range(0, len(row), slices))


class _Sizes:
    """The memory of units as whole numbers of 1/`scale` units."""

    def __init__(self, memory: Memory, units: Units) -> None:
        self.memory, self.units = memory, units
        self._entries = Wholes(memory.activation)
        self._shares, self._parts = (
            Wholes(units.slices.tokens),
            Wholes([1, *memory.retain, *memory.checkpoint, memory.kv]),
        )
        self._by_factor, of_factors = units.wholes("activation")
        self._by_share = self._shares.ints(units.slices.tokens)
        self.scale = self._entries.scale * of_factors * self._shares.scale * self._parts.scale
        self._values = {self.scale}
        self._known: dict[tuple[Entry, Exact], list[int]] = {}

    def rows(self, parts: Sequence[Exact] | None) -> list[list[int]]:
        """Return what each unit holds of a stage: its activation, or a part of it."""
        own: Sequence[Exact] = parts or [1] * len(self.memory.activation)
        return [self._row(entry, part) for entry, part in zip(self.memory.activation, own, strict=True)]

    def _row(self, entry: Entry, part: Exact) -> list[int]:
        if (entry, part) not in self._known:
            count = self.units.microbatches
            each = entry if isinstance(entry, tuple) else (entry,) * (count if self.units.sizes else 1)  # one for all
            wholes = map(mul, self._entries.ints(each), self._by_factor)
            shares = [share * self._parts.ints((part,))[0] for share in self._by_share]
            row = [whole * share for whole in wholes for share in shares]
            self._values.update(row)
            self._known[entry, part] = row * (count // len(each))
        return self._known[entry, part]

    @property
    def least(self) -> int:
        """The least grains in a unit of memory that make all amounts whole, those of weights and budgets too."""
        fixed = _denominator(map(to_fraction, (*self.memory.static, *(self.memory.budget or ()))))
        return lcm(self.scale // gcd(*self._values), fixed, self.memory.resolution)


def _denominator(numbers: Iterable[Fraction]) -> int:
    return lcm(1, *{number.denominator for number in numbers})

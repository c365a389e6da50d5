"""A problem on its integer grid: what passes last, send and hold, by stage and unit. The one place that says so.

Of a stage and a microbatch, the cost in its table (or that of all microbatches) is multiplied by the microbatch's
factor and by the slice's share; the speed of the device divides that, rounded half up to 9 digits, and the overhead of
a slice is added, the same on every device. All of it is exact: ticks are the least integers that make every amount
whole. Where all units are alike a row holds one number for all of them, or two: by the direction that they go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import gcd, lcm
from operator import mul
from typing import NamedTuple

from pipesched.core.clock import look
from pipesched.pipeline.costs import PER_STAGE, SCALED, TRANSFER_TIMES, Costs, Entry, Links, at_speed
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.memory import Memory
from pipesched.pipeline.quantities import Exact, grains_per_unit, in_one_scale, to_fraction, whole
from pipesched.pipeline.units import FACTORS, SHARED, Sizes, Slices

Row = Sequence[int]  # one a unit
KEYS = tuple(key for key in PER_STAGE if key != "whole")  # what units last beside a full backward
ONE = Fraction(1)


class Ticks(NamedTuple):
    """What operations last and edges cost, as integers: `per_unit` ticks are one of the user's time units.

    They are of the mean unit. `p2p` is the latency of each boundary on the way of forwards, `p2p_back` on that of
    gradients.
    """

    per_unit: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    backward_input: tuple[int, ...]
    backward_weight: tuple[int, ...]
    recompute: tuple[int, ...]
    overlap: tuple[int, ...] | None
    p2p: tuple[int, ...]
    p2p_back: tuple[int, ...]
    offload: tuple[int, ...] | None
    reload: tuple[int, ...] | None

    def of(self, letter: str) -> tuple[int, ...]:
        """Return the duration of a kind of operation, stage by stage; empty for transfers that have no cost."""
        lengths: tuple[int, ...] | None = getattr(self, KINDS[letter].cost)
        return lengths or ()


class Grains(NamedTuple):
    """The memory of a problem as integers: `per_unit` grains are one of the user's memory units.

    It is that of the largest microbatch of each stage, all of its slices together.
    """

    per_unit: int
    activation: tuple[int, ...]
    retained: tuple[int, ...]  # what the end of I leaves for W: a part of the activation, or more than all of it
    checkpointed: tuple[int, ...]  # what the end of F leaves of an activation that is recomputed
    static: tuple[int, ...]
    budget: tuple[int, ...] | None

    @property
    def caught(self) -> tuple[int, ...]:
        """What the start of I takes beside an activation, of which more than all is retained: gradients for W."""
        return tuple(max(left - size, 0) for size, left in zip(self.activation, self.retained, strict=True))


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


def _rescaler(old: int, new: int) -> Callable[[Row], list[int]]:
    """Return a function that gives rows in another scale; a row that several stages share stays one."""
    common, known = gcd(old, new), dict[int, tuple[Row, list[int]]]()
    up, down = new // common, old // common

    def rescaled(row: Row) -> list[int]:
        if id(row) not in known:
            known[id(row)] = row, [value * up // down for value in row] if up != 1 or down != 1 else [*row]
        return known[id(row)][1]

    return rescaled


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
    """A run of microbatches, the device of each stage on their way (None: not settled), and which way that is."""

    microbatches: range
    devices: tuple[int, ...] | None
    is_second: bool = False


class UnitTicks(NamedTuple):
    """Durations by field of Ticks and stage, and latencies by boundary on the way there and back, unit by unit."""

    per_unit: int
    lasts: Mapping[str, Sequence[Row]]
    hops: Sequence[Row]
    hops_back: Sequence[Row]
    around: Row = (0,)  # from the last stage to the first one, of the next round

    def of(self, *, alike: bool) -> Ticks:
        """Return the ticks of the mean unit, for heuristics and texts; of units `alike` those of the first way."""
        every = {id(row): row for row in chain(*self.lasts.values(), self.hops, self.hops_back)}
        mean = {name: row[0] if alike else _mean(row) for name, row in every.items()}
        known = [key for key in (*PER_STAGE, "backward") if key in Ticks._fields]
        columns = {key: tuple(mean[id(row)] for row in self.lasts[key]) if key in self.lasts else None for key in known}
        hops, back = (tuple(mean[id(row)] for row in rows) for rows in (self.hops, self.hops_back))
        return Ticks(self.per_unit, **columns, p2p=hops, p2p_back=back)  # type: ignore[arg-type]


def unit_ticks(
    costs: Costs, units: Units, ways: Sequence[Route], speed: Sequence[Exact] | None, links: Links | None
) -> UnitTicks:
    """Return what the units last and send on these ways, in ticks that are the same for all placements."""
    exactly = _Times(costs, units, links)
    lasts = {key: [exactly.row(key, stage) for stage in range(costs.stages)] for key in exactly.keys}
    there, back = exactly.hops(ways)
    around = exactly.around(ways)
    at_speeds = _quotients(exactly, lasts, {*map(to_fraction, speed or ())})
    latencies = {*chain(*(links or ())), *costs.p2p}  # which other placements may use
    others = (exactly.product(one, "message", units.slices.tokens, 0) for one in latencies)
    rows_that_count = (*chain(*lasts.values()), *there, *back, *others)
    denominators = [exactly.scale // gcd(exactly.scale, *chain(*_distinct(rows_that_count)))]
    fine = lcm(_least(denominators + [one.denominator for one in at_speeds.values()]), costs.resolution)
    rescaled = _rescaler(exactly.scale, fine)

    def on(key: str, stage: int) -> Row:
        row = lasts[key][stage]
        if key in TRANSFER_TIMES or speed is None or ways[0].devices is None:
            return rescaled(row)
        joined, more = list[int](), exactly.overhead(key)
        for way in ways:
            own, part = to_fraction(speed[way.devices[stage]]), row[units.part(way.microbatches)]  # type: ignore[index]
            joined += rescaled(part) if own == 1 else [int(at_speeds[value, more, own] * fine) for value in part]
        return joined

    rows = {key: [on(key, stage) for stage in range(costs.stages)] for key in lasts}
    return UnitTicks(fine, rows, [*map(rescaled, there)], [*map(rescaled, back)], rescaled(around))


class _Times:
    """The times of units as whole numbers of 1/`scale` units of time, at speed 1."""

    def __init__(self, costs: Costs, units: Units, links: Links | None) -> None:
        self.costs, self.units, self.links, self._count = costs, units, links, units.microbatches
        slices = units.slices
        columns: list[Sequence[Entry]] = [getattr(costs, key) or () for key in (*PER_STAGE, "p2p")]
        self._mean_shares = [slices.whole(stage) for stage in range(costs.stages)] if costs.whole else []
        shares = [slices.tokens, *chain.from_iterable(getattr(slices, key) for key in SHARED), *self._mean_shares]
        self._costs = Wholes([*chain(*columns), slices.overhead, *(links or ())])
        wholes, self._shares = {key: units.wholes(key) for key in FACTORS}, Wholes(shares)
        of_factors = lcm(*(scale for _, scale in wholes.values()))
        self._factors = {key: [one * (of_factors // scale) for one in ints] for key, (ints, scale) in wholes.items()}
        self.scale = self._costs.scale * of_factors * self._shares.scale
        self._overheads = [int(to_fraction(slices.overhead_of(key)) * self.scale) for key in ("forward", "backward")]
        self._known: dict[tuple[object, ...], list[int]] = {}
        self.keys = [key for key in (*KEYS, "backward") if key == "backward" or getattr(costs, key) is not None]

    def row(self, key: str, stage: int) -> list[int]:
        """Return the durations of a kind on a stage; equal ones of several stages are one list."""
        look()
        if key == "backward":
            return self._backward(stage)
        entry: Entry = getattr(self.costs, key)[stage]
        if key == "overlap":
            whole = self.scale // self._costs.scale
            return self._once((key, entry), lambda: [one * whole for one in self._entries(entry)])
        shares = self.units.slices.of(key, stage) if key in SHARED else None
        return self.product(entry, "activation" if key in TRANSFER_TIMES else "work", shares, self.overhead(key))

    def _backward(self, stage: int) -> list[int]:
        """Return the durations of the full backward: its own, or both halves, with the overhead of a slice once."""
        if self.costs.whole:
            return self.product(self.costs.whole[stage], "work", self._mean_shares[stage], self.overhead("backward"))
        halves = [self.row(key, stage) for key in SHARED[1:]]
        more = self.overhead("backward")

        def add() -> list[int]:
            return [one + other - more for one, other in zip(*halves, strict=True)]

        return self._once(("backward", *map(id, halves)), add)

    def overhead(self, key: str) -> int:
        """Return what every operation of a kind lasts beside its cost."""
        return self._overheads[key != "forward"] if key in SHARED or key == "backward" else 0

    def _entries(self, entry: Entry) -> list[int]:
        """Return what an entry says of each microbatch, in 1/scale of costs."""
        return self._costs.ints(entry) if isinstance(entry, tuple) else self._costs.ints((entry,)) * self._count

    def product(
        self, entry: Entry, factor: str, shares: Sequence[Fraction] | None, more: int, link: Exact = 0
    ) -> list[int]:
        """Return (cost + link) x factor x share + `more` of each unit; without `shares` of whole microbatches."""

        def multiply() -> list[int]:
            late = self._costs.ints((link,))[0] if link else 0
            count = 1 if self.units.sizes is None and not isinstance(entry, tuple) else self._count  # one for all
            wholes = map(mul, [one + late for one in self._entries(entry)[:count]], self._factors[factor])
            parts = [self._shares.scale] * self.units.slices.count if shares is None else self._shares.ints(shares)
            return [whole * part + more for whole in wholes for part in parts] * (self._count // count)

        return self._once((entry, factor, id(shares), more, link), multiply)

    def _once(self, name: tuple[object, ...], make: Callable[[], list[int]]) -> list[int]:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def hops(self, ways: Sequence[Route]) -> tuple[list[list[int]], list[list[int]]]:
        """Return the latency of each boundary for each unit, on the way of forwards and on that of gradients."""
        there, back = list[list[int]](), list[list[int]]()
        for boundary, entry in enumerate(self.costs.p2p):
            for joined, turn in ((there, 1), (back, -1)):
                ends = [None if way.devices is None else way.devices[boundary : boundary + 2][::turn] for way in ways]
                rows = [self._latencies(entry, both) for both in ends]
                parts = (row[self.units.part(way.microbatches)] for row, way in zip(rows, ways, strict=True))
                joined.append([*chain.from_iterable(parts)])
        return there, back

    def around(self, ways: Sequence[Route]) -> list[int]:
        """Return the latency from the last stage to the first one: a message of the first boundary on that link."""
        ends = ways[0].devices and (ways[0].devices[-1], ways[0].devices[0])
        return self._latencies(self.costs.p2p[0] if self.costs.p2p else 0, ends)

    def _latencies(self, entry: Entry, ends: tuple[int, ...] | None) -> list[int]:
        tokens = self.units.slices.tokens
        if ends is not None and ends[0] == ends[1]:
            return self._once((), lambda: [0] * (self._count * len(tokens)))
        link = 0 if self.links is None or ends is None else self.links[ends[0]][ends[1]]
        return self.product(entry, "message", tokens, 0, link)


def _quotients(
    exactly: _Times, lasts: Mapping[str, Sequence[Row]], speeds: set[Fraction]
) -> dict[tuple[int, int, Fraction], Fraction]:
    """Return what each duration that a speed divides, and its overhead, last at each speed other than 1."""
    others, keys = speeds - {ONE}, lasts.keys() & {*SCALED}
    rows = [(row, exactly.overhead(key)) for key in keys for row in _distinct(lasts[key])] if others else []
    values = {(value, more) for row, more in rows for value in row}
    return {
        (value, more, one): at_speed(Fraction(value - more, exactly.scale), one) + Fraction(more, exactly.scale)
        for one in others
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


def unit_grains(memory: Memory, units: Units, *, has_cached: bool) -> UnitGrains:
    """Return what the units hold, in the least grains that make every amount whole."""
    exactly = _Sizes(memory, units)
    stages = len(memory.retain)
    shares = ([1] * stages, memory.retain, memory.checkpoint, [memory.kv if has_cached else 0] * stages)
    columns = [[*map(exactly.row, memory.activation, parts)] for parts in shares]
    rescaled = _rescaler(exactly.scale, exactly.least)
    return UnitGrains(exactly.least, *([*map(rescaled, rows)] for rows in columns))


def received(memory: Memory, units: Units) -> list[Fraction]:
    """Return the receive buffer of each unit's message, in the user's unit of memory."""
    each = [to_fraction(memory.receive) * to_fraction(share) for share in units.slices.tokens]
    return [size * factor for factor in units.factors("message") for size in each] if memory.receive else []


def largest_grains(memory: Memory, known: UnitGrains, slices: int) -> Grains:
    """Return the memory of the largest microbatch of each stage: that with the largest activation."""
    columns = [known.activation, known.retained, known.checkpointed]
    rows = {id(row): row for row in chain(*columns)}
    most = {name: max(sum(row[first : first + slices]) for first in range(0, len(row), slices))
            for name, row in rows.items()}  # fmt: skip
    sizes, held, kept = (tuple(most[id(row)] for row in rows) for rows in columns)
    budget = None if memory.budget is None else whole(memory.budget, known.per_unit)
    return Grains(known.per_unit, sizes, held, kept, whole(memory.static, known.per_unit), budget)


class _Sizes:
    """The memory of units as whole numbers of 1/`scale` units."""

    def __init__(self, memory: Memory, units: Units) -> None:
        self.memory, self.units = memory, units
        self._entries, self._shares = Wholes(memory.activation), Wholes(units.slices.tokens)
        self._parts = Wholes([0, 1, *memory.retain, *memory.checkpoint, memory.kv])
        self._by_factor, of_factors = units.wholes("activation")
        self._by_share = self._shares.ints(units.slices.tokens)
        self.scale = self._entries.scale * of_factors * self._shares.scale * self._parts.scale
        self._values = {self.scale}
        self._known: dict[tuple[Entry, Exact], list[int]] = {}

    def row(self, entry: Entry, part: Exact) -> list[int]:
        """Return a part of what each unit holds of a stage."""
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
        fixed = grains_per_unit(map(to_fraction, (*self.memory.static, *(self.memory.budget or ()))))
        fixed = lcm(fixed, grains_per_unit(received(self.memory, self.units)))
        return lcm(self.scale // gcd(*self._values), fixed, self.memory.resolution)

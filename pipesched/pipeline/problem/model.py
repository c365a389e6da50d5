"""The model of a step: a problem on its integer grid, as tables by stage and unit. What passes last, send and hold.

`Problem.model` is the `StepModel`, made of `ticks_of` and `grains_of`.

A unit is one slice of one microbatch. A table has a row a stage (or a boundary between stages) and a column a unit.
Where all units are alike its columns are one, seen several times (stride 0). Rules, lowering, bounds and the check read
these tables, so that none of them asks whether microbatches differ, are sliced, or go two ways.

Of a stage and a microbatch, the cost in its table (or that of all microbatches) is multiplied by the microbatch's
factor and by the slice's share. The speed of the device divides that, rounded half up to 9 digits, and the overhead of
a slice is added, the same on every device. All of it is exact: ticks are the least integers that make every amount
whole. Where all units are alike a row holds one number for all of them, or two: by the direction that they go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from math import gcd, lcm
from operator import mul
from typing import NamedTuple, cast

from pipesched.core.arrays import Ints, column, in_range, np, once, total
from pipesched.core.clock import check_deadline
from pipesched.pipeline.problem.costs import PER_STAGE, SCALED, TRANSFER_TIMES, Costs, Entry, Links, Memory, at_speed
from pipesched.pipeline.problem.kinds import GRADIENT_LETTERS, KINDS
from pipesched.pipeline.problem.quantities import Exact, in_one_scale, to_fraction
from pipesched.pipeline.problem.units import FACTORS, FORWARD_ONLY, SHARED, WHOLE, Sizes, Slices

Row = Sequence[int]  # one a unit
KEYS = tuple(key for key in PER_STAGE if key != "whole")  # what units last beside a full backward
ONE = Fraction(1)


@dataclass(eq=False)
class Tables:
    """Tables of integers by name, a row a stage (or a boundary) and a column a unit: `per_unit` are one of the user's.

    `rows` are of one number for all units, of one a direction (`along` says which is that of each unit), or of one for
    each of so many `units`.
    """

    per_unit: int
    rows: Mapping[str, Sequence[Row]]
    units: int
    along: Ints | None

    def each(self, name: str) -> Ints:
        """Return a table. Where all rows, or all units, are alike it sees one several times (stride 0)."""
        rows = self.rows[name]
        columns = {name: column(row) for name, row in {id(row): row for row in rows}.items()}
        if not columns:
            return np.zeros((0, self.units), dtype=np.int64)
        values = np.stack([columns[id(row)] for row in (rows[:1] if len(columns) == 1 else rows)])
        times = len(rows) // len(values) * (self.units if values.shape[1] < self.units else 1)
        values = in_range(values, total(values.ravel()) * times)
        return np.broadcast_to(values if self.along is None else values[:, self.along], (len(rows), self.units))

    def by_row(self, choose: Callable[[Row], int]) -> dict[str, tuple[int, ...]]:
        """Return what `choose` makes of each row; it looks once at one that stands there several times."""
        chosen = {name: choose(row) for name, row in {id(row): row for row in chain(*self.rows.values())}.items()}
        return {key: tuple([chosen[id(row)] for row in rows]) for key, rows in self.rows.items()}


class Ticks(Tables):
    """What operations last and edges cost, by the names of costs that the problem has, and `backward`.

    `p2p` is the latency of each boundary on the way of forwards, `p2p_back` on that of gradients. `around` has one row,
    from the last stage to the first one of the next round.
    """

    @cached_property
    def mean(self) -> Mapping[str, tuple[int, ...]]:
        """What the mean unit has, row by row, for heuristics and texts; of units alike one of the first way."""
        if self.along is not None:
            return self.by_row(lambda row: row[0])
        return self.by_row(lambda row: (2 * sum(row) + len(row)) // (2 * len(row)))

    def of(self, letter: str) -> tuple[int, ...]:
        """Return the mean duration of a kind of operation, stage by stage; empty for transfers that have no cost."""
        return self.mean.get(KINDS[letter].cost, ())


@dataclass(eq=False)
class Grains(Tables):
    """The memory of a problem: what units hold, by stage, and what stays: `static` by stage, and each device's budget.

    The tables are `activation`, `retained` (what the end of I leaves for W: a part of the activation, or more than all
    of it), `checkpointed` (what the end of F leaves of an activation that is recomputed), and `cached`, the part that
    keys and values are.
    """

    slices: int
    static: tuple[int, ...]
    budget: tuple[int, ...] | None

    @cached_property
    def largest(self) -> Mapping[str, tuple[int, ...]]:
        """What the largest microbatch of each stage holds, all of its slices together.

        `caught` is what the start of I takes beside an activation, of which more than all is retained: gradients for W.
        """
        count = self.slices
        found = self.by_row(lambda row: max(sum(row[first : first + count]) for first in range(0, len(row), count)))
        pairs = zip(found["activation"], found["retained"], strict=True)
        return {**found, "caught": tuple(max(left - size, 0) for size, left in pairs)}


class Units(NamedTuple):
    """The M microbatches of a problem, their factors (None: all 1), and their slices."""

    microbatches: int
    sizes: Sizes | None
    slices: Slices

    def factors(self, key: str) -> Sequence[Fraction]:
        """Return a factor of each microbatch: of its work, activation or message."""
        return [ONE] * self.microbatches if self.sizes is None else [*map(to_fraction, getattr(self.sizes, key))]

    def part(self, microbatches: range) -> slice:
        return slice(microbatches.start * self.slices.count, microbatches.stop * self.slices.count)


def _rescaled(tables: Mapping[str, Sequence[Row]], old: int, new: int) -> dict[str, Sequence[Row]]:
    """Return tables in another scale; a row that several stages share stays one."""
    up, down = new // gcd(old, new), old // gcd(old, new)
    rows = {id(row): row for row in chain(*tables.values())}
    known = {name: [one * up // down for one in row] if up != down else [*row] for name, row in rows.items()}
    return {key: [known[id(row)] for row in column] for key, column in tables.items()}


def _wholes(numbers: Iterable[Entry]) -> tuple[dict[Exact, int], int]:
    """Return numbers, of which some may stand in tuples, as multiples of 1/scale, and the least scale where whole."""
    distinct: set[Exact] = set()
    for number in {id(number): number for number in numbers}.values():
        distinct.update(number if isinstance(number, tuple) else (number,))
    ints, scale = in_one_scale(distinct)
    return dict(zip(distinct, ints, strict=True)), scale


class Route(NamedTuple):
    """A run of microbatches, the device of each stage on their way (None: not settled), and which way that is."""

    microbatches: range
    devices: tuple[int, ...] | None
    is_second: bool = False


ALIKE = Units(1, None, WHOLE)  # one unit that stands for all


def ticks_of(
    costs: Costs,
    units: Units,
    ways: Sequence[Route],
    speed: Sequence[Exact] | None,
    links: Links | None,
    resolution: int,
) -> tuple[int, Mapping[str, Sequence[Row]]]:
    """Return `per_unit` and `rows` of Ticks for units on these ways; a tick is the same for all placements."""
    others = {*map(to_fraction, speed or ())} - {ONE}  # speeds
    at_speeds: dict[tuple[int, int, Fraction], Fraction] = {}  # by a duration, the overhead in it, and a speed
    if units == ALIKE and speed is None and links is None:  # each row is one number
        known, scale = _wholes([0, *chain(*(getattr(costs, key) or () for key in (*PER_STAGE, "p2p")))])
        columns = ((key, getattr(costs, key) or ()) for key in (*KEYS, "whole"))
        tables: dict[str, Sequence[Row]] = {key: [[known[one]] for one in column] for key, column in columns if column}
        halves = zip(*(tables[key] for key in SHARED[1:]), strict=True)
        tables["backward"] = tables.pop("whole", ()) or [[mine + more] for [mine], [more] in halves]
        tables["p2p"] = tables["p2p_back"] = [[known[one]] for one in cast("tuple[Exact, ...]", costs.p2p)]
        tables["around"], least = tables["p2p"][:1] or [[0]], scale
    else:
        exactly = _Times(costs, units, links)
        tables, scale = exactly.tables(ways), exactly.scale
        # what each duration that a speed divides, and its overhead, last at each speed other than 1
        for key in tables.keys() & {*SCALED} if others else ():
            more = exactly.overheads[key]
            for value, own in product({*chain(*{id(row): row for row in tables[key]}.values())}, others):
                at_speeds[value, more, own] = at_speed(Fraction(value - more, scale), own) + Fraction(more, scale)
        latencies = {*chain(*(links or ())), *costs.p2p}  # which other placements may use
        elsewhere = [exactly.product(one, "message", units.slices.tokens, 0) for one in latencies]
        that_count = chain(elsewhere, *(rows for key, rows in tables.items() if key != "around"))
        once = {id(row): row for row in that_count}.values()
        least = lcm(scale // gcd(scale, *chain(*map(set, once))), *(one.denominator for one in at_speeds.values()))
    tens = (10**power for power in range(least.bit_length()))  # of decimals a power of ten
    fine = lcm(next((one for one in tens if one % least == 0), least), resolution)
    rows = _rescaled(tables, scale, fine)
    for key in tables.keys() & {*SCALED} if speed and others and ways[0].devices is not None else ():
        more, there = exactly.overheads[key], rows[key]
        rows[key] = made = [list[int]() for _ in there]
        for (stage, joined), way in product(enumerate(made), ways):
            own, part = to_fraction(speed[way.devices[stage]]), units.part(way.microbatches)  # type: ignore[index]
            lasts = (int(at_speeds[one, more, own] * fine) for one in tables[key][stage][part]) if own != 1 else ()
            joined.extend(lasts if own != 1 else there[stage][part])
    return fine, rows


class _Times:
    """The times of units as whole numbers of 1/`scale` units of time, at speed 1.

    `overheads` is what every operation of a kind lasts beside its cost.
    """

    def __init__(self, costs: Costs, units: Units, links: Links | None) -> None:
        self.costs, self.units, self.links, slices = costs, units, links, units.slices
        columns: list[Sequence[Entry]] = [getattr(costs, key) or () for key in (*PER_STAGE, "p2p")]
        self._mean_shares = [slices.whole(stage) for stage in range(len(costs.forward))] if costs.whole else []
        shares = [slices.tokens, *chain.from_iterable(getattr(slices, key) for key in SHARED), *self._mean_shares]
        self._costs, of_costs = _wholes([0, *chain(*columns), slices.overhead, *(links or ())])
        self._shares, self._whole = _wholes(shares)
        alike = {key: ([1] * units.microbatches, 1) for key in FACTORS}
        wholes = alike if units.sizes is None else units.sizes.wholes
        of_factors = lcm(*(scale for _, scale in wholes.values()))
        self._factors = {key: [one * (of_factors // scale) for one in ints] for key, (ints, scale) in wholes.items()}
        self._factors[""] = [of_factors] * units.microbatches
        self.scale = of_costs * of_factors * self._whole
        self._known: dict[tuple[object, ...], list[int]] = {}
        self.overheads = dict.fromkeys((key for key in KEYS if getattr(costs, key) is not None), 0)
        for key in (*SHARED, "backward"):
            self.overheads[key] = int(to_fraction(slices.overhead_of(key)) * self.scale)

    def tables(self, ways: Sequence[Route]) -> dict[str, Sequence[Row]]:
        """Return the rows of Ticks: equal ones are one list.

        A full backward has its own durations, or those of both halves, with the overhead of a slice once.
        """
        costs, slices, found = self.costs, self.units.slices, dict[str, Sequence[Row]]()
        for key, more in self.overheads.items():
            entries = costs.whole if key == "backward" else getattr(costs, key)
            parts = self._mean_shares if key == "backward" else getattr(slices, key) if key in SHARED else [None]
            factor = "" if key == "overlap" else "activation" if key in TRANSFER_TIMES else "work"
            each = enumerate(entries or ())
            found[key] = [self.product(entry, factor, parts[stage % len(parts)], more) for stage, entry in each]
        if not costs.whole:
            halves, more = [*zip(*(found[key] for key in SHARED[1:]), strict=True)], self.overheads["backward"]
            once = {tuple(map(id, pair)): pair for pair in halves}
            sums = {name: [one + other - more for one, other in zip(*pair, strict=True)] for name, pair in once.items()}
            found["backward"] = [sums[tuple(map(id, pair))] for pair in halves]
        for name, turn in (("p2p", 1), ("p2p_back", -1)):
            found[name] = joined = list[Row]()
            for boundary, entry in enumerate(costs.p2p):
                ends = [None if way.devices is None else way.devices[boundary : boundary + 2][::turn] for way in ways]
                rows = [self.hop(entry, both) for both in ends]
                cut = (row[self.units.part(way.microbatches)] for row, way in zip(rows, ways, strict=True))
                joined.append(rows[0] if len(rows) == 1 else [*chain.from_iterable(cut)])  # one that many may share
        around = ways[0].devices and (ways[0].devices[-1], ways[0].devices[0])
        return {**found, "around": [self.hop(costs.p2p[0] if costs.p2p else 0, around)]}

    def product(
        self, entry: Entry, factor: str, shares: Sequence[Fraction] | None, more: int, link: Exact = 0
    ) -> list[int]:
        """Return (cost + link) x factor x share + `more` of each unit; without `shares` of whole microbatches."""
        name = (entry, factor, id(shares), more, link)
        if name not in self._known:
            check_deadline()
            late, count = self._costs[link] if link else 0, self.units.microbatches
            alike = count if self.units.sizes else 1  # one for all
            entries = entry if isinstance(entry, tuple) else (entry,) * alike
            wholes = map(mul, [self._costs[one] + late for one in entries], self._factors[factor])
            parts = [self._whole] * self.units.slices.count if shares is None else [self._shares[one] for one in shares]
            row = [whole * part + more for whole in wholes for part in parts]
            self._known[name] = row * (count // len(entries))
        return self._known[name]

    def hop(self, entry: Entry, ends: tuple[int, ...] | None) -> list[int]:
        """Return the latency of a boundary for each unit, from one device to another one where these are known."""
        if ends is not None and ends[0] == ends[1]:
            entry, ends = 0, None
        link = 0 if self.links is None or ends is None else self.links[ends[0]][ends[1]]
        return self.product(entry, "message", self.units.slices.tokens, 0, link)


def grains_of(memory: Memory, units: Units, *, has_cached: bool) -> tuple[int, Mapping[str, Sequence[Row]]]:
    """Return `per_unit` and `rows` of Grains for units: the least grains that make every amount whole.

    Those of weights, budgets and receive buffers count too.
    """
    stages, count, slices = len(memory.retain), units.microbatches, units.slices
    entries, of_entries = _wholes(memory.activation)
    shares, of_shares = _wholes(slices.tokens)
    parts, of_parts = _wholes([0, 1, *memory.retain, *memory.checkpoint, memory.kv])
    by_factor, of_factors = ([1] * count, 1) if units.sizes is None else units.sizes.wholes["activation"]
    scale = of_entries * of_factors * of_shares * of_parts
    amounts = {scale}
    known, columns = dict[tuple[Entry, Exact], list[int]](), dict[str, list[list[int]]]()
    by_name = {
        "activation": [1] * stages,
        "retained": memory.retain,
        "checkpointed": memory.checkpoint,
        "cached": [memory.kv if has_cached else 0] * stages,
    }
    for name, of_stages in by_name.items():
        for key in zip(memory.activation, of_stages, strict=True):
            if key not in known:
                entry, part = key
                each = entry if isinstance(entry, tuple) else (entry,) * (count if units.sizes else 1)  # one for all
                sizes = map(mul, [entries[one] * parts[part] for one in each], by_factor)
                row = [size * shares[share] for size in sizes for share in slices.tokens]
                amounts.update(row)
                known[key] = row * (count // len(each))
            columns.setdefault(name, []).append(known[key])
    fixed = [*map(to_fraction, (*memory.static, *(memory.budget or ())))]
    fixed += received(memory, units) if memory.receive else ()
    least = lcm(scale // gcd(*amounts), *(one.denominator for one in fixed), memory.resolution)
    return least, _rescaled(columns, scale, least)


def received(memory: Memory, units: Units) -> list[Fraction]:
    """Return the receive buffer of each unit's message, in the user's unit of memory."""
    if not memory.receive:
        return []
    each = [to_fraction(memory.receive) * to_fraction(share) for share in units.slices.tokens]
    return [size * factor for factor in units.factors("message") for size in each]


COSTS = {kind.cost for kind in KINDS.values()}


@dataclass(eq=False)
class StepModel:
    """The passes of a problem whose placement is settled, in ticks and grains; tables are by stage and unit."""

    ways: Sequence[Route]
    lasts: Ticks
    held: Grains
    mode: str
    is_plain: bool  # whether microbatches are alike and go forwards and backwards
    rounds: int = 1

    stages: int = field(init=False)
    slices: int = field(init=False)  # of each microbatch
    microbatches: int = field(init=False)
    units: int = field(init=False)
    where: Ints = field(init=False)  # the device of a stage: two copies of the weights are other columns
    ticks: Mapping[str, Ints] = field(init=False)  # by `Kind.cost` what an operation lasts, 0 where there is none
    overlap: Ints | None = field(init=False)  # what a pair lasts, at its forward; None: the sum of its parts
    there: Ints = field(init=False)  # the latencies of boundaries for forwards, 0 inside a device
    back: Ints = field(init=False)  # and for gradients
    around: int = field(init=False)  # the latency from the last stage to the first one of the next round
    sizes: Mapping[str, Ints] = field(init=False)  # what an activation holds, by the names of the tables of `Grains`

    def __post_init__(self) -> None:
        lasts, held, ways = self.lasts, self.held, self.ways
        stages, units, microbatches = len(held.static), held.units, held.units // held.slices
        if len(ways) == 1:
            where = np.broadcast_to(np.array(ways[0].devices)[:, None], (stages, units))
        else:
            counts = [len(way.microbatches) * held.slices for way in ways]
            where = np.repeat(np.array([way.devices for way in ways]).T, counts, axis=1)
        known, zeros = {name: lasts.each(name) for name in lasts.rows}, np.broadcast_to(np.int64(0), (stages, units))
        apart = once(where)[1:] != once(where)[:-1]
        there, back = (known[name] if apart.all() else known[name] * apart for name in ("p2p", "p2p_back"))
        has_latency = self.rounds > 1 and where[0, 0] != where[-1, 0]
        vars(self).update(
            stages=stages, slices=held.slices, microbatches=microbatches, units=units, where=where, there=there,
            back=back, ticks={cost: known.get(cost, zeros) for cost in COSTS}, overlap=known.get("overlap"),
            around=lasts.mean["around"][0] if has_latency else 0, sizes={name: held.each(name) for name in held.rows},
        )  # fmt: skip

    @cached_property
    def unlike(self) -> tuple[Ints, Ints]:
        """Units that stand for all, with how many each: where microbatches of a direction are alike, of the first."""
        groups: dict[object, list[int]] = {}
        for way in self.ways:
            groups.setdefault(way.devices, []).extend(way.microbatches)
        if self.rounds > 1:  # microbatches are alike in each
            first = np.arange(0, self.units, self.units // self.rounds)
            return first, np.full(self.rounds, self.units // self.rounds)
        if not self.is_plain:
            first = np.zeros(self.microbatches, dtype=np.int64)
            for own in groups.values():
                first[own] = own[0]
            tables = (*self.ticks.values(), self.there, self.back, *self.sizes.values())
            for table in tables if self.overlap is None else (*tables, self.overlap):
                each = table[: len(once(table))].reshape(-1, self.microbatches, self.slices)
                if (each != each[:, first]).any():
                    return np.arange(self.units), np.ones(self.units, dtype=np.int64)
        units = [own[0] * self.slices + part for own in groups.values() for part in range(self.slices)]
        return column(units), column([len(own) for own in groups.values() for _ in range(self.slices)])

    def column(self, name: str | None) -> Ints:
        """Return a column of the table of kinds (`takes`, `gives`, `forward_gives`), zeros for None."""
        whole, held, kept = (self.sizes[key] for key in ("activation", "retained", "checkpointed"))
        if name == "released":
            whole, held = held, whole
        if name in ("released", "caught"):
            more: Ints = np.maximum(held - whole, 0)
            return more
        if name == "recomputed":
            return whole - kept
        return np.broadcast_to(np.zeros((), whole.dtype), whole.shape) if name is None else self.sizes[name]

    def changes(self, letter: str) -> tuple[Ints, Ints]:
        """Return what the starts of a kind take, and what its ends give back: its columns, and keys and values.

        The last slice's backward, which comes first, takes the gradients of those of all other slices, whose own give
        them back. Of forwards alone, each gives back all but keys and values, the last slice's those of the whole
        microbatch, and that of the last round those of all rounds.
        """
        takes, gives = self.column(KINDS[letter].takes), self.column(KINDS[letter].gives)
        cached = self.sizes["cached"].reshape(-1, self.microbatches, self.slices)
        if self.mode == FORWARD_ONLY:
            own: Ints = self.sizes["activation"].reshape(cached.shape) - cached
            flight = self.microbatches // self.rounds
            own[:, -flight:, -1] += cached[:, -flight:].sum(axis=2) * self.rounds
            return takes, own.reshape(takes.shape)
        if letter in GRADIENT_LETTERS and self.slices > 1:
            more, freed = np.zeros_like(cached), cached.copy()
            more[:, :, -1], freed[:, :, -1] = cached[:, :, :-1].sum(axis=2), 0
            takes, gives = takes + more.reshape(takes.shape), gives + freed.reshape(takes.shape)
        return takes, gives

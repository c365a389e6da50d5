"""Microbatches that differ: factors of each (`Sizes`), the slices that each is cut into (`Slices`), forwards alone.

A unit is one slice of one microbatch; without slices it is a microbatch. `read_units`, near the end, reads all of that
for `make_problem`; records and rules of slices stand first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pipesched.checks import require_mapping, require_name, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError, Place
from pipesched.pipeline.problem.costs import TABLED, Costs, Entry, exact_tuple, fields_of
from pipesched.pipeline.problem.quantities import (
    TIME,
    Exact,
    Unit,
    count_of,
    exact_number,
    exact_numbers,
    first_entries,
    in_one_scale,
    is_listed,
    is_several,
    length_text,
    listed_numbers,
    no_number,
    plain,
    simplest,
    to_fraction,
)
from pipesched.pipeline.problem.shapes import ByKey, Count, Each, Either, Field, ListOf, Number, OneOf, ValueShape

TRAIN, FORWARD_ONLY = "train", "forward"
MODES = (TRAIN, FORWARD_ONLY)
MOST_SLICES = 1024
AUTO = "auto"  # a number of slices that is to be found
MOST_TRIED = 64  # then, where it is not said how many there may be at most
EQUAL, WORK = "equal", "work"  # what slices may have the same of
PLACES = 6  # behind the point, of cuts that share out work
ATTENTION_PLACES = 12  # behind the point, of the part that attention has in the work
FACTORS = ("work", "activation", "message")  # what microbatches have factors of
SHARED = ("forward", "backward_input", "backward_weight")  # kinds of work, of which slices have shares


@contextmanager
def entry_of(key: str, name: str) -> Iterator[None]:
    """Let a ConfigError, inside the scope, be about an entry of the mapping that is the parameter `key`."""
    try:
        yield
    except ConfigError as error:
        place = name if error.entry is None else f"{name}[{error.entry}]"
        raise ConfigError(error.message, key, entry=place) from None


@dataclass(frozen=True)
class Sizes(Displayable):
    """Factors of each of the M microbatches.

    `work` multiplies the durations of F, B, I, W and R on every stage, `activation` what a microbatch holds and the
    durations of O and L, `message` the latency of edges. Raises ConfigError about `sizes` for lists of other lengths,
    and for what is no number from 0 on.
    """

    work: tuple[Exact, ...]
    activation: tuple[Exact, ...]
    message: tuple[Exact, ...]

    def __post_init__(self) -> None:
        count, known = len(self.work), dict[int, tuple[Exact, ...]]()
        for name in FACTORS:
            given = getattr(self, name)
            if id(given) not in known:  # one list may be that of several
                with entry_of("sizes", name):
                    known[id(given)] = exact_tuple(given, "sizes", count, "one a microbatch")
            object.__setattr__(self, name, known[id(given)])

    @property
    def are_one(self) -> bool:
        """Whether every factor is 1."""
        return {*self.work, *self.activation, *self.message} == {1}

    @cached_property
    def wholes(self) -> dict[str, tuple[list[int], int]]:
        """Of each list the factors as whole multiples of 1/scale, and the scale."""
        return {name: in_one_scale(getattr(self, name)) for name in FACTORS}

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

    def taken(self, order: Sequence[int]) -> Sizes:
        """Return the factors of these microbatches, in this order."""
        return Sizes(*(tuple(getattr(self, name)[entry] for entry in order) for name in FACTORS))


Shares = tuple[Fraction, ...]  # of the n slices, whose sum is 1


def shares_of(parts: Sequence[Exact | Decimal], tokens: Shares | None = None) -> Shares:
    """Return the parts of slices as fractions of sum 1: floats, as a document has them (0.333.., 1/3), miss it.

    Each becomes the simplest fraction with its float, or with `tokens` the work of causal attention over these; where
    neither has the sum 1, the last slice has what the others leave.
    """
    floats = [float(part) for part in parts]
    simple = [simplest(Decimal(repr(part))) for part in floats]
    if sum(simple) == 1:
        return tuple(simple)
    if tokens is not None:
        linear, core = (work_of(tokens, Fraction(part)) for part in (0, 1))
        entry = max(range(len(tokens)), key=lambda one: abs(core[one] - linear[one]))
        if whole := core[entry] - linear[entry]:
            made = work_of(tokens, round((Fraction(floats[entry]) - linear[entry]) / whole, ATTENTION_PLACES))
            if [*map(float, made)] == floats:
                return made
    return (*simple[:-1], 1 - sum(simple[:-1], Fraction(0)))


@dataclass(frozen=True)
class Slices(Displayable):
    """How every microbatch is cut along its sequence, into `count` slices.

    Each kind of work has the parts of slices on each of the S stages, or one row for all stages where they are alike.
    """

    count: int = 1
    tokens: Shares = (Fraction(1),)  # the part of the sequence that each slice has
    forward: tuple[Shares, ...] = ((Fraction(1),),)  # the part of the forward's work that each slice has, by stage
    backward_input: tuple[Shares, ...] = ((Fraction(1),),)
    backward_weight: tuple[Shares, ...] = ((Fraction(1),),)
    overhead: Entry = 0  # what each F, B, I and W of a slice lasts beside its part; or a pair: F, and all others
    rule: SliceRule | None = None  # cuts another number of slices, where the best is to be found
    tried: tuple[tuple[int, int | float], ...] = ()  # numbers of slices that were tried then, each with its makespan
    is_plain: bool = field(init=False, compare=False, repr=False)  # whether there is one slice, without overhead
    are_several: bool = field(init=False, compare=False, repr=False)  # whether they are several, or may become so

    def __post_init__(self) -> None:
        require_whole(self.count, "slices", least=1, most=MOST_SLICES)
        for shares in (self.tokens, *self.forward, *self.backward_input, *self.backward_weight):
            if len(shares) != self.count or sum(shares) != 1:
                raise ConfigError(f"needs {self.count} parts of sum 1, not {shown(shares)}", "slices")
        for key in SHARED:
            rows = getattr(self, key)
            object.__setattr__(self, key, rows[:1] if len({*rows}) == 1 else rows)
        given = self.overhead if isinstance(self.overhead, tuple) else (self.overhead,) * 2
        pair = exact_tuple(given, "slices", 2, "of forwards, and of backwards")
        object.__setattr__(self, "overhead", pair[0] if pair[0] == pair[1] else pair)
        plain, several = self.count == 1 and not self.overhead, self.count > 1 or self.rule is not None
        vars(self).update(is_plain=plain, are_several=several)

    def overhead_of(self, key: str) -> Exact:
        """Return what every operation of a kind of a slice lasts beside its part."""
        return self.overhead[key != "forward"] if isinstance(self.overhead, tuple) else self.overhead

    def whole(self, stage: int) -> Shares:
        """Return the parts of the work of a full backward on a stage: the means of those of its halves."""
        halves = [rows[stage % len(rows)] for rows in (self.backward_input, self.backward_weight)]
        return halves[0] if halves[0] == halves[1] else tuple(sum(parts) / 2 for parts in zip(*halves, strict=True))


WHOLE = Slices()


class SliceRule(NamedTuple):
    """How microbatches are cut into any number of slices.

    The work of the causal core of attention grows with the square of the tokens up to a slice's end.
    """

    most: int  # slices
    attention: Fraction  # the part of all work that this core is
    equal_work: bool  # slices are of equal work, else of equal tokens
    overhead: Entry = 0  # of each slice
    attentions: tuple[Shares, ...] | None = None  # `attention` of each kind of work by stage, where a model says so

    def slices(self, count: int, tokens: Shares | None = None) -> Slices:
        """Return so many slices, with these parts of the tokens if they are given."""
        if self.equal_work and tokens is None:
            cuts = [_cut(Fraction(part, count), self.attention) for part in range(count + 1)]
            tokens = tuple(end - begin for begin, end in pairwise(cuts))
            work = (Fraction(1, count),) * count
        else:
            tokens = tokens or (Fraction(1, count),) * count
            work = work_of(tokens, self.attention)
        cut = Slices(count, tokens, (work,), (work,), (work,), self.overhead)
        return cut if self.attentions is None else with_attentions(cut, self.attentions)


def with_attentions(slices: Slices, attentions: Sequence[Shares]) -> Slices:
    """Return the same slices with parts of the work by what attention has of each kind of work on each stage."""
    rows: dict[str, Any] = {
        key: tuple(work_of(slices.tokens, attention) for attention in column)
        for key, column in zip(SHARED, attentions, strict=True)
    }
    return replace(slices, **rows)


def work_of(tokens: Shares, attention: Fraction) -> Shares:
    """Return the part of the work of each slice, of which attention has that much in whole."""
    ends = [*accumulate(tokens, initial=Fraction(0))]
    return tuple((1 - attention) * (end - begin) + attention * (end**2 - begin**2) for begin, end in pairwise(ends))


def _cut(work: Fraction, attention: Fraction) -> Fraction:
    """Return up to where the tokens are that have this part of the work, to 6 places; exactly without attention."""
    if not attention:
        return work
    with localcontext() as context:
        context.prec = 40
        linear, core = (Decimal(part.numerator) / part.denominator for part in (1 - attention, attention))
        root = (linear * linear + 4 * core * Decimal(work.numerator) / work.denominator).sqrt()
        return Fraction(round((root - linear) / (2 * core), PLACES))


def unit_values(sizes: Sizes | None, slices: Slices, mode: str) -> dict[str, Any]:
    """Return what makes microbatches differ, as a config gives it; what is as of whole alike ones is left out."""
    found: dict[str, Any] = {}
    if sizes is not None:
        found["sizes"] = {name: [*map(plain, getattr(sizes, name))] for name in FACTORS}
    if not slices.is_plain:
        more = slices.overhead
        work = {key: [[*map(plain, row)] for row in getattr(slices, key)] for key in SHARED}
        found["slices"] = {
            "count": slices.count,
            "tokens": [*map(plain, slices.tokens)],
            "work": {key: rows if len(rows) > 1 else rows[0] for key, rows in work.items()},
            "overhead": [*map(plain, more)] if isinstance(more, tuple) else plain(more),
        }
    return {**found, "mode": mode} if mode == FORWARD_ONLY else found


SIZES: dict[str, ValueShape | Field] = {
    "work": Field(
        "sizes.work",
        ListOf(Number(), metavar="X[,X..]"),
        "factor of each microbatch, by which its F, B, I, W and R last longer; default 1",
        "sizes",
        flag="work",
    ),
    "activation": ListOf(Number()),
    "message": ListOf(Number()),
}
SLICE_COUNT = Count(most=MOST_SLICES)
_TIME, _SHARES = Number(TIME), ListOf(Number(above=True, most=1))
_BY_STAGE = Either(_SHARES, ListOf(_SHARES))
SLICES = {
    "count": Either(SLICE_COUNT, OneOf(AUTO)),
    "tokens": Either(OneOf(EQUAL, WORK), _SHARES),
    "attention": Number(most=1),
    "work": Either(_SHARES, ListOf(_SHARES), ByKey(dict.fromkeys(SHARED, _BY_STAGE), SHARED)),
    "overhead": Either(_TIME, ListOf(_TIME, 2, 2)),
    "most": SLICE_COUNT,
}
OF_BOTH = "of forwards, and of backwards"  # a pair of overheads
MOST_ITEMS = 1_000  # of side work
WHOLE_ONLY = ("recompute", "offload", "reload", "overlap")
NEAR = Fraction(1, 10**9)  # how far from 1 the sum of given parts may be
Table = tuple[Entry, ...]
EACH = {"stage": "one a stage", "boundary": "one a boundary between stages", "device": "one a device"}


def _lengths(tables: Mapping[str, Any], sizes: Any, stages: int) -> Iterator[tuple[str, Place, int]]:
    """Yield the length of each list for all microbatches, with its parameter and its place in that."""
    factors = {"work": sizes.work} if isinstance(sizes, Sizes) else sizes if isinstance(sizes, Mapping) else {}
    found: list[tuple[str, Place, Any]] = [("sizes", str(name), value) for name, value in factors.items()]
    items = first_entries(tables["side"], MOST_ITEMS) if is_listed(tables["side"]) else ()
    known = [(number, item) for number, item in enumerate(items) if isinstance(item, Mapping)]
    found += [("side", (number, name), item.get(name)) for number, item in known for name in ("forward", "backward")]
    listed = [key for key in TABLED if is_listed(tables[key])]
    found += [(key, entry, row) for key in listed for entry, row in enumerate(first_entries(tables[key], stages))]
    yield from ((key, entry, len(value)) for key, entry, value in found if is_listed(value))


class Extent(NamedTuple):
    """What lists of costs and memory are read by: how many devices, stages and microbatches, and units of numbers."""

    devices: int
    stages: int
    microbatches: int
    time: Unit
    size: Unit

    def read(self, field: Field, value: Any) -> Any:
        """Return the numbers of a key of costs or memory, or its only one; None for None. Raises ConfigError."""
        if value is None and field.absent is None:
            return None
        shape = field.shape
        number = shape.number if isinstance(shape, Each) else shape
        assert isinstance(number, Number)
        unit = None if number.dimension is None else self.time if number.dimension is TIME else self.size
        if not isinstance(shape, Each):
            return listed_numbers(field.name, [value], unit, number.most, row=None)[0]
        counts = {"stage": self.stages, "boundary": self.stages - 1, "device": self.devices}
        count, each = counts[shape.per], EACH[shape.per]
        rows = self.microbatches if shape.rows else None
        return exact_numbers(field.name, value, count, each, unit, number.most, above=number.above, microbatches=rows)


def read_units(
    units: tuple[Any, Any, Any, Any], given: Mapping[str, Any], microbatches: Any, shape: tuple[int, int], time: Unit
) -> tuple[int, dict[str, Any]]:
    """Return the number of microbatches (of a round), and the fields of a Problem that make them differ.

    `units` are the parameters `sizes`, `slices`, `mode` and `rounds` of make_problem, `given` its costs, and `shape`
    the numbers of devices and stages. There are as many microbatches as are given, as the first list for each has, or
    two a device. Raises ConfigError about the parameter at fault, also for a list of another length.
    """
    sizes, slices, mode, rounds = units
    turns = count_of("rounds", rounds)
    count = None if microbatches is None else count_of("microbatches", microbatches)
    said = f"microbatches is {count}: leave that out, or give lists of {count}"
    may_list = sizes is not None or any(isinstance(given[key], Iterable) for key in (*TABLED, "side"))
    for key, entry, length in _lengths(given, sizes, shape[1]) if may_list else ():
        if count is None:
            said = f"{key}.{entry} lists {length}" if key == "sizes" else f"{key} lists {length}"
            count = length
        if length != count or not length:
            what = f"lists {length} numbers, one a microbatch; {said}" if length else "must list one a microbatch"
            raise ConfigError(what, key, entry=entry)
    count = 2 * shape[0] if count is None else count
    cut = WHOLE if slices is None or (type(slices) is int and slices == 1) else read_slices(slices, shape[1], time)
    named = require_name(MODES, mode, "mode", "mode")
    if named != FORWARD_ONLY and cut.are_several:
        layer, refused = given["layer"], "goes with whole microbatches, not with `slices`"
        for key in WHOLE_ONLY:
            if given[key] is not None:
                raise ConfigError(refused, key)
            if isinstance(layer, Mapping) and layer.get(key) is not None:
                raise ConfigError(refused, "layer", entry=key)
    factors = None if sizes is None else read_sizes(sizes, count)
    return count, {"sizes": factors, "slices": cut, "mode": named, "rounds": turns}


def read_sizes(value: Any, microbatches: int) -> Sizes:
    """Return the factors of each microbatch. Raises ConfigError about `sizes`."""
    if isinstance(value, Sizes):
        return value
    given = known_entries(value, FACTORS, "sizes")
    columns: dict[str, tuple[Exact, ...]] = dict.fromkeys(FACTORS, (1,) * microbatches)
    for name, factors in given.items():
        with entry_of("sizes", name):
            if not is_several(factors):
                what = f"must list {microbatches} numbers (one a microbatch), not {shown(factors)}"
                raise ConfigError(what, "sizes")
            columns[name] = exact_numbers("sizes", factors, microbatches, "one a microbatch", None)
    return Sizes(**columns)


def known_entries(value: Any, known: Sequence[str], key: str, inside: str = "") -> dict[str, Any]:
    """Return the entries given of a mapping, a parameter or `inside` of one. Raises ConfigError for an unknown one."""
    given = require_mapping(value, f"a mapping of {', '.join(known)}", key)
    for name in given:
        with entry_of(key, f"{inside}{name}"):
            require_name(known, name, "key", key)
    return {name: one for name, one in given.items() if one is not None}


def read_slices(value: Any, stages: int, time: Unit) -> Slices:
    """Return how microbatches are cut, from a number of slices, or a mapping. Raises ConfigError about `slices`."""
    if isinstance(value, Slices):
        return value
    if not isinstance(value, Mapping):
        return _open({}, 0) if value == AUTO else _rule({}, 0, MOST_SLICES).slices(_whole(value, or_auto=True))
    given = known_entries(value, [*SLICES], "slices")
    with entry_of("slices", "overhead"):
        overhead = exact_numbers("slices", given.get("overhead", 0), 2, OF_BOTH, time)
    count = given.get("count", 1)
    if isinstance(count, str) and count == AUTO:
        return _open(given, overhead)
    count = _whole(count, "count", or_auto=True)
    if "most" in given:
        raise ConfigError(f"goes with `count: {AUTO}`, not with {count}", "slices", entry="most")
    tokens = None if isinstance(given.get("tokens", EQUAL), str) else _shares(given["tokens"], count, "tokens")
    if "work" not in given:
        return _rule(given, overhead, MOST_SLICES).slices(count, tokens)
    if "attention" in given:
        what = "is a rule for the parts of the work, which are given; give either"
        raise ConfigError(what, "slices", entry="attention")
    tokens = tokens or (Fraction(1, count),) * count
    if given.get("tokens") == WORK:
        what = f"must be {EQUAL} or listed where the parts of the work are given, not {WORK}"
        raise ConfigError(what, "slices", entry="tokens")
    forward, backward_input, backward_weight = _work(given["work"], tokens, stages)
    return Slices(count, tokens, forward, backward_input, backward_weight, overhead)


def _open(given: Mapping[str, Any], overhead: Entry) -> Slices:
    """Return one slice, with the rule by which a better number is to be found."""
    for key in ("tokens", "work"):
        if key in given and not isinstance(given[key], str):
            what = f"lists parts, and how many there are is to be found (`count: {AUTO}`)"
            raise ConfigError(what, "slices", entry=key)
    most = _whole(given.get("most", MOST_TRIED), "most")
    return Slices(overhead=overhead, rule=_rule(given, overhead, most))


def _rule(given: Mapping[str, Any], overhead: Entry, most: int) -> SliceRule:
    attention = exact_number("slices", given.get("attention", 0), None, most=1, entry="attention")
    tokens = given.get("tokens", EQUAL)
    if isinstance(tokens, str):
        with entry_of("slices", "tokens"):
            require_name((EQUAL, WORK), tokens, "rule", "slices")
    return SliceRule(most, round(attention, ATTENTION_PLACES), isinstance(tokens, str) and tokens == WORK, overhead)


def _work(value: Any, tokens: Shares, stages: int) -> list[tuple[Shares, ...]]:
    """Return the parts of F, I and W, for each stage where they are listed by stage."""
    is_one = not isinstance(value, Mapping)
    by_kind = dict.fromkeys(SHARED, value) if is_one else known_entries(value, SHARED, "slices", "work.")
    rows = list[tuple[Shares, ...]]()
    for key in SHARED:
        name = "work" if is_one else f"work.{key}"
        if key not in by_kind:
            raise ConfigError("is missing", "slices", entry=name)
        listed = by_kind[key]
        each = first_entries(listed, stages) if is_several(listed) else []
        if not any(map(is_several, each)):
            rows.append((_shares(listed, len(tokens), name, tokens),))
            continue
        if len(each) != stages:
            found = length_text(listed, each, stages)
            raise ConfigError(f"has lists for {found} stages; there are {stages}", "slices", entry=name)
        rows.append(tuple(_shares(row, len(tokens), f"{name}[{stage}]", tokens) for stage, row in enumerate(each)))
    return rows


def _shares(value: Any, count: int, name: str, tokens: Shares | None = None) -> Shares:
    """Return `count` positive parts of sum 1. Raises ConfigError, about the entry `name` of `slices`."""
    if not is_several(value):
        raise ConfigError(f"must list {count} parts of sum 1, not {shown(value)}", "slices", entry=name)
    entries = first_entries(value, count)
    if len(entries) != count:
        found = length_text(value, entries, count)
        raise ConfigError(f"needs {count} parts, one a slice; this has {found}", "slices", entry=name)
    parts = []
    for entry, one in enumerate(entries):
        place = f"{name}[{entry}]"
        try:
            part = to_fraction(one)  # with all its digits: 0.3333333333333333 is a third
        except ValueError as error:
            raise ConfigError(no_number(one, error), "slices", entry=place) from None
        if not 0 < part <= 1:
            raise ConfigError(f"must be more than 0 and at most 1, not {shown(one)}", "slices", entry=place)
        parts.append(part)
    whole = sum(parts, Fraction(0))
    if abs(whole - 1) > NEAR:
        raise ConfigError(f"must have the sum 1, not {shown(float(whole))}", "slices", entry=name)
    return shares_of(parts, tokens)


def _whole(value: Any, entry: str | None = None, *, or_auto: bool = False) -> int:
    try:
        number = count_of("slices", value)
    except ConfigError:
        number = 0
    if not 1 <= number <= MOST_SLICES:
        other = f", or {AUTO}" if or_auto else ""
        what = f"must be a whole number from 1 to {MOST_SLICES}{other}, not {shown(value)}"
        raise ConfigError(what, "slices", entry=entry)
    return number


def require_alike_pairs(costs: Costs, sizes: Sizes | None) -> None:
    """Raise ConfigError, about `overlap`, where halves of pairs last differently long from microbatch to microbatch."""
    differ = [key for key in ("forward", *SHARED[1:]) if any(isinstance(entry, tuple) for entry in getattr(costs, key))]
    if sizes is not None and {*sizes.work} != {1}:
        differ.append("sizes.work")
    if differ:
        raise ConfigError(
            f"is one time for all pairs of a stage; with `{differ[0]}` by microbatch, leave it out: a pair then lasts"
            " the sum of its parts",
            "overlap",
        )

"""Microbatches that differ: factors of each, the slices that each is cut into, and whether only forwards run.

A unit is one slice of one microbatch; without slices it is a microbatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from pipesched.checks import require_type, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import Entry, exact_tuple, fields_of
from pipesched.pipeline.quantities import Exact, in_one_scale, plain, simplest

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
        for field in fields(self):
            given = getattr(self, field.name)
            if id(given) not in known:  # one list may be that of several
                with entry_of("sizes", field.name):
                    known[id(given)] = exact_tuple(given, "sizes", count, "one a microbatch")
            object.__setattr__(self, field.name, known[id(given)])

    @property
    def are_one(self) -> bool:
        """Whether every factor is 1."""
        return {*self.work, *self.activation, *self.message} == {1}

    @cached_property
    def wholes(self) -> dict[str, tuple[list[int], int]]:
        """Of each list the factors as whole multiples of 1/scale, and the scale."""
        return {field.name: in_one_scale(getattr(self, field.name)) for field in fields(self)}

    def __getstate__(self) -> dict[str, Any]:
        return fields_of(self)

    def taken(self, order: Sequence[int]) -> Sizes:
        """Return the factors of these microbatches, in this order."""
        return Sizes(*(tuple(getattr(self, field.name)[entry] for entry in order) for field in fields(self)))


Shares = tuple[Fraction, ...]  # of the n slices, whose sum is 1


def shares_of(parts: Sequence[Exact | Decimal], tokens: Shares | None = None) -> Shares:
    """Return the parts of slices, which have the sum 1 but for rounding, as fractions that their floats tell.

    A float of the simplest fractions tells them, or with `tokens` that of the work of causal attention over these; else
    the last slice has what the others leave.
    """
    floats = [float(part) for part in parts]
    simple = [simplest(Decimal(repr(part))) for part in floats]
    if sum(simple) == 1:
        return tuple(simple)
    by_rule = None if tokens is None else _by_attention(floats, tokens)
    return by_rule or (*simple[:-1], 1 - sum(simple[:-1], Fraction(0)))


def _by_attention(work: Sequence[float], tokens: Shares) -> Shares | None:
    """Return the parts of the work that have these floats, by the part that attention has in it; None if none has."""
    linear, core = (work_of(tokens, Fraction(part)) for part in (0, 1))
    entry = max(range(len(tokens)), key=lambda one: abs(core[one] - linear[one]))
    if core[entry] == linear[entry]:
        return None
    attention = round((Fraction(work[entry]) - linear[entry]) / (core[entry] - linear[entry]), ATTENTION_PLACES)
    made = work_of(tokens, attention)
    return made if [*map(float, made)] == [*work] else None


@dataclass(frozen=True)
class Slices(Displayable):
    """How every microbatch is cut along its sequence, into `count` slices.

    `tokens` is each slice's part of the sequence; `forward`, `backward_input` and `backward_weight` its part of the
    work of that kind on each of the S stages, one for all of them where they are alike. `overhead` is a time, which
    every F, B, I and W of a slice lasts beside its part, or a pair: that of F, and that of all others. `rule` cuts
    another number of slices, where the best one is to be found (None: it is known); `tried` are the numbers that were
    tried then, each with its makespan.
    """

    count: int = 1
    tokens: Shares = (Fraction(1),)
    forward: tuple[Shares, ...] = ((Fraction(1),),)
    backward_input: tuple[Shares, ...] = ((Fraction(1),),)
    backward_weight: tuple[Shares, ...] = ((Fraction(1),),)
    overhead: Entry = 0
    rule: SliceRule | None = None
    tried: tuple[tuple[int, int | float], ...] = ()

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

    @property
    def is_plain(self) -> bool:
        """Whether there is one slice, without overhead."""
        return self.count == 1 and not self.overhead

    def overhead_of(self, key: str) -> Exact:
        """Return what every operation of a kind of a slice lasts beside its part."""
        return self.overhead[key != "forward"] if isinstance(self.overhead, tuple) else self.overhead

    @property
    def are_several(self) -> bool:
        """Whether a microbatch has more than one slice, or may get more: the number is to be found."""
        return self.count > 1 or self.rule is not None

    def of(self, key: str, stage: int) -> Shares:
        """Return the parts of the work of a kind on a stage."""
        rows: tuple[Shares, ...] = getattr(self, key)
        return rows[stage] if len(rows) > 1 else rows[0]

    def whole(self, stage: int) -> Shares:
        """Return the parts of the work of a full backward on a stage: the means of those of its halves."""
        halves = [self.of(key, stage) for key in SHARED[1:]]
        return halves[0] if halves[0] == halves[1] else tuple(sum(parts) / 2 for parts in zip(*halves, strict=True))


WHOLE = Slices()


@dataclass(frozen=True)
class SliceRule:
    """How microbatches are cut into any number of slices, at most `most`, each with `overhead` (a time).

    `attention` is the part of the work that the causal core of attention has in whole, which grows with the square of
    the tokens up to a slice's end. Slices are of equal tokens, or with `equal_work` of equal work. `attentions` are
    that part of each kind of work on each of the S stages, where a model says so (None: the same of all).
    """

    most: int
    attention: Fraction
    equal_work: bool
    overhead: Entry = 0
    attentions: tuple[Shares, ...] | None = None

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


def require_units(sizes: Any, slices: Any, microbatches: int, stages: int) -> None:
    """Raise ConfigError for factors of other microbatches, and for slices with work of other stages."""
    require_type(sizes, (Sizes, type(None)), "Sizes or None", "sizes")
    require_type(slices, Slices, "Slices", "slices")
    if sizes is not None and len(sizes.work) != microbatches:
        raise ConfigError(f"are of {len(sizes.work)} microbatches; the problem has {microbatches}", "sizes")
    for key in SHARED:
        if len(getattr(slices, key)) not in (1, stages):
            raise ConfigError(f"have the {key} of {len(getattr(slices, key))} stages; there are {stages}", "slices")


def unit_values(sizes: Sizes | None, slices: Slices, mode: str) -> dict[str, Any]:
    """Return what makes microbatches differ, as a config gives it; what is as of whole alike ones is left out."""
    found: dict[str, Any] = {}
    if sizes is not None:
        found["sizes"] = {field.name: [*map(plain, getattr(sizes, field.name))] for field in fields(sizes)}
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

"""Microbatches that differ: factors of each, the slices that each is cut into, and whether only forwards run.

A unit is one slice of one microbatch; without slices it is a microbatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from pipesched.checks import require_type, require_whole, shown
from pipesched.display import Displayable
from pipesched.errors import ConfigError
from pipesched.pipeline.costs import exact_tuple
from pipesched.pipeline.quantities import Exact

TRAIN, FORWARD_ONLY = "train", "forward"
MODES = (TRAIN, FORWARD_ONLY)
MOST_SLICES = 1024
AUTO = "auto"  # a number of slices that is to be found
PLACES = 6  # behind the point, of cuts that share out work
SHARED = ("forward", "backward_input", "backward_weight")  # kinds of work, of which slices have shares


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
        count = len(self.work)
        for field in fields(self):
            try:
                numbers = exact_tuple(getattr(self, field.name), field.name, count, "one a microbatch")
            except ConfigError as error:
                at = "" if error.entry is None else f"[{error.entry}]"
                raise ConfigError(f"{field.name}{at}: {error.message}", "sizes") from None
            object.__setattr__(self, field.name, numbers)

    @property
    def are_one(self) -> bool:
        """Whether every factor is 1."""
        return {*self.work, *self.activation, *self.message} == {1}

    def taken(self, order: Sequence[int]) -> Sizes:
        """Return the factors of these microbatches, in this order."""
        return Sizes(*(tuple(getattr(self, field.name)[entry] for entry in order) for field in fields(self)))


Shares = tuple[Fraction, ...]  # of the n slices, whose sum is 1


@dataclass(frozen=True)
class Slices(Displayable):
    """How every microbatch is cut along its sequence, into `count` slices.

    `tokens` is each slice's part of the sequence; `forward`, `backward_input` and `backward_weight` its part of the
    work of that kind on each of the S stages, one for all of them where they are alike. `overhead` is a time, which
    every F, B, I and W of a slice lasts beside its part. `rule` cuts another number of slices, where the best one is to
    be found (None: it is known); `tried` are the numbers that were tried then, each with its makespan.
    """

    count: int = 1
    tokens: Shares = (Fraction(1),)
    forward: tuple[Shares, ...] = ((Fraction(1),),)
    backward_input: tuple[Shares, ...] = ((Fraction(1),),)
    backward_weight: tuple[Shares, ...] = ((Fraction(1),),)
    overhead: Exact = 0
    rule: SliceRule | None = None
    tried: tuple[tuple[int, int | float], ...] = ()

    def __post_init__(self) -> None:
        require_whole(self.count, "slices", least=1, most=MOST_SLICES)
        for shares in (self.tokens, *self.forward, *self.backward_input, *self.backward_weight):
            if len(shares) != self.count or sum(shares) != 1:
                raise ConfigError(f"needs {self.count} parts of sum 1, not {shown(shares)}", "slices")
        object.__setattr__(self, "overhead", exact_tuple((self.overhead,), "slices", 1, "")[0])

    @property
    def is_plain(self) -> bool:
        """Whether there is one slice, without overhead."""
        return self.count == 1 and not self.overhead

    def of(self, key: str, stage: int) -> Shares:
        """Return the parts of the work of a kind on a stage."""
        rows: tuple[Shares, ...] = getattr(self, key)
        return rows[stage] if len(rows) > 1 else rows[0]


WHOLE = Slices()


@dataclass(frozen=True)
class SliceRule:
    """How microbatches are cut into any number of slices, at most `most`, each with `overhead` (a time).

    `attention` is the part of the work that the causal core of attention has in whole, which grows with the square of
    the tokens up to a slice's end. Slices are of equal tokens, or with `equal_work` of equal work.
    """

    most: int
    attention: Fraction
    equal_work: bool
    overhead: Exact = 0

    def slices(self, count: int, tokens: Shares | None = None) -> Slices:
        """Return so many slices, with these parts of the tokens if they are given."""
        if self.equal_work and tokens is None:
            cuts = [_cut(Fraction(part, count), self.attention) for part in range(count + 1)]
            tokens = tuple(end - begin for begin, end in pairwise(cuts))
            work = (Fraction(1, count),) * count
        else:
            tokens = tokens or (Fraction(1, count),) * count
            ends = [*accumulate(tokens, initial=Fraction(0))]
            work = tuple(map(self._work, ends, ends[1:]))
        return Slices(count, tokens, (work,), (work,), (work,), self.overhead)

    def _work(self, begin: Fraction, end: Fraction) -> Fraction:
        """Return the part of the work of a slice between two places of the sequence."""
        return (1 - self.attention) * (end - begin) + self.attention * (end**2 - begin**2)


def _cut(work: Fraction, attention: Fraction) -> Fraction:
    """Return up to where the tokens are that have this part of the work, to 6 places."""
    if not attention:
        return _rounded(Decimal(work.numerator) / Decimal(work.denominator))
    with localcontext() as context:
        context.prec = 40
        linear, core = (Decimal(part.numerator) / part.denominator for part in (1 - attention, attention))
        root = (linear * linear + 4 * core * Decimal(work.numerator) / work.denominator).sqrt()
        return _rounded((root - linear) / (2 * core))


def _rounded(number: Decimal) -> Fraction:
    return Fraction(round(number, PLACES))


def require_units(sizes: Any, slices: Any, microbatches: int, stages: int) -> None:
    """Raise ConfigError for factors of other microbatches, and for slices with work of other stages."""
    require_type(sizes, (Sizes, type(None)), "Sizes or None", "sizes")
    require_type(slices, Slices, "Slices", "slices")
    if sizes is not None and len(sizes.work) != microbatches:
        raise ConfigError(f"are of {len(sizes.work)} microbatches; the problem has {microbatches}", "sizes")
    for key in SHARED:
        if len(getattr(slices, key)) not in (1, stages):
            raise ConfigError(f"have the {key} of {len(getattr(slices, key))} stages; there are {stages}", "slices")

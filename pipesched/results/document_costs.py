"""What microbatches of documents cost: factors of a problem's costs (`FactorCosts`), times of a model (`ModelCosts`).

Packings (`comparing/packing`) add documents as whole numbers: a document has two `amounts`, and takes a stage the time
`rate(..).of(*amounts)`. `problem` makes a Problem of microbatches, each with the `DocumentLoad` of its lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import lcm
from operator import mul
from typing import Any, NamedTuple

from pipesched.pipeline.problem.costs import Entry
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import Exact, canonical, rounded, to_fraction
from pipesched.pipeline.problem.units import Sizes

MILLION = 10**6  # works and sizes have six decimals
PASSES = ("forward", "backward_input", "backward_weight")


class DocumentLoad(NamedTuple):
    """What a microbatch costs by: the sum of the lengths of its documents, and that of their squares."""

    tokens: int
    squares: int


def load_of(lengths: Sequence[int]) -> DocumentLoad:
    """Return the load of documents of these lengths."""
    return DocumentLoad(sum(lengths), sum(map(mul, lengths, lengths)))


def half_even(numerator: int, denominator: int) -> Fraction:
    """Return a quotient rounded to six decimals, halves to even."""
    whole, rest = divmod(numerator * MILLION, denominator)
    return Fraction(whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1)), MILLION)


class Rate(NamedTuple):
    """A cost for each token (`linear`), and for each square of the length (`core`): of a microbatch it is their sum."""

    linear: Fraction
    core: Fraction = Fraction(0)

    @property
    def scale(self) -> int:
        """The least number that makes whole numbers of both."""
        return lcm(self.linear.denominator, self.core.denominator)

    def plus(self, other: Rate) -> Rate:
        return Rate(self.linear + other.linear, self.core + other.core)

    def of(self, linear: int | Fraction, core: int | Fraction) -> Fraction:
        return self.linear * linear + self.core * core if self.core else self.linear * linear


@dataclass(frozen=True)
class FactorCosts:
    """Costs are those of one document of `reference` tokens; `attention` is the part that grows with their square."""

    attention: Fraction
    reference: int

    @property
    def reference_amount(self) -> int:
        """The amount of a document of `reference` tokens: that of any other is whole then."""
        return self.attention.denominator * self.reference * self.reference

    def _amount(self, tokens: int, squares: int) -> int:
        core, whole = self.attention.as_integer_ratio()
        return (whole - core) * tokens * self.reference + core * squares

    def work(self, load: DocumentLoad) -> Fraction:
        """Return the sum over documents of (1 - a) L / T0 + a (L / T0)^2, to six decimals."""
        return half_even(self._amount(*load), self.reference_amount)

    def amounts(self, length: int) -> tuple[int, int]:
        """Return the work of a document as a whole number, where one of `reference` tokens has `reference_amount`."""
        return self._amount(length, length * length), 0

    def rate(self, problem: Problem, key: str, stage: int) -> Rate:
        """Return what a stage takes of an amount of 1 by a cost; the microbatches of `problem` are alike."""
        return Rate(Fraction(problem.ticks.rows[key][stage][0], problem.ticks.per_unit * self.reference_amount))

    def size(self, load: DocumentLoad) -> Fraction:
        """Return the sum over documents of L / T0, to six decimals: what a microbatch holds and sends."""
        return half_even(load.tokens, self.reference)

    def problem(self, problem: Problem, loads: Sequence[DocumentLoad]) -> Problem:
        works, sizes = (tuple([canonical(of(load)) for load in loads]) for of in (self.work, self.size))
        return replace(problem, microbatches=len(loads), sizes=Sizes(works, sizes, sizes))


@dataclass(frozen=True)
class ModelCosts:
    """Times of stages for a document of `reference` tokens, by key: `linear` grows with tokens, `core` with squares."""

    reference: int
    linear: Mapping[str, Sequence[Fraction]]  # "forward", .., "whole" where a solve chooses whole or split backwards
    core: Mapping[str, Sequence[Fraction]]
    reference_amount = 0  # works are no factors that are rounded

    def work(self, load: DocumentLoad) -> Fraction:
        """Return forward and backward over all stages, to six decimals."""
        linear, core = (sum((sum(part[key]) for key in PASSES), Fraction(0)) for part in (self.linear, self.core))
        tokens = Fraction(load.tokens, self.reference)
        squares = Fraction(load.squares, self.reference * self.reference)
        return round((linear * tokens + core * squares) / (linear + core), 6)

    def size(self, load: DocumentLoad) -> Fraction:
        """Return the tokens, to six decimals."""
        return half_even(load.tokens, self.reference)

    def _time(self, rate: Rate, load: DocumentLoad) -> Exact:
        """Return what a microbatch takes of a time that is so much for one document of `reference` tokens."""
        scale, tokens = rate.scale, self.reference
        linear, core = int(rate.linear * scale), int(rate.core * scale)
        amount = linear * load.tokens * tokens + core * load.squares
        return canonical(rounded(Fraction(amount, scale * tokens * tokens)))

    def amounts(self, length: int) -> tuple[int, int]:
        return length, length * length

    def rate(self, problem: Problem, key: str, stage: int) -> Rate:
        """Return what a stage takes of a token, and of a square of 1."""
        device = problem.settled_placement.devices[stage]
        speed = Fraction(1) if problem.speed is None else to_fraction(problem.speed[device])
        halves = ("whole",) if "whole" in self.linear else PASSES[1:]
        keys = halves if key == "backward" else (key,)
        linear, core = (sum((part[one][stage] for one in keys), Fraction(0)) for part in (self.linear, self.core))
        return Rate(linear / self.reference / speed, core / (self.reference * self.reference) / speed)

    def problem(self, problem: Problem, loads: Sequence[DocumentLoad]) -> Problem:
        """Return `problem` with tables of times, of as many digits as a config has, and factors of all else."""

        @cache
        def row(linear: Fraction, core: Fraction) -> Entry:
            times = tuple(self._time(Rate(linear, core), load) for load in loads)
            return times if len({*times}) > 1 else times[0]

        tables: dict[str, Any] = {key: tuple(map(row, self.linear[key], self.core[key])) for key in self.linear}
        sizes = tuple(map(self.size, loads))
        return replace(
            problem,
            microbatches=len(loads),
            costs=replace(problem.costs, **tables, overlap=None, resolution=1),
            sizes=Sizes((1,) * len(loads), sizes, sizes),
        )


DocumentCosts = FactorCosts | ModelCosts  # how documents become costs: factors of a problem's, or tables of them

"""Documents to pack, and the best of all packings by trying each: what `pack` is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import log
from random import Random
from typing import NamedTuple

from pipesched import NotApplicable, Packing, Problem, Sizes, run

GOLDEN = (9, 7, 6, 5, 4, 4, 3, 2)


def documents(seed: int, count: int = 512, median: int = 1500, cap: int = 32768) -> list[int]:
    """Return lengths as a corpus has them: lognormal of sigma 1, at least 16 tokens, the longest as long as the cap."""
    random = Random(seed)
    lengths = [min(max(int(random.lognormvariate(log(median), 1)), 16), cap) for _ in range(count)]
    lengths[lengths.index(max(lengths))] = cap
    return lengths


class Way(NamedTuple):
    """How documents are shared out, and what they cost."""

    ranks: int
    microbatches: int
    cap: int
    attention: Fraction
    reference: int


def sized(problem: Problem, microbatches: Iterable[Sequence[int]], way: Way) -> Problem:
    """Return a problem whose microbatches have documents of these lengths, by the formula alone."""
    works, sizes = [], []
    for lengths in microbatches:
        parts = [Fraction(length, way.reference) for length in lengths]
        works.append(round(sum(((1 - way.attention) * x + way.attention * x * x for x in parts), Fraction(0)), 6))
        sizes.append(round(sum(parts, Fraction(0)), 6))
    factors = Sizes(tuple(works), tuple(sizes), tuple(sizes))
    return replace(problem, microbatches=len(works), sizes=factors)


def every_value(
    lengths: Sequence[int], way: Way, problem: Problem, algorithm: str
) -> set[tuple[bool, int | float, int | float]]:
    """Return what all packings within the cap take: whether over budget, the slowest rank, and the sum over ranks."""
    bins = way.ranks * way.microbatches

    @cache
    def takes(rank: tuple[tuple[int, ...], ...]) -> tuple[bool, int | float] | None:
        try:
            schedule = run(sized(problem, rank, way), algorithm).schedule
        except NotApplicable:
            return None
        return not schedule.fits, schedule.makespan

    found = set()
    for target in product(range(bins), repeat=len(lengths)):
        filled: list[list[int]] = [[] for _ in range(bins)]
        for length, number in zip(lengths, target, strict=True):
            filled[number].append(length)
        if all(filled) and max(map(sum, filled)) <= way.cap:
            parts = [tuple(sorted(members)) for members in filled]
            ranks = [tuple(parts[n : n + way.microbatches]) for n in range(0, bins, way.microbatches)]
            timed = [takes(rank) for rank in ranks]
            known = [one for one in timed if one is not None]
            if len(known) == len(timed):
                makespans = [makespan for _, makespan in known]
                found.add((any(over for over, _ in known), max(makespans), sum(makespans)))
    return found


def value_of(packing: Packing) -> tuple[bool, int | float, int | float]:
    """Return the same of a packing."""
    return not packing.fits, packing.makespan, sum(packing.makespans)


def by_length(packing: Packing) -> list[list[list[int]]]:
    """Return the lengths of the documents in each microbatch, for packings of the same ones in another order."""
    return [
        [sorted(packing.lengths[document] for document in members) for members in rank] for rank in packing.assignment
    ]


def require_legal(packing: Packing) -> None:
    """Fail unless each document is in one microbatch of one rank, and none is empty or above the cap."""
    members = [part for rank in packing.assignment for part in rank]
    assert sorted(document for part in members for document in part) == [*range(len(packing.lengths))]
    assert all(part == sorted(part) and part for part in members)
    assert {len(rank) for rank in packing.assignment} == {packing.microbatches}
    assert max(sum(packing.lengths[document] for document in part) for part in members) <= packing.cap

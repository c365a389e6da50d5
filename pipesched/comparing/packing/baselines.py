"""Packings that others make: first fit, largest differencing, and the latter in verl's order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.comparing.packing.differencing import differencing
from pipesched.comparing.packing.feasible import first_fit

Assignment = list[list[list[int]]]  # the documents of each microbatch of each rank, in the order they are fed


class OtherPacking(NamedTuple):
    """A packing by a rule, of documents from long to short; `left` are those that found no room."""

    rule: str
    assignment: Assignment
    left: int = 0


def other_packings(
    lengths: Sequence[int],
    ranks: int,
    microbatches: int,
    cap: int,
    reference: int,
    work: Callable[[list[int]], Fraction],
) -> list[OtherPacking]:
    """Return what the rules make of documents from long to short.

    `work` says what a microbatch costs, by which verl orders them. Empty microbatches are left out.
    """
    bins, left = first_fit(lengths, ranks * microbatches, cap)
    shared = [[members for members in bins[rank::ranks] if members] for rank in range(ranks)]
    weights = [length * reference + length * length for length in lengths]
    differenced = []
    for part in differencing(weights, ranks):
        own = differencing([weights[document] for document in part], microbatches)
        differenced.append([[part[number] for number in members] for members in own if members])
    ordered = []
    for rank in differenced:
        order = in_verl_order([work(members) for members in rank])
        ordered.append([rank[number] for number in order])
    return [
        OtherPacking("first-fit", shared, len(left)),
        OtherPacking("karmarkar-karp", differenced),
        OtherPacking("verl", ordered),
    ]


def in_verl_order(works: Sequence[Fraction]) -> list[int]:
    """Return microbatches by verl's rule: from large to small, by turns before and behind all others."""
    falling = sorted(range(len(works)), key=lambda number: (works[number], number), reverse=True)
    return [*falling[::2][::-1], *falling[1::2]]

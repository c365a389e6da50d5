"""Cutting a list of items into contiguous chunks, one or more for each device: the best cut, proved.

The best has the least largest work of a device, and of those the least largest work of a chunk, within the memory of
each device. Where no cut fits, it is the best of those with the least excess of a device above its capacity.

Three methods answer. With one chunk a device it is dynamic programming (cut_one_each); where all items are alike but
for a few at both ends, counting (cut_alike); for all else a search with OR-Tools (cut_search).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.estimation.cutting.alike import cut_alike
from pipesched.estimation.cutting.costs import Amount, Chunk, Chunks, Costs, Ends, Question, in_whole_bytes
from pipesched.estimation.cutting.near import with_near
from pipesched.estimation.cutting.one_each import one_each
from pipesched.estimation.cutting.search import search

__all__ = ["Answer", "Chunk", "Chunks", "Cut", "Question", "cut"]


class Cut(NamedTuple):
    """A cut: the end of each chunk; the last one is the number of items."""

    ends: Ends

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many items each chunk has."""
        return tuple(end - begin for begin, end in zip((0, *self.ends), self.ends, strict=False))


@dataclass(frozen=True)
class Answer:
    """The best cuts, best first, all equal in the largest work of a device, and what is known of them.

    `device` is that work, `chunk` the largest work of a chunk of the first cut. `excess` are the most bytes of a device
    above its capacity, 0 where the cuts fit. `proved`: no cut has less excess, or as much and less work of a device, or
    as much of both and a smaller largest chunk than the first one.
    """

    cuts: tuple[Cut, ...]
    device: int
    chunk: int
    excess: Amount
    proved: bool

    @property
    def fits(self) -> bool:
        """Whether the cuts are within the memory of every device."""
        return not self.excess


def cut(question: Question, keep: int = 10, seconds: float = 10.0) -> Answer:
    """Return up to `keep` best cuts. A search, where one is needed, ends after `seconds` with the best it found.

    The cuts are variants that suit a pipeline, such as little work in the first or the last chunk, and cuts near these.
    They are in the order of their largest chunk, then of the squares of the work of devices, which are least where it
    is even, then of chunks; then those whose earlier chunks have more items.
    """
    clock = Clock(seconds)
    whole, unit = in_whole_bytes(question)
    costs = Costs(whole)
    found, proved = _found(costs, clock)
    best = min(costs.judge(ends) for ends in found)
    cuts = sorted(with_near(costs, found, best, keep), key=lambda ends: _rank(costs, ends))[:keep]
    excess = Fraction(best.excess) / unit
    return Answer(tuple(Cut(ends) for ends in cuts), best.device, best.chunk, excess, proved)


def _found(costs: Costs, clock: Clock) -> tuple[list[Ends], bool]:
    """Return the best cut and others, by the first method that has an answer; and whether the best one is proved."""
    if costs.stages == len(costs.question.capacity):
        return one_each(costs), True
    try:
        with under(clock.part(clock.left / 2)):
            found = cut_alike(costs)
    except TimeIsUp:
        found = None
    return (found, True) if found else search(costs, clock)


def _rank(costs: Costs, ends: Ends) -> tuple[int, int, int, list[int]]:
    """Return a number for how good a cut is among equals, the smaller the better."""
    chunks = costs.chunks(ends)
    works = [chunk.work for chunk in chunks]
    squares = sum(work**2 for work in costs.loads(chunks))
    return max(works), squares, sum(work**2 for work in works), [-end for end in ends]

"""Shapes: how the few unlike items at both ends of a list are cut, and which chunks have the equal ones between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, groupby, product
from typing import NamedTuple

from pipesched.estimation.cutting.costs import ChunkCosts, Ends

MANY = 1024  # shapes; with more the ends are too long for counting


class EqualRun(NamedTuple):
    """The items begin..end-1, of which any as many in a row cost the same."""

    begin: int
    end: int

    @property
    def items(self) -> int:
        """How many items these are."""
        return self.end - self.begin


class EndChunk(NamedTuple):
    """A chunk that has `count` equal items: all of its items, or beside those from `begin` on, or those up to `end`.

    With both `begin` and `end` it has just these and no equal ones.
    """

    begin: int | None = None
    end: int | None = None

    @property
    def least(self) -> int:
        """The fewest equal items."""
        return 1 if self.begin is None and self.end is None else 0

    @property
    def is_fixed(self) -> bool:
        """Whether it can have no equal items."""
        return self.begin is not None and self.end is not None

    def span(self, run: EqualRun, count: int) -> tuple[int, int]:
        """Return begin and end of a chunk that costs the same."""
        if self.begin is not None:
            return self.begin, run.begin + count if self.end is None else self.end
        if self.end is not None:
            return run.end - count, self.end
        return run.begin, run.begin + count


Shape = tuple[EndChunk, ...]  # what each chunk has


def equal_runs(costs: ChunkCosts) -> Iterator[EqualRun]:
    """Yield the runs of items that cost the same each."""
    for _, numbers in groupby(range(costs.items), key=lambda item: costs.at(item, item + 1)):
        items = [*numbers]
        yield EqualRun(items[0], items[-1] + 1)


def shapes_of(costs: ChunkCosts, run: EqualRun) -> Iterator[Shape]:
    """Yield all shapes in which no chunk has items of both ends; none if there are too many."""
    for first, last in cuts_of_ends(costs, run):
        between = costs.stages - len(first) - len(last)
        if 0 <= between <= run.items:
            yield (*first, *[EndChunk()] * between, *last)


def cuts_of_ends(costs: ChunkCosts, run: EqualRun) -> Iterator[tuple[Shape, Shape]]:
    """Yield the ways to cut the items before a run and those behind it; none if there are too many."""
    head, tail = run.begin, costs.items - run.end
    if max(head - 1, 0) + max(tail - 1, 0) < MANY.bit_length():
        yield from product(_heads(head), _tails(run.end, costs.items))


def spanning_cuts(costs: ChunkCosts, run: EqualRun) -> Iterator[Ends]:
    """Yield all cuts with a chunk that has items of both ends, and so all of the equal ones."""
    if run.begin and run.end < costs.items:
        points = (*range(1, run.begin), *range(run.end + 1, costs.items))
        for ends in combinations(points, costs.stages - 1):
            yield (*ends, costs.items)


def _heads(count: int) -> Iterator[Shape]:
    """Yield the ways to cut the items before the equal ones; the last of these chunks may have equal ones too."""
    if not count:
        yield ()
    for size in range(count):
        for points in combinations(range(1, count), size):
            begins = (0, *points)
            yield (*(EndChunk(*pair) for pair in zip(begins, points, strict=False)), EndChunk(begin=begins[-1]))


def _tails(begin: int, items: int) -> Iterator[Shape]:
    """Yield the ways to cut the items after the equal ones; the first of these chunks may have equal ones too."""
    if begin == items:
        yield ()
    for size in range(items - begin):
        for points in combinations(range(begin + 1, items), size):
            ends = (*points, items)
            yield (EndChunk(end=ends[0]), *(EndChunk(*pair) for pair in zip(points, ends[1:], strict=True)))

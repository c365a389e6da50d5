"""Shapes: how the few unlike items at both ends of a list are cut, and which chunks have the alike ones between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from pipesched.estimation.cutting.costs import Costs, Ends

MANY = 1024  # shapes; with more the ends are too long for counting


class Alike(NamedTuple):
    """The items begin..end-1, of which any as many in a row cost the same."""

    begin: int
    end: int


class Part(NamedTuple):
    """A chunk that has `count` alike items: all of its items, or beside those from `begin` on, or those up to `end`.

    With both `begin` and `end` it has just these and no alike ones.
    """

    begin: int | None = None
    end: int | None = None

    @property
    def least(self) -> int:
        """The fewest alike items."""
        return 1 if self.begin is None and self.end is None else 0

    @property
    def is_fixed(self) -> bool:
        """Whether it can have no alike items."""
        return self.begin is not None and self.end is not None

    def run(self, alike: Alike, count: int) -> tuple[int, int]:
        """Return begin and end of a chunk that costs the same."""
        if self.begin is not None:
            return self.begin, alike.begin + count if self.end is None else self.end
        if self.end is not None:
            return alike.end - count, self.end
        return alike.begin, alike.begin + count


Shape = tuple[Part, ...]  # a part for each chunk


def longest_run(costs: Costs) -> Alike:
    """Return the longest run of items that cost the same each."""
    begin, best = 0, Alike(0, 0)
    for item in range(costs.items):
        if costs.at(item, item + 1) != costs.at(begin, begin + 1):
            begin = item
        best = max(best, Alike(begin, item + 1), key=lambda run: run.end - run.begin)
    return best


def shapes_of(costs: Costs, alike: Alike) -> Iterator[Shape]:
    """Yield all shapes in which no chunk has items of both ends; none if there are too many."""
    head, tail = alike.begin, costs.items - alike.end
    if max(head - 1, 0) + max(tail - 1, 0) >= MANY.bit_length():
        return
    for first, last in product(_heads(head), _tails(alike.end, costs.items)):
        between = costs.stages - len(first) - len(last)
        if 0 <= between <= alike.end - alike.begin:
            yield (*first, *[Part()] * between, *last)


def spanning_cuts(costs: Costs, alike: Alike) -> Iterator[Ends]:
    """Yield all cuts with a chunk that has items of both ends, and so all of the alike ones."""
    if alike.begin and alike.end < costs.items:
        points = (*range(1, alike.begin), *range(alike.end + 1, costs.items))
        for ends in combinations(points, costs.stages - 1):
            yield (*ends, costs.items)


def _heads(count: int) -> Iterator[Shape]:
    """Yield the ways to cut the items before the alike ones; the last of these chunks may have alike ones too."""
    if not count:
        yield ()
    for size in range(count):
        for points in combinations(range(1, count), size):
            begins = (0, *points)
            yield (*(Part(*pair) for pair in zip(begins, points, strict=False)), Part(begin=begins[-1]))


def _tails(begin: int, items: int) -> Iterator[Shape]:
    """Yield the ways to cut the items after the alike ones; the first of these chunks may have alike ones too."""
    if begin == items:
        yield ()
    for size in range(items - begin):
        for points in combinations(range(begin + 1, items), size):
            ends = (*points, items)
            yield (Part(end=ends[0]), *(Part(*pair) for pair in zip(points, ends[1:], strict=True)))

"""The best of all packings and orders, where there are few: every order of every set that a rank may get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

import numpy as np

from pipesched.comparing.packing.baselines import Assignment
from pipesched.comparing.packing.timing import RankTimes, Timed
from pipesched.results.document_costs import DocumentLoad

MOST = 100_000  # ways to put every document into some microbatch of some rank
Sets = tuple[int, ...]  # of documents, bit d for document d: the microbatches of a rank as they are fed, say


class Best(NamedTuple):
    """The order in which a rank takes least for a set of documents, and what it takes."""

    takes: int
    order: Sets


def are_few(documents: int, ranks: int, microbatches: int) -> bool:
    """Return whether all packings are tried."""
    bins = ranks * microbatches
    return bins == 1 or (bins <= documents < MOST.bit_length() and bins**documents <= MOST)


def best_of_all(lengths: Sequence[int], ranks: int, microbatches: int, cap: int, times: RankTimes) -> list[Assignment]:
    """Return the packing of the shortest slowest rank, of equals that of the least sum, of those within the budget.

    If none is, it is that of all; none where no packing is within the cap and can be scheduled.
    """
    every = (1 << len(lengths)) - 1
    orders = [*_orders(lengths, ranks, microbatches, cap)] if ranks * microbatches > 1 else [(every,)]
    loads = _loads(lengths, orders)
    timed = times.of([tuple(loads[part] for part in order) for order in orders])
    scale = lcm(*(one.makespan.denominator for one in timed if one is not None))
    for needs_fit in (True, False):
        best = _best_by_set(orders, timed, scale, needs_fit)
        found = _Partition(best, ranks, microbatches).least(every)
        if found is not None:
            return [[[_members(part) for part in best[used].order] for used in found]]
    return []


def _orders(lengths: Sequence[int], ranks: int, microbatches: int, cap: int) -> Iterator[Sets]:
    """Yield the orders of microbatches that a rank may have: none empty, and none above the cap."""
    elsewhere = int(ranks > 1)  # then the digit 0 of a document says that another rank has it
    base = microbatches + elsewhere
    codes = np.arange(base ** len(lengths))
    parts = np.zeros((microbatches, len(codes)), dtype=np.int64)
    used = np.zeros_like(parts)
    for document, length in enumerate(lengths):
        digits = codes // base**document % base
        for number in range(microbatches):
            has_it = digits == number + elsewhere
            parts[number] += has_it * (1 << document)
            used[number] += has_it * min(length, cap + 1)
    legal = ((parts > 0) & (used <= cap)).all(axis=0)
    return map(tuple, parts[:, legal].T.tolist())


def _loads(lengths: Sequence[int], orders: Sequence[Sets]) -> dict[int, DocumentLoad]:
    """Return the load of each set that occurs as a microbatch."""
    loads = {}
    for part in {part for order in orders for part in order}:
        own = [lengths[document] for document in _members(part)]
        loads[part] = DocumentLoad(sum(own), sum(length * length for length in own))
    return loads


def _members(part: int) -> list[int]:
    return [document for document in range(part.bit_length()) if part >> document & 1]


def _best_by_set(orders: Sequence[Sets], timed: Sequence[Timed | None], scale: int, needs_fit: bool) -> dict[int, Best]:
    """Return the best order for each set of documents that a rank may have, in 1/scale units of time."""
    best: dict[int, Best] = {}
    for order, one in zip(orders, timed, strict=True):
        if one is not None and (one.fits or not needs_fit):
            takes, used = int(one.makespan * scale), sum(order)
            if used not in best or takes < best[used].takes:
                best[used] = Best(takes, order)
    return best


class _Partition:
    """The search for the sets of all ranks, the one with the longest document left first."""

    def __init__(self, best: Mapping[int, Best], ranks: int, microbatches: int) -> None:
        self._best, self._ranks, self._microbatches = best, ranks, microbatches
        self._least: tuple[int, int] | None = None
        self._found: Sets | None = None

    def least(self, every: int) -> Sets | None:
        """Return the sets of the least slowest rank, of equals of the least sum; None where there are none."""
        self._share_out(every, (), 0, 0)
        return self._found

    def _share_out(self, rest: int, taken: Sets, slowest: int, total: int) -> None:
        if self._least is not None and (slowest, total) >= self._least:
            return
        left = self._ranks - len(taken)
        if not left:
            if not rest:
                self._least, self._found = (slowest, total), taken
            return
        first = rest & -rest
        others = part = rest ^ first
        while True:
            used = first | part if left > 1 else rest
            if first and used in self._best and (rest ^ used).bit_count() >= (left - 1) * self._microbatches:
                takes = self._best[used].takes
                self._share_out(rest ^ used, (*taken, used), max(slowest, takes), total + takes)
            if not part or left == 1:
                return
            part = (part - 1) & others

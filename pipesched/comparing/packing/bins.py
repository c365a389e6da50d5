"""Documents in microbatches: what each holds (`Bins`), the work it aims at (`targets`), and `other_packings`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from math import fsum
from operator import itemgetter
from typing import Any, NamedTuple

from pipesched.comparing.packing.timing import Positions, first_fit
from pipesched.core.arrays import Ints, np

Taking = Callable[[Ints, Ints], Ints]  # works and sizes, a row a microbatch and a column a case: what each takes
PACE, SLOWER = 0.25, 0.15  # the first step, and by how much later ones are shorter
RECENT = 0.2  # how much the last works count in the mean of all, which swings less
STEEPEST = 2.0  # by which factor a step changes the work of a rank at most
LONG = 2.5  # times the mean work of a microbatch has a document of which the best place is asked
Assignment = list[list[list[int]]]  # the documents of each microbatch of each rank, in the order they are fed


class DocumentSizes(NamedTuple):
    """Of each document, from long to short: its work and its size in parts of a whole, and its tokens."""

    work: Ints
    size: Ints
    tokens: Ints


class Bins:
    """D x M bins, bin r x M + i the microbatch that rank r feeds as number i."""

    def __init__(
        self, documents: DocumentSizes, bins: Sequence[Sequence[int]], microbatches: int, cap: int, taking: Taking
    ):
        self.documents, self.microbatches, self.taking = documents, microbatches, taking
        self.bin_of = np.empty(len(documents.tokens), dtype=np.int64)
        for number, members in enumerate(bins):
            self.bin_of[list(members)] = number
        self.count = np.bincount(self.bin_of, minlength=len(bins))
        sums = np.zeros((len(documents), len(bins)), dtype=np.int64)
        for held, values in zip(sums, documents, strict=True):
            np.add.at(held, self.bin_of, values)
        self.held, self.room = sums[:-1], cap - sums[-1]
        self.work, self.size = self.held
        self.amounts = np.array(documents[:-1])  # works and sizes, a column a document
        self.takes = taking(*(column.reshape(-1, microbatches).T for column in self.held))

    @property
    def members(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.count]
        for document, number in enumerate(self.bin_of.tolist()):
            found[number].append(document)
        return found

    def of_rank(self, rank: int) -> slice:
        return slice(rank * self.microbatches, (rank + 1) * self.microbatches)

    def documents_of(self, rank: int) -> Ints:
        """Return the documents of a rank, from long to short."""
        return np.flatnonzero(self.bin_of // self.microbatches == rank)

    def taken(self, rank: int, *changes: tuple[Ints, Ints]) -> Ints:
        """Return what a rank takes in cases: in each, each change adds works and sizes to one of its microbatches."""
        count = len(changes[0][0])
        held = np.repeat(self.held[:, self.of_rank(rank), None], count, axis=2)
        for rows, amounts in changes:
            held[:, rows, np.arange(count)] += amounts
        return self.taking(*held)

    def put(self, document: int, target: int) -> None:
        for number, sign in ((self.bin_of[document], -1), (target, 1)):
            self.held[:, number] += sign * self.amounts[:, document]
            self.room[number] -= sign * self.documents.tokens[document]
            self.count[number] += sign
        self.bin_of[document] = target

    def exchange(self, first: int, second: int) -> None:
        """Let two bins exchange all that they hold."""
        in_first, in_second = self.bin_of == first, self.bin_of == second
        self.bin_of[in_first], self.bin_of[in_second] = second, first
        for held in (*self.held, self.room, self.count):
            held[[first, second]] = held[[second, first]]


@lru_cache(maxsize=16)
def shape_of(positions: Positions, work: int, rounds: int) -> tuple[Ints, Ints]:
    """Return the best works of the microbatches of one rank, and the places for a long document, the best first.

    It is in each place once, beside works that are the best around it.
    """
    count = positions.microbatches
    even = np.full((count, count + 1), work // count, dtype=np.int64)
    least = np.zeros_like(even)
    np.fill_diagonal(least, int(LONG * work / count))
    start = np.maximum(even, least)
    best, makespans = targets(positions, start, least, np.full(count + 1, work), rounds)
    ends = np.concatenate([makespans[:1], makespans[:-1], makespans[-2:-1]])
    middle = int((ends[:-2] + ends[1:-1] + ends[2:]).argmin())  # of places that are as good a neighbour decides
    return best[:, -1], np.argsort(np.abs(np.arange(count) - middle), kind="stable")


def targets(positions: Positions, start: Ints, least: Ints, work: int | Ints, rounds: int) -> tuple[Ints, Ints]:
    """Return the best works that were found, a row a microbatch and a column a rank, and their makespans.

    All columns together have `work`, or each has its own. Each work is at least its `least`, the longest document that
    it cannot be without.
    """
    together = isinstance(work, int)
    free = work - (least.sum() if together else least.sum(axis=0))
    rest = np.maximum(start - least, start // 1000 + 1).astype(np.float64)
    columns = start.shape[1]
    best = mean = start
    lowest = np.full(columns, np.iinfo(np.int64).max)
    for number in range(rounds):
        sums = np.array([fsum(column) for column in rest.T.tolist()])
        rest *= free / (fsum(sums) if together else sums)
        works = least + np.rint(rest).astype(np.int64)
        mean = works if not number else mean + np.rint((works - mean) * max(RECENT, 1 / (number + 1))).astype(np.int64)
        both = np.hstack([works, mean])
        makespans, slopes = positions.slopes(both, both if positions.has_lags else None)
        for tried, takes in ((works, makespans[:columns]), (mean, makespans[columns:])):
            better = np.full(columns, takes.max() < lowest.max()) if together else takes < lowest
            best, lowest = np.where(better, tried, best), np.where(better, takes, lowest)
        pace = PACE / (1 + SLOWER * number)
        rest *= _step(rest, slopes[:, :columns], makespans[:columns], pace, together=together)
    return best, lowest


def _step(rest: Ints, slopes: Ints, makespans: Ints, pace: float, *, together: bool) -> Ints:
    """Return the factors of a step, the same on every machine: within ranks from steep slopes, between to fast ones."""
    totals = np.array([fsum(column) for column in rest.T.tolist()])
    growth = np.maximum([fsum(column) for column in (rest * slopes).T.tolist()], 1.0)  # by all that is free
    length = np.maximum(makespans.astype(np.float64), 1.0)
    pulls = pace * np.minimum(1.0, growth / length) * (slopes * totals / growth - 1)
    within: Ints = np.where(pulls > 0, 1 / (1 + np.abs(pulls)), 1 + np.abs(pulls))
    if not together:
        return within
    common = fsum((totals * length / growth).tolist()) / fsum((totals / growth).tolist())
    between = 1 + (common - length) / growth
    factors: Ints = within * np.clip(between, 1 / STEEPEST, STEEPEST)
    return factors


def differencing(weights: Sequence[int], parts: int) -> list[list[int]]:
    """Return the positions of the weights in each of so many parts, the heaviest part first.

    The two partitions of the largest differences between their heaviest and lightest part become one, the heaviest
    part of the one with the lightest of the other, until one is left. Of equal differences the older is first. No part
    is empty where there are as many weights as parts.
    """
    rest = [(0, None)] * (parts - 1)
    heap: list[tuple[int, int, list[tuple[int, Any]]]] = [
        (-weight if parts > 1 else 0, number, [(weight, number), *rest]) for number, weight in enumerate(weights)
    ]
    heapify(heap)
    for number in range(len(weights), 2 * len(weights) - 1):
        joined = heappop(heap)[2]
        for part, (more, those) in enumerate(heap[0][2], 1):
            if those is None:
                break
            weight, these = joined[-part]  # members as trees: lists would be copied at every step
            joined[-part] = weight + more, those if these is None else (these, those)
        joined.sort(key=itemgetter(0), reverse=True)
        heapreplace(heap, (joined[-1][0] - joined[0][0], number, joined))
    return [_members(tree) for _, tree in heap[0][2]]


def _members(tree: Any) -> list[int]:
    found, left = [], [] if tree is None else [tree]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += node
        else:
            found.append(node)
    return sorted(found)


def other_packings(
    lengths: Sequence[int],
    ranks: int,
    microbatches: int,
    cap: int,
    reference: int,
    work: Callable[[list[int]], Fraction],
) -> list[tuple[str, Assignment, int]]:
    """Return what each rule makes of documents from long to short, and how many find no room.

    `work` says what a microbatch costs, by which verl orders them. Empty microbatches are left out.
    """
    bins, left = first_fit(tuple(lengths), ranks * microbatches, cap)
    shared = [[members for members in bins[rank::ranks] if members] for rank in range(ranks)]
    weights = [length * reference + length * length for length in lengths]
    differenced, ordered = Assignment(), Assignment()
    for part in differencing(weights, ranks):
        own = differencing([weights[document] for document in part], microbatches)
        differenced.append([[part[number] for number in members] for members in own if members])
        order = in_verl_order([work(members) for members in differenced[-1]])
        ordered.append([differenced[-1][number] for number in order])
    return [("first-fit", shared, len(left)), ("karmarkar-karp", differenced, 0), ("verl", ordered, 0)]


def in_verl_order(works: Sequence[Fraction]) -> list[int]:
    """Return microbatches by verl's rule: from large to small, by turns before and behind all others."""
    falling = sorted(range(len(works)), key=lambda number: (works[number], number), reverse=True)
    return [*falling[::2][::-1], *falling[1::2]]

"""A packing by aim and moves: bins are filled up to the work they would have at best, then documents move.

`searched` is the door. A bin is a microbatch of a rank, its aim the work with which ranks would be shortest if the
documents could be cut anywhere (`targets`). `fill` puts each document, from long to short, into the bin that lacks most
of its aim. `improve` then shortens the slowest rank: it gives a document away, shifts one to another of its own bins,
or trades two. `roam` exchanges at random, to leave where nothing improves. `judge` times the packings by the algorithm;
the best fits the budget and has the least makespan.

Meanwhile `Bins.takes` says of each rank how long its step takes, in rounded ticks: by the positions, the fixed orders
of slots of the algorithm's plan (`Positions`), with lags where slots wait for messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from itertools import accumulate, chain
from math import fsum
from random import Random
from typing import Any, NamedTuple

from pipesched.comparing.packing.bound import rates_of, sum_of
from pipesched.comparing.packing.timing import (
    Assignment,
    Filled,
    Positions,
    RankTimes,
    Timed,
    in_verl_order,
    none_empty,
    within,
)  # fmt: skip
from pipesched.core.arrays import Ints, column, kernels_of_bins, np
from pipesched.core.bin_kernels import PAIRS
from pipesched.core.clock import check_deadline
from pipesched.results.document_costs import Rate, load_of

FASTEST = 3  # ranks that are asked to take something
WHOLE = 1 << 32  # the work of all documents together, in the whole numbers of a search
ROUNDS_ALIKE, ROUNDS = 32, 32  # steps towards the best works of one rank, and then of all beside long documents
PACE, SLOWER = 0.25, 0.15  # the first step, and by how much later ones are shorter
RECENT = 0.2  # how much the last works count in the mean of all, which swings less
STEEPEST = 2.0  # by which factor a step changes the work of a rank at most
LONG = 2.5  # times the mean work of a microbatch has a document of which the best place is asked
STEPS, ROAMED = 32, 200  # moves of documents, and then rounds of exchanges at random
CAPS = 6  # smaller ones that are tried where a budget is not kept
FINE = 1 << 18  # parts of a capacity, and of the size of the document that costs are for


def searched(
    lengths: Sequence[int], ranks: int, microbatches: int, cap: int, times: RankTimes, starts: Sequence[Assignment]
) -> list[Assignment]:
    """Return packings of documents from long to short: the best that was found, or several that hold less at a time.

    `starts` are packings to begin from, beside the search's own.
    """
    search, cap = _PackingSearch(lengths, ranks, microbatches, times), min(cap, sum(lengths))
    found = [*search.best(cap, starts)]
    if times.base.memory.budget is None:
        return found
    low, high = max(lengths[0], -(-sum(lengths) // (ranks * microbatches))), cap
    for _ in range(CAPS if not any(one.fits for one in judge(found, lengths, times)) else 0):
        middle = (low + high) // 2
        tried = [*search.best(middle, ())]
        found += tried
        if not tried or judge(tried, lengths, times)[0].fits:
            low = middle
        else:
            high = middle
    return found


class _PackingSearch:
    """The search for documents from long to short: by the positions of the algorithm's plan of microbatches alike."""

    def __init__(self, lengths: Sequence[int], ranks: int, microbatches: int, times: RankTimes) -> None:
        self.lengths, self.ranks, self.microbatches, self.times = lengths, ranks, microbatches, times
        self.positions = times.positions(microbatches)
        self.sizes, self._one = self._scaled()
        works, self._places = shape_of(self.positions, WHOLE, ROUNDS_ALIKE)  # if documents could be cut anywhere
        alike = works.astype(np.float64)
        share = (alike * (int(self.sizes.work.sum()) / WHOLE / ranks)).astype(np.int64)
        self._alike = np.repeat(share[:, None], ranks, axis=1)

    def _scaled(self) -> tuple[DocumentSizes, int]:
        """Return works and sizes of the documents, WHOLE at most in all; and those of one of the reference length.

        Ticks of positions are for work 1 and size 1, both of that document: it has one number for both, so that times
        of work and of messages add up.
        """
        costs, fitted = self.times.costs, self.times.fitted(self.microbatches)
        amounts = [costs.amounts(length) for length in self.lengths]
        own = costs.amounts(costs.reference)
        rate = Rate(Fraction(1))
        if any(core for _, core in amounts):  # else the first amount is the work
            rates = rates_of(fitted, costs, self.positions.letters)
            rate = sum_of([*rates.forward, *rates.gradient, *rates.weights])
        linear, core = (int(part * rate.scale) for part in rate)
        works = [linear * tokens + core * squares for tokens, squares in amounts]
        one, tokens = linear * own[0] + core * own[1], sum(self.lengths)
        total = max(sum(works), one * tokens // costs.reference)
        if not self.positions.has_lags:  # then sizes only tell memory, and may have a scale of their own
            one, total = sum(works) * costs.reference // tokens, sum(works)
        work = [WHOLE * value // total for value in works]
        size = [WHOLE * one * length // (costs.reference * total) for length in self.lengths]
        return DocumentSizes(*map(np.array, (work, size, self.lengths))), max(WHOLE * one // total, 1)

    def best(self, cap: int, starts: Sequence[Assignment]) -> list[Assignment]:
        """Return the best packing found, from its own start and those given; none where there is none to start from."""
        filled = [*self._aimed(cap), *([*chain.from_iterable(start)] for start in starts)]
        made = [moves_of(self.sizes, one, cap, self.positions, self._budget) for one in filled]
        if not made:
            return []
        best = min(made, key=lambda moves: (max(moves.takes), sum(moves.takes)))
        improve(best, STEPS)
        roam(best, ROAMED)
        found: Assignment = [[[] for _ in range(self.microbatches)] for _ in range(self.ranks)]
        for document, number in enumerate(np.asarray(best.bin_of).tolist()):
            found[number // self.microbatches][number % self.microbatches].append(document)
        return [found if self.times.is_settled(self.microbatches) else self._ordered(found)]

    @cached_property
    def _budget(self) -> tuple[float, Ints]:
        """The levels are whole numbers, so small that their products are exact in floats."""
        fitted, levels = self.times.fitted(self.microbatches), [np.zeros((0, self.microbatches))]
        scale = Fraction(self.positions.grains_per_unit, fitted.grains.per_unit)  # grains may be others without it
        for device, capacity in enumerate(fitted.capacity_grains):
            if capacity is not None:
                part = FINE / max(capacity * scale, Fraction(1))
                levels.append(self.positions.levels_of_memory(device) * part.numerator // part.denominator)
        return FINE / self._one, np.unique(np.vstack(levels).astype(float), axis=0)

    def _aimed(self, cap: int) -> list[Filled]:
        """Return bins that are filled as if no document were long, and up to targets that make room for those."""
        filled = self._filled(self._alike, cap)
        if filled is None:
            return []
        first = np.array([members[0] for members in filled]).reshape(self.ranks, -1).T
        longest = self.sizes.work[first]
        least, work = np.where(longest > self._alike, longest, 0), int(self.sizes.work.sum())
        if not least.any() or least.sum() >= work:
            return [filled]
        moved = np.zeros_like(least)  # long documents in the best places for them in their ranks
        for rank, own in enumerate(least.T):
            long = np.sort(own[own > 0])[::-1]
            moved[self._places[: len(long)], rank] = long
        starts = [(own, self._start(own, work)) for own in (least, moved)]
        own, start = min(starts, key=lambda pair: int(self.positions.lasting(pair[1]).max()))
        aimed = self._filled(targets(self.positions, start, own, work, ROUNDS)[0], cap)
        return [filled] if aimed is None else [aimed, filled]

    def _start(self, least: Ints, work: int) -> Ints:
        """Return works to begin from: ranks of long documents have so much less of all else that they take the same."""
        alone, one = (self.positions.lasting(works) for works in (least, self._alike[:, :1]))
        rate = max(int(one[0]), 1) / self._alike[:, 0].sum()  # of a work shared out as if documents were short
        water = (work - int(least.sum())) * rate  # in vessels filled up to what is alone: the lowest ones share it
        level: float = min((water + full) / count for count, full in enumerate(accumulate(sorted(alone.tolist())), 1))
        rest = np.maximum(level - alone, level / 1000) / int(one[0] or 1)
        return least + (self._alike * rest).astype(np.int64)

    def _filled(self, aims: Ints, cap: int) -> Filled | None:
        """Return bins filled up to these works, and none empty; None where documents are found no room for."""
        works, goals = self.sizes.work.tolist(), aims.T.ravel()
        filled = fill(works, self.lengths, goals.tolist(), cap)
        if filled is None:
            found = within(self.lengths, len(goals), cap)
            if found is None:
                return None
            loads = sorted(range(len(found)), key=lambda number: -sum(works[document] for document in found[number]))
            places = np.argsort(-goals, kind="stable").tolist()  # the fullest where the aim is highest
            filled = [found[number] for _, number in sorted(zip(places, loads, strict=True))]
        return none_empty(filled)

    def _ordered(self, found: Assignment) -> Assignment:
        """Return the microbatches of each rank in the best of some orders, as the algorithm plans them."""
        made = []
        for members in found:
            loads = [load_of([self.lengths[document] for document in part]) for part in members]
            rising = sorted(range(len(members)), key=lambda n: (loads[n].tokens, n))
            works = [self.times.costs.work(load) for load in loads]
            orders = [[*range(len(members))], in_verl_order(works), rising, rising[::-1]]
            timed = self.times.of([tuple(loads[n] for n in order) for order in orders])
            known = {n: (not one.fits, one.makespan) for n, one in enumerate(timed) if one is not None}
            best = min(known, key=known.__getitem__, default=0)
            made.append([members[n] for n in orders[best]])
        return made


def fill(works: Sequence[int], tokens: Sequence[int], aims: Sequence[int], cap: int) -> Filled | None:
    """Return bins in which each document, from long to short, is in the one that then lacked most, of those with room.

    None where a document is found no room for.
    """
    lacking = [(-aim, number) for number, aim in enumerate(aims)]
    heapify(lacking)
    room, filled = [cap] * len(aims), [list[int]() for _ in aims]
    shortest = tokens[-1]
    for document, (work, size) in enumerate(zip(works, tokens, strict=True)):
        passed = []
        while lacking and room[lacking[0][1]] < size:
            passed.append(heappop(lacking))
        if not lacking:
            return None
        lack, number = lacking[0]
        filled[number].append(document)
        room[number] -= size
        heapreplace(lacking, (lack + work, number))
        for entry in passed:
            if room[entry[1]] >= shortest:
                heappush(lacking, entry)
    return filled


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
    it cannot be without. Each round times the works and their mean so far, and moves work to where it costs less time.
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


class DocumentSizes(NamedTuple):
    """Of each document, from long to short: its work and its size in parts of a whole, and its tokens."""

    work: Ints
    size: Ints
    tokens: Ints


def moves_of(documents: DocumentSizes, bins: Filled, cap: int, positions: Positions, budget: tuple[float, Ints]) -> Any:
    """Return what moves documents (`Moves`) in D x M bins: r x M + i is the microbatch that rank r feeds as number i.

    The budget is a scale, and what devices hold as slots start: a column a microbatch of size 1 / scale.
    """
    (kernels, give), bin_of = kernels_of_bins(), np.empty(len(documents.tokens), int)
    bin_of[[*chain.from_iterable(bins)]] = np.repeat(np.arange(len(bins)), [*map(len, bins)])
    nothing = np.zeros(len(bins) + 1, int)
    columns = [*map(give, (*documents, budget[1].ravel(), bin_of, nothing + cap))]
    rows = positions.rows(nothing, nothing.copy())
    return kernels.Moves(rows, budget[0], check_deadline, lambda size: give(np.zeros(size, int)), columns)


def improve(moves: Any, steps: int) -> None:
    """Make moves that shorten the slowest rank, at most so many, each the best of some of its kind."""
    for _ in range(steps):
        takes = np.asarray(moves.takes).tolist()
        slow = takes.index(max(takes))
        fast = [rank for rank in sorted(range(len(takes)), key=takes.__getitem__)[:FASTEST] if rank != slow]
        if not (
            moves.give(slow, kernels_of_bins()[1](column(fast)))
            or moves.rearrange(slow)
            or any(moves.trade(slow, rank) for rank in [slow, *fast])
        ):
            return


def roam(moves: Any, rounds: int) -> None:
    """Exchange documents of the slowest rank and any one; then documents are in the best bins that came by.

    Of each round's pairs, drawn at random, the best is taken also where it makes a rank a little longer than the
    slowest: by ever less (Threshold accepting, Dueck and Scheuer 1990).
    """
    moves.roam(*map(kernels_of_bins()[1], draws_of(len(moves.takes), rounds)))


@lru_cache(maxsize=16)
def draws_of(ranks: int, rounds: int) -> tuple[Ints, Ints]:
    """Return a rank for each round, and a number from 0 to 1 for each document of its pairs."""
    random = Random(0)
    drawn = [(random.randrange(ranks), [random.random() for _ in range(2 * PAIRS)]) for _ in range(rounds)]
    return np.array([rank for rank, _ in drawn]), np.array([each for _, each in drawn]).ravel()


class Judged(NamedTuple):
    """A packing, and what its ranks take: None where some rank has no schedule."""

    assignment: Assignment
    ranks: Sequence[Timed] | None

    @property
    def fits(self) -> bool:
        """Whether every rank has a schedule within the budget."""
        return self.ranks is not None and all(rank.fits for rank in self.ranks)

    @property
    def makespan(self) -> Fraction | None:
        return None if self.ranks is None else max(rank.makespan for rank in self.ranks)

    @property
    def key(self) -> tuple[bool, bool, Fraction, Fraction]:
        """What says which packing is better: less is."""
        makespans = [rank.makespan for rank in self.ranks or ()]
        return self.ranks is None, not self.fits, max(makespans, default=Fraction(0)), sum(makespans, Fraction(0))


def judge(assignments: Sequence[Assignment], lengths: Sequence[int], times: RankTimes) -> list[Judged]:
    """Return the packings of documents of these lengths with the times of their ranks."""
    ranks = [
        [tuple(load_of([lengths[document] for document in members]) for members in rank) for rank in assignment]
        for assignment in assignments
    ]
    times.of([*chain.from_iterable(ranks)])  # all at once
    judged = []
    for assignment, own in zip(assignments, map(times.of, ranks), strict=True):
        known = [one for one in own if one is not None]
        judged.append(Judged(assignment, known if len(known) == len(own) else None))
    return judged

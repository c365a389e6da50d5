"""A packing by aim and moves: bins are filled up to the work they would have at best, then documents move.

`searched` is the door. A bin is a microbatch of a rank. `fill` puts each document, from long to short, into the bin
that lacks most of its aim. `improve` then shortens the slowest rank: it gives a document away, shifts one to another
of its own bins, or trades two. `roam` exchanges at random, to leave where nothing improves. `judge` times the packings
by the algorithm; the best fits the budget and has the least makespan.

Meanwhile `Bins.takes` says of each rank how long its step takes, in rounded ticks: by the positions, the fixed orders
of slots of the algorithm's plan (`Positions`), with lags where slots wait for messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from random import Random
from typing import NamedTuple

from pipesched.comparing.packing.bins import Assignment, Bins, DocumentSizes, in_verl_order, shape_of, targets
from pipesched.comparing.packing.bound import rates_of, sum_of
from pipesched.comparing.packing.timing import Filled, RankTimes, Timed, none_empty, positions_of, within
from pipesched.core.arrays import Ints, np
from pipesched.results.document_costs import Rate, load_of

FASTEST = 3  # ranks that are asked to take something
MOST_GIVEN = 500  # documents of the slowest rank that may leave it
WHOLE = 1 << 32  # the work of all documents together, in the whole numbers of a search
ROUNDS_ALIKE, ROUNDS = 32, 32  # steps towards the best works of one rank, and then of all beside long documents
STEPS, CASES = 32, 240  # moves of documents, and the cases that are looked at for one
ROAMED, PAIRS = 200, 32  # rounds of exchanges at random, and the pairs that are looked at for one
LONGER = 500  # a part of the makespan: so much longer a rank may get in the first of them
CAPS = 6  # smaller ones that are tried where a budget is not kept
OVER = 1 << 59  # what a rank takes more at least where it is over its budget: more than any rank takes
MOST_OVER = 4  # times that
FINE = 1 << 18  # parts of a capacity, and of the size of the document that costs are for


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
        """The makespan of the slowest rank."""
        return None if self.ranks is None else max(rank.makespan for rank in self.ranks)

    @property
    def key(self) -> tuple[bool, bool, Fraction, Fraction]:
        """What says which packing is better: less is."""
        if self.ranks is None:
            return True, True, Fraction(0), Fraction(0)
        makespans = [rank.makespan for rank in self.ranks]
        return False, not self.fits, max(makespans), sum(makespans, Fraction(0))


def judge(assignments: Sequence[Assignment], lengths: Sequence[int], times: RankTimes) -> list[Judged]:
    """Return the packings of documents of these lengths with the times of their ranks."""
    ranks = [
        [tuple(load_of([lengths[document] for document in members]) for members in rank) for rank in assignment]
        for assignment in assignments
    ]
    timed = dict(zip((r for each in ranks for r in each), times.of([r for each in ranks for r in each]), strict=True))
    judged = []
    for assignment, each in zip(assignments, ranks, strict=True):
        own = [timed[rank] for rank in each]
        known = [one for one in own if one is not None]
        judged.append(Judged(assignment, known if len(known) == len(own) else None))
    return judged


def improve(bins: Bins, steps: int, most: int) -> None:
    """Make moves that shorten the slowest rank, at most so many, each the best of at most `most` of its kind."""
    for _ in range(steps):
        slowest = int(bins.takes.argmax())
        fast = [rank for rank in np.argsort(bins.takes, kind="stable")[:FASTEST].tolist() if rank != slowest]
        if not (
            _give(bins, slowest, fast, most)
            or _shift(bins, slowest, most)
            or any(_trade(bins, slowest, rank, most) for rank in [slowest, *fast])
        ):
            return


def _give(bins: Bins, slow: int, fast: Sequence[int], most: int) -> bool:
    """Move a document from a slow rank to the first of the fast ones where that makes the slower of both shorter."""
    given = bins.documents_of(slow)
    given = _some(given[bins.count[bins.bin_of[given]] > 1], MOST_GIVEN)
    m, left = bins.microbatches, bins.taken(slow, (bins.bin_of[given] % bins.microbatches, -bins.amounts[:, given]))
    helps = left < bins.takes[slow]
    given, left = given[helps], left[helps]  # and what the slow rank takes without each
    for rank in fast if len(given) else ():
        middle = (bins.takes[slow] + bins.takes[rank]) // 2
        near = np.argsort(np.abs(left - middle), kind="stable")[: max(most // m, 1)]
        chosen, target = np.repeat(near, m), np.tile(np.arange(m), len(near))
        has_room = bins.room[rank * m + target] >= bins.documents.tokens[given[chosen]]
        chosen, target = chosen[has_room], target[has_room]
        if not len(chosen):
            continue
        taken = bins.taken(rank, (target, bins.amounts[:, given[chosen]]))
        best = _best(left[chosen], taken)
        if max(left[chosen[best]], taken[best]) < bins.takes[slow]:
            bins.put(int(given[chosen[best]]), int(rank * m + target[best]))
            bins.takes[slow], bins.takes[rank] = left[chosen[best]], taken[best]
            return True
    return False


def _some(documents: Ints, most: int) -> Ints:
    """Return at most so many of the documents, from the longest to the shortest in even steps."""
    if len(documents) <= most:
        return documents
    return documents[np.arange(most) * (len(documents) - 1) // max(most - 1, 1)]


def _best(first: Ints, second: Ints) -> int:
    """Return the case in which the larger of two numbers is least, of equals that of the least sum."""
    return int(np.lexsort((first + second, np.maximum(first, second)))[0])


def _trade(bins: Bins, slow: int, other: int, most: int) -> bool:
    """Exchange a document of a slow rank for a shorter one, also its own, if that makes the slower of both shorter."""
    work = bins.documents.work
    given, got = (_some(bins.documents_of(rank), most) for rank in (slow, other))
    i, j = (pair.ravel() for pair in np.meshgrid(given, got, indexing="ij"))
    is_less = work[i] > work[j]
    i, j = i[is_less], j[is_less]
    part = bins.takes[slow] - bins.takes[other]
    share = bins.work[bins.of_rank(slow)].sum() * (part / (2 * max(int(bins.takes[slow]), 1)))
    near = np.argsort(np.abs(work[i] - work[j] - share), kind="stable")
    return _exchange(bins, i[near], j[near], most, int(bins.takes[slow]))


def _exchange(bins: Bins, i: Ints, j: Ints, most: int, below: int) -> bool:
    """Exchange the best of the first pairs of documents, of two ranks or of one, if these then take less than that."""
    m, tokens = bins.microbatches, bins.documents.tokens
    source, target = bins.bin_of[i], bins.bin_of[j]
    more = tokens[i] - tokens[j]
    fits = np.flatnonzero((source != target) & (bins.room[target] >= more) & (bins.room[source] >= -more))[:most]
    if not len(fits):
        return False
    i, j, source, target = i[fits], j[fits], source[fits], target[fits]
    ranks = (int(source[0]) // m, int(target[0]) // m)
    less = bins.amounts[:, i] - bins.amounts[:, j]
    given, got = (source % m, -less), (target % m, less)
    changes = [(ranks[0], (given, got))] if ranks[0] == ranks[1] else [(ranks[0], (given,)), (ranks[1], (got,))]
    takes = {rank: bins.taken(rank, *own) for rank, own in changes}
    best = _best(takes[ranks[0]], takes[ranks[1]])
    if max(taken[best] for taken in takes.values()) >= below:
        return False
    bins.put(int(i[best]), int(target[best]))
    bins.put(int(j[best]), int(source[best]))
    for rank, taken in takes.items():
        bins.takes[rank] = taken[best]
    return True


def roam(bins: Bins, rounds: int, most: int) -> None:
    """Exchange documents of the slowest rank and any one; then `members` are the best that came by, and no more is.

    Of each round's pairs, drawn at random, the best is taken also where it makes a rank a little longer than the
    slowest: by ever less (Threshold accepting, Dueck and Scheuer 1990). What bins hold and take is of the last round.
    """
    random, least, kept = Random(0), int(bins.takes.max()), bins.bin_of.copy()
    for left in range(rounds, 0, -1):
        slowest = int(bins.takes.argmax())
        ranks = (bins.documents_of(rank) for rank in (slowest, random.randrange(len(bins.takes))))
        i, j = (documents[random.choices(range(len(documents)), k=most)] for documents in ranks)
        _exchange(bins, i, j, most, int(bins.takes[slowest]) + 1 + least * left // (LONGER * rounds))
        if (longest := int(bins.takes.max())) < least:
            least, kept = longest, bins.bin_of.copy()
    bins.bin_of = kept


def _shift(bins: Bins, rank: int, most: int) -> bool:
    """Move a document to another microbatch of its rank, or exchange two microbatches, if that makes it shorter."""
    m, held = bins.microbatches, bins.held[:, bins.of_rank(rank)]
    moved = bins.documents_of(rank)
    moved = _some(moved[bins.count[bins.bin_of[moved]] > 1], max(most // m, 1))
    chosen, target = np.repeat(moved, m), np.tile(np.arange(m), len(moved))
    source = bins.bin_of[chosen] % m
    fits = (target != source) & (bins.room[rank * m + target] >= bins.documents.tokens[chosen])
    chosen, target, source = chosen[fits], target[fits], source[fits]
    first, second = np.triu_indices(m, 1)
    count, more = len(chosen), np.hstack([bins.amounts[:, chosen], held[:, first] - held[:, second]])
    takes = bins.taken(rank, (np.hstack([source, first]), -more), (np.hstack([target, second]), more))
    if not len(takes) or takes.min() >= bins.takes[rank]:
        return False
    best = int(takes.argmin())
    if best < count:
        bins.put(int(chosen[best]), int(rank * m + target[best]))
    else:
        bins.exchange(int(rank * m + first[best - count]), int(rank * m + second[best - count]))
    bins.takes[rank] = takes[best]
    return True


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
        self.problem = times.without_budget(microbatches)
        self.positions = positions_of(self.problem, times.algorithm)
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
        made = [Bins(self.sizes, one, self.microbatches, cap, self._taking) for one in filled]
        if not made:
            return []
        best = min(made, key=lambda bins: (int(bins.takes.max()), sum(bins.takes.tolist())))
        improve(best, STEPS, CASES)
        roam(best, ROAMED, PAIRS)
        members = best.members
        found = [members[n : n + self.microbatches] for n in range(0, len(members), self.microbatches)]
        return [found if self.times.is_settled(self.microbatches) else self._ordered(found)]

    def _taking(self, works: Ints, sizes: Ints) -> Ints:
        """Return what ranks take, a column each, and OVER and more where they hold more than they may."""
        takes = self.positions.lasting(works, sizes if self.positions.has_lags else None)
        if self._held is not None:
            held = (self._held @ np.floor(sizes * (FINE / self._one))).max(axis=0)  # FINE * FINE: all of a capacity
            over = np.clip(held / (FINE * FINE) - 1, 0, MOST_OVER)
            takes = takes + np.where(over > 0, OVER + (over * (OVER // MOST_OVER)).astype(np.int64), 0)
        return takes

    @cached_property
    def _held(self) -> Ints | None:
        """What devices with a budget hold as slots start, a column a microbatch of size 1; FINE: all of a capacity.

        These are whole numbers, so small that their products are exact in floats.
        """
        limits = self.times.limits(self.positions)
        if not limits:
            return None
        parts = [(levels, FINE / max(capacity, Fraction(1))) for levels, capacity in limits]
        return np.vstack([levels * part.numerator // part.denominator for levels, part in parts]).astype(np.float64)

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
        for rank, column in enumerate(least.T):
            long = np.sort(column[column > 0])[::-1]
            moved[self._places[: len(long)], rank] = long
        starts = [(own, self._start(own, work)) for own in (least, moved)]
        own, start = min(starts, key=lambda pair: int(self.positions.lasting(pair[1]).max()))
        aimed = self._filled(targets(self.positions, start, own, work, ROUNDS)[0], cap)
        return [filled] if aimed is None else [aimed, filled]

    def _start(self, least: Ints, work: int) -> Ints:
        """Return works to begin from: ranks of long documents have so much less of all else that they take the same."""
        alone, one = (self.positions.lasting(works) for works in (least, self._alike[:, :1]))
        rate = max(int(one[0]), 1) / self._alike[:, 0].sum()  # of a work shared out as if documents were short
        level = 0.0  # of so much water, in vessels filled up to what is alone
        amount: float = (work - int(least.sum())) * rate
        heights: list[int] = sorted(alone.tolist())
        for count, height in enumerate(heights):
            if count and (height - level) * count >= amount:
                break
            amount -= (height - level) * count
            level = float(height)
        else:
            count = len(alone)
        level += amount / count
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

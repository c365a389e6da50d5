"""A packing by aim and moves: bins are filled up to the work they would have at best, then documents move."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain

from pipesched.comparing.packing.baselines import Assignment, in_verl_order
from pipesched.comparing.packing.bins import Bins, DocumentSizes
from pipesched.comparing.packing.bound import rates_of, sum_of
from pipesched.comparing.packing.feasible import Filled, none_empty, within
from pipesched.comparing.packing.judging import judge
from pipesched.comparing.packing.moves import improve
from pipesched.comparing.packing.targets import RankShape, shape_of, targets
from pipesched.comparing.packing.timing import RankTimes, Timed, positions_of
from pipesched.core.arrays import Ints, np
from pipesched.pipeline.problem import Problem
from pipesched.results.document_costs import Rate, load_of

WHOLE = 1 << 32  # the work of all documents together, in the whole numbers of a search
ROUNDS_ALIKE, ROUNDS = 32, 32  # steps towards the best works of one rank, and then of all beside long documents
STEPS, CASES = 32, 240  # moves of documents, and the cases that are looked at for one
CAPS = 6  # smaller ones that are tried where a budget is not kept
OVER = 1 << 59  # what a rank takes more at least where it is over its budget: more than any rank takes
MOST_OVER = 4  # times that
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
        self.problem = times.without_budget(microbatches)
        self.positions = positions_of(self.problem, times.algorithm)
        self.sizes, self._one = self._scaled()
        self._shape = _shape(self.problem, times.algorithm)
        alike = self._shape.works.astype(np.float64)
        share = (alike * (int(self.sizes.work.sum()) / WHOLE / ranks)).astype(np.int64)
        self._alike = np.repeat(share[:, None], ranks, axis=1)

    def _scaled(self) -> tuple[DocumentSizes, int]:
        """Return works and sizes of the documents, of each in all WHOLE at most; and the size of a document of 1."""
        costs, fitted = self.times.costs, self.times.fitted(self.microbatches)
        amounts = [costs.amounts(length) for length in self.lengths]
        own = costs.amounts(costs.reference)
        rate = Rate(Fraction(1))
        if any(core for _, core in amounts):  # else the first amount is the work
            rates = rates_of(fitted, costs, self.positions.letters)
            rate = sum_of([*rates.forward, *rates.gradient, *rates.weights])
        linear, core = (int(part * rate.unit) for part in rate)
        works = [linear * tokens + core * squares for tokens, squares in amounts]
        one, tokens = linear * own[0] + core * own[1], sum(self.lengths)
        total = max(sum(works), one * tokens // costs.reference)
        if not self.positions.has_lags:  # sizes stand for memory alone, in a scale of their own
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
        members = best.members
        found = [members[n : n + self.microbatches] for n in range(0, len(members), self.microbatches)]
        return [found if self.times.is_settled else self._ordered(found)]

    def _taking(self, works: Ints, sizes: Ints) -> Ints:
        """Return what ranks take, a column each, and OVER and more where they hold more than they may."""
        takes = self.positions.makespans(works, sizes if self.positions.has_lags else None)
        if self._held is not None:
            held = (self._held @ np.floor(sizes * (FINE / self._one))).max(axis=0)
            over = np.clip(held / (FINE * FINE) - 1, 0, MOST_OVER)
            takes = takes + np.where(over > 0, OVER + (over * (OVER // MOST_OVER)).astype(np.int64), 0)
        return takes

    @cached_property
    def _held(self) -> Ints | None:
        """What devices with a budget hold as slots start, in parts of their capacities, a column a microbatch.

        Parts and sizes are whole numbers small enough for floats to be exact: in any order of sums.
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
        starts = [(own, self._start(own, work)) for own in (least, self._side_by_side(least))]
        own, start = min(starts, key=lambda pair: int(self.positions.makespans(pair[1]).max()))
        aimed = self._filled(targets(self.positions, start, own, work, ROUNDS), cap)
        return [filled] if aimed is None else [aimed, filled]

    def _side_by_side(self, least: Ints) -> Ints:
        """Return long documents in the best places for them in their ranks."""
        moved = np.zeros_like(least)
        for rank, column in enumerate(least.T):
            long = np.sort(column[column > 0])[::-1]
            moved[self._shape.places[: len(long)], rank] = long
        return moved

    def _start(self, least: Ints, work: int) -> Ints:
        """Return works to begin from: ranks of long documents have so much less of all else that they take the same."""
        alone, one = (self.positions.makespans(works) for works in (least, self._alike[:, :1]))
        rate = max(int(one[0]), 1) / self._alike[:, 0].sum()  # of a work shared out as if documents were short
        level = _level(alone.tolist(), (work - int(least.sum())) * rate)
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
            filled = _matched(found, works, goals)
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
            best = min(range(len(orders)), key=lambda n: _preference(timed[n]))
            made.append([members[n] for n in orders[best]])
        return made


def _preference(timed: Timed | None) -> tuple[bool, bool, Fraction]:
    return (True, True, Fraction(0)) if timed is None else (False, not timed.fits, timed.makespan)


@lru_cache(maxsize=16)
def _shape(problem: Problem, algorithm: str) -> RankShape:
    """Return the best works of the microbatches of one rank, in all WHOLE, if documents could be cut anywhere."""
    return shape_of(positions_of(problem, algorithm), WHOLE, ROUNDS_ALIKE)


def _level(heights: Sequence[int], amount: float) -> float:
    """Return up to where so much water stands, in vessels that are filled to these heights already."""
    level = 0.0
    for count, height in enumerate(sorted(heights)):
        if count and (height - level) * count >= amount:
            break
        amount -= (height - level) * count
        level = float(height)
    else:
        count = len(heights)
    return level + amount / count


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


def _matched(found: Filled, works: Sequence[int], aims: Ints) -> Filled:
    """Return these bins in the places of the aims, the fullest where the aim is highest."""
    loads = sorted(range(len(found)), key=lambda number: -sum(works[document] for document in found[number]))
    places = np.argsort(-aims, kind="stable").tolist()
    filled: Filled = [[] for _ in found]
    for place, number in zip(places, loads, strict=True):
        filled[place] = found[number]
    return filled

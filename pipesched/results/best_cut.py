"""The cut of layers into stages that takes least time under an algorithm: all cuts are tried, or a counted search.

`run` calls `best_cut`: under one order of the plan (`_Cuts.ranked`), or with plans made anew (`_planned`). A cut is its
`Ends`. `_searched` goes down from the cuts of `_begun`, by moves of a layer; `CutTimes` times many cuts at once.

Of cuts within the budget the one of least makespan is the best. Of equals it is the one whose fullest device holds
least, less its budget; then the least sum of squares of counts; then the lexicographically largest layout. Counts of
replays alone end a search, so its answer is the same on every machine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, combinations, pairwise
from math import comb
from operator import sub
from typing import Any

from pipesched.core.arrays import Ints, np
from pipesched.errors import InvalidSchedule, NoSchedule
from pipesched.pipeline.layers.cutting import CutTask, least_cut
from pipesched.pipeline.layers.layers import BEST, equal_layout
from pipesched.pipeline.layers.recut import all_cuts, cut_at, ends_of, items_of, layers_before, layout_of, seeks_best
from pipesched.pipeline.plan.plan import Plan, mismatch
from pipesched.pipeline.plan.schedule import Schedule, timed_plan
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import grains_per_unit
from pipesched.results.outcome import CutChoice
from pipesched.schedulers.cut_times import CutTimes

MOST_TRIED = 4_000_000  # operations of all cuts: of more a search tries some
MOST_SEARCHED = 16_000_000  # operations that a search replays
PLANNED, LEAST_PLANNED = 17, 5  # cuts that are planned anew, where an order follows from costs
MOST_PLANNED = 100_000  # operations in all their plans
REPLAYED = 30  # operations of cuts that are replayed while one is scheduled
BATCH = 32  # neighbours that are timed together
MOST_PAIRS = 48  # single moves of which pairs are tried
DESCENTS = 3  # starts from which a search goes down

Ends = tuple[int, ...]  # the item behind each stage


class _Cuts:
    """The cuts of a problem, and what those take that were timed: by how much they exceed the budget, and how long."""

    def __init__(self, times: CutTimes, own: Ends | None = None, smallest: Ends | None = None) -> None:
        self.times, self.smallest, problem = times, smallest, times.problem
        self.stages = problem.stages
        self.is_limited, self.before = problem.memory.budget is not None, np.array(layers_before(problem))
        self.own, self.items = own or ends_of(problem), len(self.before) - 1
        self.known: dict[Ends, tuple[int, int]] = {}  # by how much it exceeds the budget (-1: not looked at), makespan
        self._scales = times.per_unit, times.grains

    @property
    def all(self) -> int:
        return comb(self.items - 1, self.stages - 1)

    def time(self, cuts: Ints, below: int | None = None) -> tuple[Ints, Ints]:
        """Return by how much each cut exceeds the budget (-1: its makespan is not `below`), and its makespan."""
        scale = self.times.per_unit
        makespans = self.times.makespans(cuts)
        over = makespans * 0
        if self.is_limited:
            below = below and below * (self.times.per_unit // scale)  # which may have grown
            some = np.flatnonzero(makespans < below) if below is not None else np.arange(len(cuts))
            over[:] = -1
            if len(some):
                over[some] = np.maximum(self.times.held(cuts[some]).max(axis=0), 0)
        return over, makespans

    def learn(self, cuts: Ints, below: int | None = None) -> list[tuple[int, int]]:
        """Return of each cut the pair (over, makespan) that `time` gives; what is known is not timed again."""
        rows = [*map(tuple, cuts.tolist())]
        if new := [*dict.fromkeys(row for row in rows if not self._is_known(row, below))]:
            found = self.time(np.array(new), below)
            self.rescale()
            self.known.update(zip(new, zip(*(column.tolist() for column in found), strict=True), strict=True))
        return [self.known[row] for row in rows]

    def _is_known(self, row: Ends, below: int | None) -> bool:
        """Return whether a cut need not be timed again: its memory is known, or its makespan is not `below`."""
        over, makespan = self.known.get(row, (-1, 0))
        return over >= 0 or (row in self.known and below is not None and makespan >= below)

    def rescale(self) -> None:
        """Bring what is known to the scales of the times, which may have grown."""
        scales = self.times.per_unit, self.times.grains
        if scales != self._scales:
            by = [new // old for new, old in zip(scales, self._scales, strict=True)]
            self.known = {ends: (over * by[1], time * by[0]) for ends, (over, time) in self.known.items()}
            self._scales = scales

    def best(self, cuts: Ints) -> Ends:
        """Return the best of cuts of the same makespan."""
        held = self.times.held(cuts).max(axis=0)
        cuts = cuts[held == held.min()]
        layouts = np.diff(self.before[cuts], axis=1, prepend=0)
        squares = (layouts * layouts).sum(axis=1)
        some = np.flatnonzero(squares == squares.min()).tolist()
        ends: Ends = tuple(cuts[max(some, key=lambda number: tuple(layouts[number].tolist()))].tolist())
        return ends

    def ranked(self) -> list[Ends]:
        """Return the best cuts, of all or of those that a search tries."""
        if self.all * self.times.slots > MOST_TRIED:
            return self._searched()
        inner = [*combinations(range(1, self.items), self.stages - 1)]
        ends = np.hstack([np.array(inner, np.int64).reshape(len(inner), -1), np.full((len(inner), 1), self.items)])
        return self._ranked(ends, *self.time(ends))

    def _ranked(self, cuts: Ints, over: Ints, makespans: Ints) -> list[Ends]:
        """Return the best cut, then the quickest ones, as many as are planned; those within the budget come first."""
        fits = over == 0 if (over == 0).any() else over >= 0
        best = self.best(cuts[fits & (makespans == makespans[fits].min())])
        order = np.lexsort((makespans, ~fits))[:PLANNED]
        return [*dict.fromkeys([best, *map(tuple, cuts[order].tolist())])]

    @property
    def is_over(self) -> bool:
        """Whether as much was replayed as may be."""
        return len(self.known) * self.times.slots > MOST_SEARCHED

    def _searched(self) -> list[Ends]:
        """Go down from several cuts by moves of a layer, and by two of them at once, until none helps."""
        starts = [*dict.fromkeys(ends for ends in _begun(self) if min(np.diff(ends, prepend=0)) > 0)]
        self.learn(np.array(starts))
        self._go_down(starts, self.is_limited)
        if self.is_limited and all(over for over, _ in self.known.values()):
            self._go_down(starts, False)
        over, makespans = (np.array(values) for values in zip(*self.known.values(), strict=True))
        return self._ranked(np.array([*self.known]), over, makespans)

    def _go_down(self, starts: Sequence[Ends], limited: bool) -> None:
        """Go down from the best starts; `limited`: the budget counts first, else makespans alone."""
        for start in sorted(starts, key=lambda ends: self._worth(ends, limited))[:DESCENTS]:
            here: Ends | None = start
            while here is not None and not self.is_over:
                here = self._better(here, limited)

    def _worth(self, ends: Ends, limited: bool) -> tuple[int, int]:
        """Return what decides between cuts, less is better; one whose memory was not looked at (-1) does not fit."""
        over, makespan = self.known[ends]
        return (abs(over), makespan) if limited else (0, makespan)

    def _better(self, here: Ends, limited: bool) -> Ends | None:
        """Return a better cut a move away, or two of them; None where none was found."""
        # the longest path of a cut says what others take at least: only those are timed that this lets be shorter
        counts, path = np.diff(here, prepend=0), self.times.path(np.array([here]))
        each = path.counts.reshape(-1, self.times.columns).sum(axis=1)
        stages = np.arange(len(each)) % self.stages
        order = np.argsort(-np.bincount(stages, each, minlength=self.stages), kind="stable")
        sources = order[counts[order] > 1][:MOST_STAGES].tolist()
        pairs = [(source, target) for source in sources for target in order[-MOST_STAGES:].tolist() if source != target]
        one = np.zeros((len(pairs), len(counts)), np.int64)
        for row, (source, target) in enumerate(pairs):
            one[row, source], one[row, target] = -1, 1
        if not len(one):  # each stage has one item
            return None
        least = self.times.at_least(path, np.cumsum(counts + one, axis=1))
        found = self._among(here, counts + one, least, limited)
        if found is not None:
            return found
        near = one[np.argsort(least, kind="stable")[:MOST_PAIRS]]
        two = counts + np.array([first + other for first, other in combinations(near, 2)]).reshape(-1, len(counts))
        two = two[(two > 0).all(axis=1)]
        if not len(two):
            return None
        return self._among(here, two, self.times.at_least(path, np.cumsum(two, axis=1)), limited)

    def _among(self, here: Ends, counts: Ints, least: Ints, limited: bool) -> Ends | None:
        """Return the first of these cuts that is better, least bounds first; None where none is."""
        self.rescale()
        own = self._worth(here, limited)
        order = np.argsort(least, kind="stable")
        if not own[0]:  # else each may be nearer to the budget
            order = order[least[order] < own[1]]
        for first in range(0, len(order), BATCH):
            if self.is_over:
                return None
            ends = np.cumsum(counts[order[first : first + BATCH]], axis=1)
            self.learn(ends, None if own[0] or not limited else self._worth(here, limited)[1])
            best = min(map(tuple, ends.tolist()), key=lambda ends: self._worth(ends, limited))
            if self._worth(best, limited) < self._worth(here, limited):
                return best
        return None


MOST_STAGES = 64  # from which, and to which, single layers move


def _equal(problem: Problem) -> list[Ends]:
    """Return the cut into equal counts of layers; none where some stage would have nothing to do."""
    before, stages = layers_before(problem), problem.stages
    is_free = {0: before.count(0) > 1, stages - 1: before.count(before[-1]) > 1}  # something stands beside the layers
    least = [int(not is_free.get(stage)) for stage in range(stages)]
    if before[-1] < sum(least):
        return []
    ends = [
        bisect_left(before, count) if count else bisect_right(before, 0) - 1
        for count in accumulate(equal_layout(before[-1], least))
    ]
    ends[-1] = len(before) - 1
    return [(*ends,)] if all(begin < end for begin, end in pairwise((0, *ends))) else []


def _begun(cuts: _Cuts) -> Iterator[Ends]:
    """Yield the balanced cut, that of the least largest stage, and equal counts with more or less here and there."""
    yield cuts.own
    yield from _equal(cuts.times.problem)
    stages, last = cuts.stages, cuts.stages - 1
    if (smallest := cuts.smallest or _least_stage(cuts.times.problem)) is not None:
        yield smallest
    each, more = divmod(cuts.items, stages)
    for extra in (range(more), range(stages - more, stages), range((stages - more) // 2, (stages + more) // 2)):
        counts = [each + (stage in extra) for stage in range(stages)]
        yield tuple(accumulate(counts))
        for lighter in ({0}, {last}, {0, last}):
            others = [stage for stage in range(stages) if stage not in lighter]
            for target in (others[:1], others[-1:], others[len(others) // 2 :][:1]) if others else ():
                changed = [count - (stage in lighter) for stage, count in enumerate(counts)]
                changed[target[0]] += len(lighter)
                yield tuple(accumulate(changed))


def _least_stage(problem: Problem) -> Ends | None:
    """Return the cut of the least largest stage, whatever its device and the memory."""
    items, stages = items_of(problem), problem.stages
    each = [sum(parts, Fraction(0)) for parts in zip(items.forward, items.gradient, items.weight, strict=True)]
    scale = grains_per_unit(each)
    work = tuple(accumulate((int(one * scale) for one in each), initial=0))
    nothing = (0,) * len(work)
    found = least_cut(CutTask(work, nothing, nothing, tuple(range(stages)), (1,) * stages, None, (0,) * stages))
    return None if found is None else tuple(found)


def best_cut(
    problem: Problem, plan: Callable[[Problem], Plan], schedule: Callable[[Problem], Schedule], *, is_settled: bool
) -> tuple[Problem, CutChoice]:
    """Return `problem` on its placement with the best cut, and what is known of that. Raises what the makers do.

    An algorithm makes its plan of passes and its schedule on a cut; `is_settled`: all cuts have one order.
    """
    if not is_settled:
        return _planned(problem, plan, schedule)
    cuts = _Cuts(CutTimes(problem, plan(problem)))
    chosen = cut_at(problem, cuts.ranked()[0])
    return chosen, CutChoice(layout_of(chosen), BEST, len(cuts.known) or cuts.all, all_cuts(chosen))


def work_of(problem: Problem) -> int:
    """Return about how many operations a family schedules of a problem; those of cuts that are tried count in part."""
    work = 2 * problem.stages * problem.microbatches
    cuts = all_cuts(problem) or MOST_TRIED if seeks_best(problem) else 0
    return work + min(cuts * work, MOST_TRIED) // REPLAYED


def best_cut_of(problem: Problem, plan: Plan) -> Problem:
    """Return `problem` with the best cut under the order of a plan; as it is where that cannot run."""
    if mismatch(problem, plan):
        return problem
    try:
        timed_plan(problem, plan)
    except InvalidSchedule:
        return problem
    return cut_at(problem, _Cuts(CutTimes(problem, plan)).ranked()[0])


def _planned(
    problem: Problem, plan: Callable[[Problem], Plan], schedule: Callable[[Problem], Schedule]
) -> tuple[Problem, CutChoice]:
    """Plan some cuts anew, and then the best under the order of the best of them. Raises NoSchedule if none has one."""
    found: dict[Ends, tuple[Any, ...]] = {}  # what decides, the smaller the better; nothing where there is no schedule
    refusals: list[NoSchedule] = []
    cut = cache(lambda ends: cut_at(problem, ends))

    def make(ends: Ends) -> None:
        one, found[ends] = cut(ends), ()
        try:
            made = schedule(one)
        except NoSchedule as error:
            refusals.append(error)
            return
        layout, scale, budget = layout_of(one), one.grains.per_unit, one.grains.budget
        held = Fraction(max(map(sub, made.memory_grains, budget or (0,) * one.devices)), scale)
        makespan = Fraction(made.makespan_ticks, one.ticks.per_unit)
        squares = sum(count * count for count in layout)
        found[ends] = not made.fits, makespan, held, squares, [-count for count in layout]

    def best() -> Ends:
        if not any(found.values()):
            raise refusals[0]
        return min((ends for ends, rank in found.items() if rank), key=found.__getitem__)

    own, smallest = ends_of(problem), _least_stage(problem)
    for ends in dict.fromkeys((own, *_equal(problem), smallest or own)):
        make(ends)
    tried, most, ranked = 0, PLANNED, list[Ends]()
    cuts: _Cuts | None = None
    while len(found) < most:
        if cuts is None or best() != cuts.own:
            order = plan(cut(best()))
            cuts = _Cuts(CutTimes(problem, order) if cuts is None else cuts.times.under(order), best(), smallest)
            ranked = cuts.ranked()
            tried = max(tried, len(cuts.known) or cuts.all)
            most = max(LEAST_PLANNED, min(PLANNED, MOST_PLANNED // cuts.times.slots))
        following = next((ends for ends in ranked if ends not in found), None)
        if following is None:
            break
        make(following)
    chosen = cut(best())
    return chosen, CutChoice(layout_of(chosen), BEST, max(tried, len(found)), all_cuts(chosen), len(found))

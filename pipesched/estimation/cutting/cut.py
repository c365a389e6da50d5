"""Cutting a list of items into contiguous chunks, one or more for each device: the best cut, proved for most lists.

The best has the least largest work of a device, and of those the least largest work of a chunk, within the memory of
each device. Where no cut fits, it is the best of those with the least excess of a device above its capacity.

It is found by dynamic programming with one chunk a device (cut_single_chunks), by counting where all items are equal
but for a few at both ends (cut_equal_items), and by trying all of few cuts. Of other lists a good one is found, and
nothing is proved (cut_any_items).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.estimation.cutting.costs import ChunkCosts, CutProblem, CutValue, Ends
from pipesched.estimation.cutting.dynamic_programming import cut_single_chunks
from pipesched.estimation.cutting.equal_items import cut_equal_items
from pipesched.estimation.cutting.two_runs import cut_two_runs
from pipesched.pipeline.cutting.runs import CutTask, least_cut

FEW = 2000  # cuts that are all tried
FEW_UNLIKE = 200_000  # the same where work counts more on some devices, for which no method counts
MOST_MOVES = 10_000  # that are tried where nothing is proved: a second
TRIES = 600  # cuts near the best ones that are valued
WIDEST = 8  # ends that move together


@dataclass(frozen=True)
class CutAnswer:
    """The best cuts, best first, all equal in the largest work of a device, and what is known of them.

    `device` is that work, `chunk` the largest work of a chunk of the first cut. `excess` are the most bytes of a device
    above its capacity, 0 where the cuts fit. `proved`: no cut has less excess, or as much and less work of a device, or
    as much of both and a smaller largest chunk than the first one.
    """

    cuts: tuple[Ends, ...]
    device: int
    chunk: int
    excess: int
    proved: bool

    @property
    def fits(self) -> bool:
        """Whether the cuts are within the memory of every device."""
        return not self.excess


def cut(problem: CutProblem, keep: int = 10, seconds: float = 10.0) -> CutAnswer:
    """Return up to `keep` best cuts. Counting, where it is needed, ends after so many seconds.

    The cuts are variants that suit a pipeline, such as little work in the first or the last chunk, and cuts near these.
    They are in the order of their largest chunk, then of the squares of the work of devices, which are least where it
    is even, then of chunks; then those whose earlier chunks have more items.
    """
    costs = ChunkCosts(problem)
    with under(Clock(seconds)):
        proved = _proved(costs)
        found = proved or cut_any_items(costs)
    best = min(costs.value(ends) for ends in found)
    cuts = sorted(with_variants(costs, found, best, keep), key=lambda ends: _rank(costs, ends))[:keep]
    return CutAnswer(tuple(cuts), best.device, best.chunk, best.excess, bool(proved))


def _proved(costs: ChunkCosts) -> list[Ends] | None:
    """Return the best cut and others, None where no method that proves it applies."""
    if costs.stages == len(costs.problem.capacity):
        return cut_single_chunks(costs)
    is_alike = costs.problem.slowness is None
    try:
        found = cut_equal_items(costs) if is_alike else None
    except TimeIsUp:
        found = None
    if not found and comb(costs.items - 1, costs.stages - 1) <= (FEW if is_alike else FEW_UNLIKE):
        inner = combinations(range(1, costs.items), costs.stages - 1)
        found = [min(((*ends, costs.items) for ends in inner), key=costs.value)]
    return found


def _rank(costs: ChunkCosts, ends: Ends) -> tuple[int, int, int, list[int]]:
    """Return a number for how good a cut is among equals, the smaller the better."""
    chunks = costs.chunks(ends)
    works = costs.works(chunks)
    squares = sum(work**2 for work in costs.loads(chunks))
    return max(works), squares, sum(work**2 for work in works), [-end for end in ends]


def cut_any_items(costs: ChunkCosts) -> list[Ends]:
    """Return cuts that begin from those with the least largest chunk, or from what counting of two runs finds."""
    tries = iter(range(MOST_MOVES))
    begins = [*smallest_chunks(costs), *_by_weight(costs)]
    found = [_improved(costs, ends, tries) for ends in sorted(begins, key=costs.value)]
    if costs.problem.slowness is not None:
        return found
    counted = cut_two_runs(costs, min(found, key=costs.value))
    return [*found, _improved(costs, counted, iter(range(MOST_MOVES)))]


def _by_weight(costs: ChunkCosts) -> Iterator[Ends]:
    """Yield a cut with nearly the least largest work of a device, whatever its memory, where work counts unlike."""
    weights = costs.problem.slowness
    if weights is None:
        return
    work = (0, *(costs.at(0, end).work for end in range(1, costs.items + 1)))
    nothing = (0,) * len(work)
    found = least_cut(CutTask(work, nothing, nothing, costs.problem.devices, weights, None, (0,) * costs.stages))
    if found is not None:
        yield tuple(found)


def smallest_chunks(costs: ChunkCosts) -> list[Ends]:
    """Return cuts with the least largest chunk."""
    stages = costs.stages
    alone = CutProblem(costs.items, costs.at, tuple(range(stages)), (((1,),),) * stages, (None,) * stages)
    return cut_single_chunks(ChunkCosts(alone))


def _improved(costs: ChunkCosts, ends: Ends, tries: Iterator[int]) -> Ends:
    """Return the cut that moves lead to: each is made that helps, and all are tried again until none does."""
    value, before = _value(costs, ends), None
    while ends != before:
        before = ends
        for count, first, by in product(range(1, WIDEST + 1), range(costs.stages - 1), (1, -1)):
            near = moved(ends, first, first + count, by)
            if near is not None and next(tries, None) is not None and (better := _value(costs, near)) < value:
                ends, value = near, better
    return ends


def _value(costs: ChunkCosts, ends: Ends) -> tuple[int, ...]:
    """Return how good a cut is, and of equals how even: the smaller the better."""
    excess, device, chunk = costs.value(ends)
    return excess, device, sum(work**2 for work in costs.loads(costs.chunks(ends))), chunk


def with_variants(costs: ChunkCosts, cuts: Sequence[Ends], best: CutValue, count: int) -> list[Ends]:
    """Return those of the cuts that are as good as `best` but for the largest chunk; with near ones, up to `count`."""
    found = {ends: None for ends in cuts if costs.value(ends)[:2] == best[:2]}
    queue, seen, tries = [*found], {*cuts}, 0
    for ends in queue:
        for stage, by in product(range(costs.stages - 1), (1, -1)):
            if len(found) >= count or tries >= TRIES:
                return [*found]
            near = moved(ends, stage, stage + 1, by)
            if near is not None and near not in seen:
                seen.add(near)
                tries += 1
                if costs.value(near)[:2] == best[:2]:
                    found[near] = None
                    queue.append(near)
    return [*found]


def moved(ends: Ends, first: int, behind: int, by: int) -> Ends | None:
    """Return a cut whose chunks from `first` to the one before `behind` end that much later; None if one is empty."""
    begin = ends[first - 1] if first else 0
    if behind >= len(ends) or not begin < ends[first] + by or not ends[behind - 1] + by < ends[behind]:
        return None
    return *ends[:first], *(end + by for end in ends[first:behind]), *ends[behind:]

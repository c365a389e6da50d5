"""Good cuts of any items, of which nothing is proved: ends of neighbouring chunks are moved while that helps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pipesched.estimation.cutting.costs import ChunkCosts, CutProblem, Ends
from pipesched.estimation.cutting.dynamic_programming import cut_single_chunks
from pipesched.estimation.cutting.two_runs import cut_two_runs
from pipesched.estimation.cutting.variants import moved

MOST_MOVES = 10_000  # that are tried: a second
WIDEST = 8  # ends that move together


def cut_any_items(costs: ChunkCosts) -> list[Ends]:
    """Return cuts that begin from those with the least largest chunk, or from what counting of two runs finds."""
    tries = iter(range(MOST_MOVES))
    found = [_improved(costs, ends, tries) for ends in sorted(smallest_chunks(costs), key=costs.value)]
    counted = cut_two_runs(costs, min(found, key=costs.value))
    return [*found, _improved(costs, counted, iter(range(MOST_MOVES)))]


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

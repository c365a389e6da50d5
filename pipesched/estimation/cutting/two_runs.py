"""Cuts of items in two long runs of equal ones, as layers with experts behind as many without: by counting both.

The number of items that a chunk or a device has of both runs is one integer: those of the first run times a stride,
and those of the second. What the devices can have together are the bits of another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from itertools import accumulate, pairwise
from math import inf
from operator import or_

from pipesched.core.clock import TimeIsUp
from pipesched.estimation.cutting.costs import ChunkCosts, Ends
from pipesched.estimation.cutting.device_options import DeviceOption, TooManyOptions, options_of
from pipesched.estimation.cutting.end_cuts import EndChunk, EqualRun, Shape, cuts_of_ends, equal_runs
from pipesched.estimation.cutting.equal_items import counts_of

Options = Mapping[int, list[DeviceOption]]  # of a device, by its number of items


def cut_two_runs(costs: ChunkCosts, known: Ends) -> Ends:
    """Return a cut within memory with less work of the busiest device than `known`, or that.

    It has the least of all with a chunk without items of the ends, if there is time to count, no chunk of more than
    about twice the mean number of items, and where those with items of an end have equal ones of the next run alone.
    """
    pairs = [*pairwise(equal_runs(costs))]
    if not pairs:
        return known
    counting = _Counting(costs, *max(pairs, key=lambda pair: pair[1].end - pair[0].begin), known)
    with suppress(TooManyOptions, TimeIsUp):
        for shape in counting.shapes():
            counting.look_into(shape)
    return counting.best


class _Counting:
    """Two runs, one behind the other, and the best cut so far."""

    def __init__(self, costs: ChunkCosts, first: EqualRun, second: EqualRun, known: Ends) -> None:
        self.costs, self.first, self.second, self.best = costs, first, second, known
        self.longest = 2 * -(-(first.items + second.items) // costs.stages) + 2
        self.stride = costs.stages * self.longest + 1
        self.total = first.items * self.stride + second.items
        fits = not costs.value(known).excess
        self.work = costs.value(known).device if fits else costs.at(0, costs.items).work + 1  # what is found has less
        self._options = cache(lambda chunks, vectors, capacity: self._found(chunks, vectors, capacity, self.work))

    def shapes(self) -> Iterator[Shape]:
        """Yield what each chunk may have: of the ends, of the first run, of both, of the second."""
        first, second = EndChunk(begin=self.first.begin), EndChunk(end=self.second.end)
        for head, tail in cuts_of_ends(self.costs, EqualRun(self.first.begin, self.second.end)):
            between = self.costs.stages - len(head) - len(tail)
            for before in range(between):
                yield (*head, *[first] * before, EndChunk(), *[second] * (between - before - 1), *tail)

    def look_into(self, shape: Shape) -> None:
        """Take the best cut of a shape if it is better than the best so far."""
        problem = self.costs.problem
        options = [
            self._options(tuple(shape[stage] for stage in stages), held if capacity is not None else (), capacity)
            for stages, held, capacity in zip(problem.stages_on, problem.held, problem.capacity, strict=True)
        ]
        if _chosen(options, self.total, self.work - 1) is None:
            return
        self.work = bisect_left(range(self.work), True, key=lambda work: bool(_chosen(options, self.total, work)))
        counts = counts_of(self.costs, _chosen(options, self.total, self.work) or [])
        spans = [ChainMap(*self._spans(chunk))[count] for chunk, count in zip(shape, counts, strict=True)]
        self.best = tuple(accumulate(end - begin for begin, end in spans))

    def _found(
        self, chunks: Sequence[EndChunk], vectors: Sequence[Sequence[int]], capacity: int | None, work: int
    ) -> Options:
        at = self.costs.at
        growing = [[[(count, at(*span)) for count, span in row.items()] for row in self._spans(one)] for one in chunks]
        return options_of(growing, vectors, work, inf if capacity is None else capacity)

    def _spans(self, chunk: EndChunk) -> list[dict[int, tuple[int, int]]]:
        """Return where a chunk begins and ends by how many items of both runs it has, as such that grow."""
        first = range(1 if chunk.is_fixed else min(self.first.items, self.longest) + 1)
        second = range(min(self.second.items, self.longest) + 1)
        if chunk.begin is not None:
            rows = [{count * self.stride: chunk.span(self.first, count) for count in first}]
        elif chunk.end is not None:
            rows = [{count: chunk.span(self.second, count) for count in second}]
        else:
            middle = self.second.begin
            rows = [{a * self.stride + b: (middle - a, middle + b) for b in second} for a in first]
        return [{count: (begin, end) for count, (begin, end) in row.items() if begin < end} for row in rows]


def _chosen(options: Sequence[Options], total: int, work: int) -> list[DeviceOption] | None:
    """Return an option for each device with which they have a number of items together, none with more than `work`."""
    within = [[count for count, found in its.items() if found[0].work <= work] for its in options]
    reached = [*accumulate(within, lambda sets, counts: reduce(or_, (sets << count for count in counts), 0), initial=1)]
    chosen: list[DeviceOption] = []
    for its, counts, before in zip(reversed(options), reversed(within), reversed(reached[:-1]), strict=True):
        count = next((count for count in counts if count <= total and before >> (total - count) & 1), None)
        if count is None:
            return None
        chosen, total = [its[count][0], *chosen], total - count
    return chosen

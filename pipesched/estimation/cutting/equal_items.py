"""Cuts of items that are all equal but for a few at both ends, as the layers of most models: exact, by counting.

Such an end is cut in one of a few ways. All other chunks cost what their number of items says, so what a device can
have is a list: with how many of the equal items it has how much work at least, within its memory. The least limit
under which the devices together can have all the items is the optimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from pipesched.estimation.cutting.costs import ChunkCosts, Ends, profiles
from pipesched.estimation.cutting.device_options import (
    ChunkLimits,
    DeviceOption,
    DeviceOptions,
    TooManyOptions,
    least_limit,
)
from pipesched.estimation.cutting.end_cuts import EqualRun, Shape, equal_runs, shapes_of, spanning_cuts

FEW = 3  # shapes in which variants are looked for


class LeastLimits(NamedTuple):
    """The least limits, and the shapes that keep them."""

    limits: ChunkLimits
    shapes: list[Shape]


def cut_equal_items(costs: ChunkCosts) -> list[Ends] | None:
    """Return optimal cuts, and variants equal in the largest work of a device; None if the method does not apply."""
    run = max(equal_runs(costs), key=lambda run: run.items)
    shapes = [*shapes_of(costs, run)]
    longest = min(run.items, 2 * -(-run.items // costs.stages) + 2)
    try:
        found = _within(costs, run, shapes, longest)
        return found if found or longest == run.items else _within(costs, run, shapes, run.items)
    except TooManyOptions:
        return None


def _within(costs: ChunkCosts, run: EqualRun, shapes: list[Shape], longest: int) -> list[Ends] | None:
    """Return the best cuts whose chunks have at most `longest` equal items; None unless no other can be better."""
    if not shapes or not _is_equal(costs, run, longest):
        return None
    options = DeviceOptions(costs, run)
    least = _least_limits(options, shapes, longest)
    if longest == run.items:
        return [*(_variants(options, least) if least else []), *spanning_cuts(costs, run)]
    if least is None or least.limits.excess:
        return None
    further = costs.at(run.begin, run.begin + longest + 1).work
    return _variants(options, least) if further > least.limits.device else None


def _is_equal(costs: ChunkCosts, run: EqualRun, longest: int) -> bool:
    """Return whether so many in a row, and one more, always cost the same."""
    return all(
        costs.at(begin, begin + length) == costs.at(run.begin, run.begin + length)
        for length in range(2, min(longest + 1, run.items) + 1)
        for begin in range(run.begin + 1, run.end - length + 1)
    )


def _least_limits(options: DeviceOptions, shapes: list[Shape], longest: int) -> LeastLimits | None:
    """Return the least limits: of bytes above a capacity, then of the work of a device, then of a chunk."""
    excess, work = _even_limits(options, shapes[0], longest)
    if options.costs.problem.is_limited and excess:
        found = _least(options, shapes, ChunkLimits(longest, excess=excess), bytes_only=True)
        if found is None:
            return None
        excess, shapes, work = *found, inf
    found = _least(options, shapes, ChunkLimits(longest, device=work, excess=excess))
    if found is None:
        return None
    device, shapes = found
    works = sorted({work for shape in shapes for work in _works(options, shape, longest)})

    def kept_by(chunk: int) -> list[Shape]:
        limits = ChunkLimits(longest, chunk, device, excess)
        return [shape for shape in shapes if _shared(options, shape, limits) is not None]

    chunk = works[bisect_left(works, True, hi=len(works) - 1, key=lambda work: bool(kept_by(work)))]
    return LeastLimits(ChunkLimits(longest, chunk, device, excess), kept_by(chunk))


def _even_limits(options: DeviceOptions, shape: Shape, longest: int) -> tuple[float, float]:
    """Return limits that can be kept: the excess of an even cut, and, where it has none, the work of a device."""
    counts = filled(options, shape, profiles(len(shape))[0], ChunkLimits(longest))
    if counts is None:
        return inf, inf
    value = options.costs.value(_ends(options, shape, counts))
    return value.excess, inf if value.excess else value.device


def _works(options: DeviceOptions, shape: Shape, longest: int) -> set[int]:
    """Return the work that a chunk may have."""
    most = min(longest, options.run.items)
    return {
        options.chunk(chunk, count).work
        for chunk in {*shape}
        for count in ([0] if chunk.is_fixed else range(chunk.least, most + 1))
    }


def _least(
    options: DeviceOptions, shapes: list[Shape], limits: ChunkLimits, *, bytes_only: bool = False
) -> tuple[int, list[Shape]] | None:
    """Return the least largest work of a device, or excess with `bytes_only`, and the shapes that have it."""
    found = [(_shared(options, shape, limits, bytes_only=bytes_only), shape) for shape in shapes]
    possible = [(shared[0], shape) for shared, shape in found if shared is not None]
    if not possible:
        return None
    least = min(value for value, _ in possible)
    return least, [shape for value, shape in possible if value == least]


def _shared(
    options: DeviceOptions, shape: Shape, limits: ChunkLimits, *, bytes_only: bool = False
) -> tuple[int, list[Sequence[DeviceOption]]] | None:
    """Return the least limit (of work, or `bytes_only`) with which devices have all equal items, and their options."""
    problem = options.costs.problem
    each = [
        options.of(device, [shape[stage] for stage in stages], limits, bytes_only=bytes_only)
        for device, stages in enumerate(problem.stages_on)
    ]

    def value(device: int, best: Sequence[DeviceOption]) -> int:
        capacity = problem.capacity[device]
        if not bytes_only:
            return best[0].work
        return 0 if capacity is None else max(0, min(max(option.held) for option in best) - capacity)

    values = [[value(device, best) for best in its] for device, its in enumerate(each)]
    found = least_limit(values, options.run.items - sum(chunk.least for chunk in shape))
    if found is None:
        return None
    return found[0], [its[more] for its, more in zip(each, found[1], strict=True)]


def _variants(options: DeviceOptions, least: LeastLimits) -> list[Ends]:
    """Return an optimal cut, and others: even ones, and with little work in some chunks; some with larger chunks."""
    limits, cuts = least.limits, dict[Ends, None]()
    looser = ChunkLimits(limits.longest, inf, limits.device, limits.excess)
    for bounds in (limits, looser):
        for shape in least.shapes[:FEW]:
            for weights in profiles(len(shape)):
                counts = filled(options, shape, weights, bounds)
                if counts is not None:
                    cuts[_ends(options, shape, counts)] = None
    for shape in least.shapes[:FEW]:
        shared = _shared(options, shape, limits)
        if shared is not None:
            cuts[_ends(options, shape, counts_of(options.costs, [best[0] for best in shared[1]]))] = None
    return [*cuts]


def counts_of(costs: ChunkCosts, chosen: Sequence[DeviceOption]) -> list[int]:
    """Return the equal items of each chunk when the devices take these options."""
    counts = [0] * costs.stages
    for stages, option in zip(costs.problem.stages_on, chosen, strict=True):
        for stage, count in zip(stages, option.counts, strict=True):
            counts[stage] = count
    return counts


def _ends(options: DeviceOptions, shape: Shape, counts: Sequence[int]) -> Ends:
    """Return the ends of the chunks that have so many equal items."""
    ends, last = [], 0
    for chunk, count in zip(shape, counts, strict=True):
        begin, end = chunk.span(options.run, count)
        last += end - begin
        ends.append(last)
    return tuple(ends)


Next = tuple[int, int, int, int]  # weighted work of the device and of the chunk with one item more; chunk, device


def filled(options: DeviceOptions, shape: Shape, weights: Sequence[int], limits: ChunkLimits) -> list[int] | None:
    """Return how many equal items each chunk has; None where the next one breaks a limit wherever it is put.

    Each goes to the device with the least work times the weight of the chunk, and there to the least such chunk; of
    equals to the first. A device may get stuck in memory that another order would leave free, so None proves nothing.
    """
    filling = _Filling(options, shape, weights, limits)
    heap = [found for device in range(len(filling.loads)) if (found := filling.next_of(device))]
    heapify(heap)
    for _ in range(options.run.items - sum(filling.counts)):
        if not heap:
            return None
        _, _, stage, device = heappop(heap)
        filling.add(stage, device)
        found = filling.next_of(device)
        if found is not None:
            heappush(heap, found)
    return filling.counts if filling.is_legal else None


class _Filling:
    """Chunks that are being filled."""

    def __init__(self, options: DeviceOptions, shape: Shape, weights: Sequence[int], limits: ChunkLimits) -> None:
        self.options, self.shape, self.weights, self.limits = options, shape, weights, limits
        self.counts = [chunk.least for chunk in shape]
        self.chunks = [options.chunk(chunk, chunk.least) for chunk in shape]
        self.loads = options.costs.loads(self.chunks)

    @property
    def is_legal(self) -> bool:
        """Whether all chunks and devices keep the limits."""
        return (
            max(chunk.work for chunk in self.chunks) <= self.limits.chunk
            and max(self.loads) <= self.limits.device
            and all(self._fits(device) for device in range(len(self.loads)))
        )

    def next_of(self, device: int) -> Next | None:
        """Return where on a device the next item is best put; None if it cannot have one."""
        places = []
        for stage in self.options.costs.problem.stages_on[device]:
            chunk, more = self.shape[stage], self.counts[stage] + 1
            if chunk.is_fixed or more > self.limits.longest:
                continue
            work = self.options.chunk(chunk, more).work
            load = self.loads[device] - self.chunks[stage].work + work
            if work <= self.limits.chunk and load <= self.limits.device:
                places.append((self.weights[stage] * load, self.weights[stage] * work, stage, device))
        return next((place for place in sorted(places) if self._fits_with(place[2], device)), None)

    def add(self, stage: int, device: int) -> None:
        """Put an item into a chunk."""
        before = self.chunks[stage]
        self.counts[stage] += 1
        self.chunks[stage] = self.options.chunk(self.shape[stage], self.counts[stage])
        self.loads[device] += self.chunks[stage].work - before.work

    def _fits_with(self, stage: int, device: int) -> bool:
        before = self.chunks[stage]
        self.chunks[stage] = self.options.chunk(self.shape[stage], self.counts[stage] + 1)
        fits = self._fits(device)
        self.chunks[stage] = before
        return fits

    def _fits(self, device: int) -> bool:
        stages = self.options.costs.problem.stages_on[device]
        return self.options.costs.excess(device, [self.chunks[stage] for stage in stages]) <= self.limits.excess

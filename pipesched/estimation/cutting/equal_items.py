"""Cuts of items that are all equal but for a few at both ends, as the layers of most models: exact, by counting.

Such an end is cut in one of a few ways. All other chunks cost what their number of items says, so what a device can
have is a list: with how many of the equal items it has how much work at least, within its memory. The least limit
under which the devices together can have all the items is the optimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from pipesched.estimation.cutting.costs import ChunkCosts, Ends
from pipesched.estimation.cutting.device_options import (
    ChunkLimits,
    DeviceOption,
    DeviceOptions,
    TooManyOptions,
    least_limit,
)
from pipesched.estimation.cutting.end_cuts import EqualRun, Shape, equal_runs, shapes_of, spanning_cuts
from pipesched.estimation.cutting.greedy import filled
from pipesched.estimation.cutting.variants import profiles

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

"""Cuts of items that are all alike but for a few at both ends, as the layers of most models: exact, by counting.

Such an end is cut in one of a few ways. All other chunks cost what their number of items says, so what a device can
have is a list: with how many of the alike items it has how much work at least, within its memory. The least limit
under which the devices together can have all the items is the optimum.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from pipesched.estimation.cutting.costs import Amount, Costs, Ends
from pipesched.estimation.cutting.fill import filled
from pipesched.estimation.cutting.menu import Limits, Menu, TooManyWays, Way, least_limit
from pipesched.estimation.cutting.profiles import profiles
from pipesched.estimation.cutting.shapes import Alike, Part, Shape, longest_run, shapes_of, spanning_cuts

FEW = 3  # shapes in which variants are looked for


class Optimum(NamedTuple):
    """The least limits, and the shapes that keep them."""

    limits: Limits
    shapes: list[Shape]


def cut_alike(costs: Costs) -> list[Ends] | None:
    """Return optimal cuts, and variants equal in the largest work of a device; None if the method does not apply."""
    alike = longest_run(costs)
    shapes = [*shapes_of(costs, alike)]
    count = alike.end - alike.begin
    longest = min(count, 2 * -(-count // costs.stages) + 2)
    try:
        found = _within(costs, alike, shapes, longest)
        return found if found or longest == count else _within(costs, alike, shapes, count)
    except TooManyWays:
        return None


def _within(costs: Costs, alike: Alike, shapes: list[Shape], longest: int) -> list[Ends] | None:
    """Return the best cuts whose chunks have at most `longest` alike items; None unless no other can be better."""
    if not shapes or not _is_alike(costs, alike, longest):
        return None
    menu = Menu(costs, alike)
    optimum = _optimum(menu, shapes, longest)
    if longest == alike.end - alike.begin:
        return [*(_variants(menu, optimum) if optimum else []), *spanning_cuts(costs, alike)]
    if optimum is None or optimum.limits.excess:
        return None
    further = costs.at(alike.begin, alike.begin + longest + 1).work
    return _variants(menu, optimum) if further > optimum.limits.device else None


def _is_alike(costs: Costs, alike: Alike, longest: int) -> bool:
    """Return whether so many in a row, and one more, always cost the same."""
    return all(
        costs.at(begin, begin + length) == costs.at(alike.begin, alike.begin + length)
        for length in range(2, min(longest + 1, alike.end - alike.begin) + 1)
        for begin in range(alike.begin + 1, alike.end - length + 1)
    )


def _optimum(menu: Menu, shapes: list[Shape], longest: int) -> Optimum | None:
    """Return the least limits: of bytes above a capacity, then of the work of a device, then of a chunk."""
    excess, work = _even_limits(menu, shapes[0], longest)
    if menu.costs.question.is_limited and excess:
        found = _least(menu, shapes, Limits(longest, excess=excess), bytes_only=True)
        if found is None:
            return None
        excess, shapes, work = *found, inf
    found = _least(menu, shapes, Limits(longest, device=work, excess=excess))
    if found is None:
        return None
    device, shapes = found
    works = sorted({work for shape in shapes for part in {*shape} for work in _works(menu, part, longest)})

    def kept_by(chunk: int) -> list[Shape]:
        limits = Limits(longest, chunk, int(device), excess)
        return [shape for shape in shapes if _totals(menu, shape, limits) is not None]

    chunk = works[bisect_left(works, True, hi=len(works) - 1, key=lambda work: bool(kept_by(work)))]
    return Optimum(Limits(longest, chunk, int(device), excess), kept_by(chunk))


def _even_limits(menu: Menu, shape: Shape, longest: int) -> tuple[Amount | float, float]:
    """Return limits that can be kept: the excess of an even cut, and, where it has none, the work of a device."""
    counts = filled(menu, shape, profiles(len(shape))[0], Limits(longest))
    if counts is None:
        return inf, inf
    judgement = menu.costs.judge(_ends(menu, shape, counts))
    return judgement.excess, inf if judgement.excess else judgement.device


def _works(menu: Menu, part: Part, longest: int) -> list[int]:
    """Return the work that a chunk may have."""
    most = min(longest, menu.alike.end - menu.alike.begin)
    return [menu.chunk(part, count).work for count in ([0] if part.is_fixed else range(part.least, most + 1))]


def _least(
    menu: Menu, shapes: list[Shape], limits: Limits, *, bytes_only: bool = False
) -> tuple[Amount, list[Shape]] | None:
    """Return the least largest work of a device, or excess with `bytes_only`, and the shapes that have it."""
    found = [(_totals(menu, shape, limits, bytes_only=bytes_only), shape) for shape in shapes]
    possible = [(totals[0], shape) for totals, shape in found if totals is not None]
    if not possible:
        return None
    least = min(value for value, _ in possible)
    return least, [shape for value, shape in possible if value == least]


def _totals(
    menu: Menu, shape: Shape, limits: Limits, *, bytes_only: bool = False
) -> tuple[Amount, list[Sequence[Way]]] | None:
    """Return the least limit with which the devices of a shape have all alike items, and the ways that each can take.

    The limit is of work, or of bytes above a capacity with `bytes_only`.
    """
    question = menu.costs.question
    menus = [
        menu.ways(device, [shape[stage] for stage in stages], limits, bytes_only=bytes_only)
        for device, stages in enumerate(question.stages_on)
    ]

    def value(device: int, ways: Sequence[Way]) -> Amount:
        capacity = question.capacity[device]
        if not bytes_only:
            return min(way.work for way in ways)
        return 0 if capacity is None else max(0, min(max(way.held) for way in ways) - capacity)

    values = [[value(device, ways) for ways in its] for device, its in enumerate(menus)]
    spare = menu.alike.end - menu.alike.begin - sum(part.least for part in shape)
    found = least_limit(values, spare)
    if found is None:
        return None
    return found[0], [its[more] for its, more in zip(menus, found[1], strict=True)]


def _variants(menu: Menu, optimum: Optimum) -> list[Ends]:
    """Return an optimal cut, and others: even ones, and with little work in some chunks; some with larger chunks."""
    limits, cuts = optimum.limits, dict[Ends, None]()
    looser = Limits(limits.longest, inf, limits.device, limits.excess)
    for bounds in (limits, looser):
        for shape in optimum.shapes[:FEW]:
            for weights in profiles(len(shape)):
                counts = filled(menu, shape, weights, bounds)
                if counts is not None:
                    cuts[_ends(menu, shape, counts)] = None
    for shape in optimum.shapes[:FEW]:
        totals = _totals(menu, shape, limits)
        if totals is not None:
            cuts[_ends(menu, shape, _counts(menu, [ways[0] for ways in totals[1]]))] = None
    return [*cuts]


def _counts(menu: Menu, ways: Sequence[Way]) -> list[int]:
    """Return the alike items of each chunk when the devices take these ways."""
    counts = [0] * menu.costs.stages
    for stages, way in zip(menu.costs.question.stages_on, ways, strict=True):
        for stage, count in zip(stages, way.counts, strict=True):
            counts[stage] = count
    return counts


def _ends(menu: Menu, shape: Shape, counts: Sequence[int]) -> Ends:
    """Return the ends of the chunks that have so many alike items."""
    ends, end = [], 0
    for part, count in zip(shape, counts, strict=True):
        begin, last = part.run(menu.alike, count)
        end += last - begin
        ends.append(end)
    return tuple(ends)

"""Cuts that are equally good: which chunks ought to have little work, and cuts near known ones.

A pipeline fills and drains through its ends, hence variants with little work there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from pipesched.estimation.cutting.costs import ChunkCosts, CutValue, Ends

HEAVY = 16
TRIES = 600  # cuts that are valued


def profiles(stages: int) -> list[list[int]]:
    """Return the weights of the chunks for each variant, greater ones for less work; the first treats all alike."""
    last, half = stages - 1, stages // 2
    light = [
        set[int](),
        {0},
        {last},
        {0, last},
        {*range(half)},
        {*range(half, stages)},
        {*range(stages // 4), *range(stages - stages // 4, stages)},
        {*range(stages // 4, stages - stages // 4)},
    ]
    unique = [stage_set for place, stage_set in enumerate(light) if stage_set not in light[:place]]
    return [[HEAVY if stage in chosen else 1 for stage in range(stages)] for chosen in unique]


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

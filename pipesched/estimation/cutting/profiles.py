"""Ways to prefer one of the cuts that are equally good: which chunks ought to have little work.

A pipeline fills and drains through its ends, hence variants with little work there. Each is a list of weights: a
greater weight lets a chunk have less work where others can have more.
"""

from __future__ import annotations

HEAVY = 16


def profiles(stages: int) -> list[list[int]]:
    """Return the weights of the chunks for each variant; the first one treats all alike."""
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

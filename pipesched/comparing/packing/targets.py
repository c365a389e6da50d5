"""How much work each microbatch of each rank would get if documents could be cut anywhere: what a packing aims at.

The makespan of a rank is the longest of many sums of works, so it falls along the works that its longest path counts
least. The first and the last microbatches come out small, for a pipeline fills and drains by them.
"""

from __future__ import annotations

from math import fsum

import numpy as np

from pipesched.comparing.packing.positions import Positions, Whole

PACE, SLOWER = 0.5, 0.15  # the first step, and by how much later ones are shorter
STEEPEST = 2.0  # by which factor a step changes the work of a rank at most


def even_targets(positions: Positions, microbatches: int, work: int, rounds: int) -> Whole:
    """Return the works of so many microbatches of one rank, which together have `work`."""
    start = np.full((microbatches, 1), work // microbatches, dtype=np.int64)
    return targets(positions, start, np.zeros_like(start), work, rounds)[:, 0]


def targets(positions: Positions, start: Whole, least: Whole, work: int, rounds: int) -> Whole:
    """Return the works, a row a microbatch and a column a rank, of the shortest slowest rank that was found.

    They have `work` together, and each is at least its `least`, the longest document that it cannot be without.
    """
    free = work - int(least.sum())
    rest = np.maximum(start - least, start // 1000 + 1).astype(np.float64)
    best, lowest = start, None
    for number in range(rounds):
        rest *= free / fsum(rest.ravel().tolist())
        works = least + np.rint(rest).astype(np.int64)
        makespans, slopes = positions.slopes(works, works if positions.has_lags else None)
        if lowest is None or makespans.max() < lowest:
            best, lowest = works, makespans.max()
        rest *= _step(rest, slopes, makespans, PACE / (1 + SLOWER * number))
    return best


def _step(rest: Whole, slopes: Whole, makespans: Whole, pace: float) -> Whole:
    """Return the factors of a step: within a rank away from steep slopes, and between ranks from slow ones to fast.

    Only sums that are rounded once, products and quotients occur: they are the same on every machine.
    """
    totals = np.array([fsum(column) for column in rest.T.tolist()])
    growth = np.maximum([fsum(column) for column in (rest * slopes).T.tolist()], 1.0)  # by all that is free
    length = np.maximum(makespans.astype(np.float64), 1.0)
    pulls = pace * np.minimum(1.0, growth / length) * (slopes * totals / growth - 1)
    within = np.where(pulls > 0, 1 / (1 + np.abs(pulls)), 1 + np.abs(pulls))
    common = fsum((totals * length / growth).tolist()) / fsum((totals / growth).tolist())
    between = 1 + (common - length) / growth
    factors: Whole = within * np.clip(between, 1 / STEEPEST, STEEPEST)
    return factors

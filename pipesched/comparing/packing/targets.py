"""How much work each microbatch of each rank would get if documents could be cut anywhere: what a packing aims at.

The makespan of a rank is the longest of many sums of works, so it falls along the works that its longest path counts
least. The first and the last microbatches come out small, for a pipeline fills and drains by them.
"""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

from pipesched.comparing.packing.positions import Positions
from pipesched.core.arrays import Ints, np

PACE, SLOWER = 0.25, 0.15  # the first step, and by how much later ones are shorter
RECENT = 0.2  # how much the last works count in the mean of all, which swings less
STEEPEST = 2.0  # by which factor a step changes the work of a rank at most
LONG = 2.5  # times the mean work of a microbatch has a document of which the best place is asked


class RankShape(NamedTuple):
    """The best works of the microbatches of a rank, and the places for long documents side by side, the best first."""

    works: Ints
    places: Ints


def shape_of(positions: Positions, work: int, rounds: int) -> RankShape:
    """Return the best works of the microbatches of one rank, and where it best takes a long document.

    It is in each place once, beside works that are the best around it.
    """
    count = positions.microbatches
    even = np.full((count, count + 1), work // count, dtype=np.int64)
    least = np.zeros_like(even)
    np.fill_diagonal(least, int(LONG * work / count))
    start = np.maximum(even, least)
    best, makespans = _descend(positions, start, least, np.full(count + 1, work), rounds)
    ends = np.concatenate([makespans[:1], makespans[:-1], makespans[-2:-1]])
    middle = int((ends[:-2] + ends[1:-1] + ends[2:]).argmin())  # of places that are as good a neighbour decides
    return RankShape(best[:, -1], np.argsort(np.abs(np.arange(count) - middle), kind="stable"))


def targets(positions: Positions, start: Ints, least: Ints, work: int, rounds: int) -> Ints:
    """Return the works, a row a microbatch and a column a rank, of the shortest slowest rank that was found.

    They have `work` together, and each is at least its `least`, the longest document that it cannot be without.
    """
    return _descend(positions, start, least, work, rounds)[0]


def _descend(positions: Positions, start: Ints, least: Ints, work: int | Ints, rounds: int) -> tuple[Ints, Ints]:
    """Return the best works and their makespans: those of all columns together have `work`, or each has its own."""
    together = isinstance(work, int)
    free = work - (least.sum() if together else least.sum(axis=0))
    rest = np.maximum(start - least, start // 1000 + 1).astype(np.float64)
    columns = start.shape[1]
    best = mean = start
    lowest = np.full(columns, np.iinfo(np.int64).max)
    for number in range(rounds):
        sums = np.array([fsum(column) for column in rest.T.tolist()])
        rest *= free / (fsum(sums) if together else sums)
        works = least + np.rint(rest).astype(np.int64)
        mean = works if not number else mean + np.rint((works - mean) * max(RECENT, 1 / (number + 1))).astype(np.int64)
        both = np.hstack([works, mean])
        makespans, slopes = positions.slopes(both, both if positions.has_lags else None)
        for tried, takes in ((works, makespans[:columns]), (mean, makespans[columns:])):
            better = np.full(columns, takes.max() < lowest.max()) if together else takes < lowest
            best, lowest = np.where(better, tried, best), np.where(better, takes, lowest)
        pace = PACE / (1 + SLOWER * number)
        rest *= _step(rest, slopes[:, :columns], makespans[:columns], pace, together=together)
    return best, lowest


def _step(rest: Ints, slopes: Ints, makespans: Ints, pace: float, *, together: bool) -> Ints:
    """Return the factors of a step: within a rank away from steep slopes, and between ranks from slow ones to fast.

    Only sums that are rounded once, products and quotients occur: they are the same on every machine.
    """
    totals = np.array([fsum(column) for column in rest.T.tolist()])
    growth = np.maximum([fsum(column) for column in (rest * slopes).T.tolist()], 1.0)  # by all that is free
    length = np.maximum(makespans.astype(np.float64), 1.0)
    pulls = pace * np.minimum(1.0, growth / length) * (slopes * totals / growth - 1)
    within: Ints = np.where(pulls > 0, 1 / (1 + np.abs(pulls)), 1 + np.abs(pulls))
    if not together:
        return within
    common = fsum((totals * length / growth).tolist()) / fsum((totals / growth).tolist())
    between = 1 + (common - length) / growth
    factors: Ints = within * np.clip(between, 1 / STEEPEST, STEEPEST)
    return factors

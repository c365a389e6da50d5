"""Two jobs of pieces on shared machines: the least time in which both end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class JobPiece(NamedTuple):
    """A piece of a job: the machine that it occupies, and for how many ticks."""

    machine: int
    ticks: int


def least_length(first: Sequence[JobPiece], second: Sequence[JobPiece]) -> int:
    """Return the least ticks in which two jobs end that both start at 0; exact.

    The pieces of a job run in order, none is interrupted, and a machine runs one at a time. Pieces of no length are
    left out. Akers 1956, "A graphical approach to production scheduling problems", Operations Research 4: a point of
    the plane is how far both jobs are, a schedule a path on which one of them goes on or both, and two pieces of one
    machine are an obstacle. Both jobs go on until there is one; then either piece goes first, which leads to a corner
    of the obstacle, where a piece of each has just ended.
    """
    one, two = (_Job([piece for piece in job if piece.ticks]) for job in (first, second))
    best = one.length + two.length
    spent = [[best] * len(two.ends) for _ in one.ends]  # until so many pieces of each are done
    spent[0][0] = 0
    for i, row in enumerate(spent):
        for j, now in enumerate(row):
            straight = now + max(one.length - one.ends[i], two.length - two.ends[j])
            if straight >= best:
                continue
            k, m = _obstacle(one, two, i, j)
            if k == len(one.pieces) or m == len(two.pieces):
                best = straight
                continue
            first_waits = now + max(one.ends[k] - one.ends[i], two.ends[m + 1] - two.ends[j])
            second_waits = now + max(one.ends[k + 1] - one.ends[i], two.ends[m] - two.ends[j])
            spent[k][m + 1] = min(spent[k][m + 1], first_waits)
            spent[k + 1][m] = min(spent[k + 1][m], second_waits)
    return best


class _Job:
    """Pieces of some length; `ends[i]` is how long the first i take without a pause."""

    def __init__(self, pieces: Sequence[JobPiece]) -> None:
        self.pieces = pieces
        self.ends = [*accumulate((piece.ticks for piece in pieces), initial=0)]
        self.length = self.ends[-1]


def _obstacle(one: _Job, two: _Job, i: int, j: int) -> tuple[int, int]:
    """Return the first pieces of one machine that meet when both jobs go on, after i and j pieces, without a pause.

    One of the numbers is that of all pieces where a job ends before.
    """
    k, m, ahead = i, j, two.ends[j] - one.ends[i]
    while k < len(one.pieces) and m < len(two.pieces) and one.pieces[k].machine != two.pieces[m].machine:
        until, other = one.ends[k + 1] + ahead, two.ends[m + 1]
        k, m = k + (until <= other), m + (other <= until)
    return k, m

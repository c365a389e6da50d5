"""Which of several packings is better: one within the budget, then the shorter slowest rank, then the less in all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from pipesched.comparing.packing.baselines import Assignment
from pipesched.comparing.packing.timing import RankTimes, Timed
from pipesched.results.document_costs import load_of


class Judged(NamedTuple):
    """A packing, and what its ranks take: None where some rank has no schedule."""

    assignment: Assignment
    ranks: Sequence[Timed] | None

    @property
    def fits(self) -> bool:
        """Whether every rank has a schedule within the budget."""
        return self.ranks is not None and all(rank.fits for rank in self.ranks)

    @property
    def makespan(self) -> Fraction | None:
        """The makespan of the slowest rank."""
        return None if self.ranks is None else max(rank.makespan for rank in self.ranks)

    @property
    def key(self) -> tuple[bool, bool, Fraction, Fraction]:
        """What says which packing is better: less is."""
        if self.ranks is None:
            return True, True, Fraction(0), Fraction(0)
        makespans = [rank.makespan for rank in self.ranks]
        return False, not self.fits, max(makespans), sum(makespans, Fraction(0))


def judge(assignments: Sequence[Assignment], lengths: Sequence[int], times: RankTimes) -> list[Judged]:
    """Return what the packings of documents of these lengths take."""
    ranks = [
        [tuple(load_of([lengths[document] for document in members]) for members in rank) for rank in assignment]
        for assignment in assignments
    ]
    timed = dict(zip((r for each in ranks for r in each), times.of([r for each in ranks for r in each]), strict=True))
    judged = []
    for assignment, each in zip(assignments, ranks, strict=True):
        own = [timed[rank] for rank in each]
        known = [one for one in own if one is not None]
        judged.append(Judged(assignment, known if len(known) == len(own) else None))
    return judged

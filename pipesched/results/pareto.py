"""Makespan against memory: which schedules of a comparison another one dominates."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.results.comparison import Comparison
from pipesched.results.outcome import Outcome
from pipesched.schedulers.options import labelled


class ParetoPoint(NamedTuple):
    """A schedule among others, and the options of its algorithm.

    Makespan and memory are in the user's units; `memory` is what the largest device holds at most, static memory
    included; `dominated_by` is the position of the first point that dominates this one; `file` is where a plan
    was read.
    """

    outcome: Outcome
    options: Mapping[str, Any]
    makespan: Fraction
    memory: Fraction
    dominated_by: int | None = None
    file: str = ""

    @property
    def label(self) -> str:
        """The name of the algorithm, with what it recomputes and offloads."""
        return labelled(self.outcome.algorithm, self.options)

    @property
    def fits(self) -> bool:
        """Whether the schedule keeps its budget."""
        return self.outcome.schedule.fits

    def dominates(self, other: ParetoPoint) -> bool:
        """Return whether this schedule is no worse than `other` in makespan and memory, and better in one of them.

        Equals do not dominate each other, and what is over its budget dominates nothing that fits.
        """
        mine, theirs = (self.makespan, self.memory), (other.makespan, other.memory)
        no_worse = self.makespan <= other.makespan and self.memory <= other.memory
        return no_worse and mine != theirs and (self.fits or not other.fits)


def pareto_points(comparison: Comparison) -> list[ParetoPoint]:
    """Return the schedules of the entries that apply, best first, each with what dominates it."""
    points = [
        ParetoPoint(entry.outcome, entry.options, *entry.rank[2:], file=entry.file)
        for entry in comparison.ranked()
        if entry.outcome is not None
    ]
    above = (next((place for place, other in enumerate(points) if other.dominates(point)), None) for point in points)
    return [point._replace(dominated_by=place) for point, place in zip(points, above, strict=True)]

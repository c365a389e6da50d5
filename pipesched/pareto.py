"""Makespan against memory: which schedules of a comparison are dominated by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from pipesched.comparison import Entry, ranked
from pipesched.outcome import Outcome


class Standing(NamedTuple):
    """A schedule among others, and the options of its algorithm.

    Makespan and peak are in the user's units, the peak that of the activations of the largest device; `dominated_by` is
    the place of the first standing that dominates this one.
    """

    outcome: Outcome
    options: Mapping[str, Any]
    makespan: Fraction
    peak: Fraction
    dominated_by: int | None = None

    @property
    def fits(self) -> bool:
        """Whether the schedule keeps its budget."""
        return self.outcome.schedule.fits

    def dominates(self, other: Standing) -> bool:
        """Neither longer nor with a larger peak, and less in one of both. Equals do not dominate each other, and
        what is over its budget dominates nothing that fits.
        """
        mine, theirs = (self.makespan, self.peak), (other.makespan, other.peak)
        no_worse = self.makespan <= other.makespan and self.peak <= other.peak
        return no_worse and mine != theirs and (self.fits or not other.fits)


def standings(entries: Sequence[Entry]) -> list[Standing]:
    """The schedules of the entries that apply, ranked, each with what dominates it."""
    points = [_point(entry.outcome, entry.options) for entry in ranked(entries) if entry.outcome]
    return [point._replace(dominated_by=_first_above(point, points)) for point in points]


def _first_above(point: Standing, points: Sequence[Standing]) -> int | None:
    return next((place for place, other in enumerate(points) if other.dominates(point)), None)


def _point(outcome: Outcome, options: Mapping[str, Any]) -> Standing:
    schedule = outcome.schedule
    time, memory = schedule.problem.costs.scale, schedule.problem.memory.scale
    makespan, peak = Fraction(schedule.makespan, time), Fraction(max(schedule.peak_memory), memory)
    return Standing(outcome, options, makespan, peak)

"""Orders by rule: as the microbatches are given, by their work, and in verl's way."""

from __future__ import annotations

from dataclasses import replace

from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY

GIVEN, VERL, BEST = WORDS = ("given", "verl", "best")
Order = tuple[int, ...]  # of microbatches


def given(problem: Problem) -> Order:
    """Return the microbatches by their numbers."""
    return tuple(range(problem.microbatches))


def verl(problem: Problem) -> Order:
    """Return the order of verl's `rearrange_micro_batches`: small ones at both ends, the largest in the middle."""
    descending = by_work(problem)[::-1]
    return descending[::2][::-1] + descending[1::2]


def by_work(problem: Problem) -> Order:
    """Return the microbatches by rising work, equal ones by their numbers."""
    work = works(problem)
    return tuple(sorted(given(problem), key=lambda one: (work[one], one)))


def rules(problem: Problem) -> list[Order]:
    """Return the orders from which a search begins: as given, verl's, by rising and by falling work."""
    rising = by_work(problem)
    return [given(problem), verl(problem), rising, rising[::-1]]


def works(problem: Problem) -> list[int]:
    """Return the work of each microbatch on all stages, F and B, on devices of speed 1: in ticks of that problem."""
    lasts = replace(problem, speed=None, links=None).unit_ticks.lasts
    kinds = ("forward",) if problem.mode == FORWARD_ONLY else ("forward", "backward")
    units = [sum(column) for column in zip(*(row for kind in kinds for row in lasts[kind]), strict=True)]
    count = problem.slices.count
    return [sum(units[first : first + count]) for first in range(0, len(units), count)]

"""What memory forbids: points that miss it by little and may be faster than the best, each by its estimates.

Most points that miss their memory are never simulated; what is known of them are bounds, less than the shortage and
more than the rate. So the few that bounds say may be of interest are estimated once the search is done: as they are,
which says by how much they miss it, and as if memory were no limit, which says what they could reach. A cut into stages
that is made for too little memory is slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from time import time
from typing import Any, NamedTuple

from pipesched.config.estimate import DEFAULTS
from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.errors import PipeschedError
from pipesched.estimation.hardware import MOST
from pipesched.estimation.setup import Setup
from pipesched.tuning.result import OverMemory
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import Layout, SpacePoint
from pipesched.tuning.trial import Trial, TrialTask, estimate_of_point, trial_of

MOST_SHOWN = 3
MOST_TRIED = 32  # points that are estimated for that
LARGEST_SHARE = 0.1  # of a GPU's memory: what misses more is no matter of small changes


class WishTask(NamedTuple):
    """What estimates a point that misses its memory, if by no more than `most_over` GB; `only`: for this trainer."""

    trial: TrialTask
    most_over: float
    only: str | None = None


class _Missing(NamedTuple):
    """A point that does not fit: `over` by so many GB at least, and `most`, a rate that it does not exceed."""

    point: SpacePoint
    over: float
    most: float


def wish_tasks(search: SpaceSearch, until: float) -> list[WishTask]:
    """Return what may miss its memory by little and be faster than the best: what misses least by bounds comes first.

    Of the algorithms of a layout that were not simulated that of the best point counts, else a usual one.
    """
    best, space = search.best, search.space
    if best is None:
        return []
    most_over = float(space.capacity) * LARGEST_SHARE
    bounded = [
        _Missing(SpacePoint(one.layout, name), one.over, one.most)
        for one in search.forbidden
        if one.most > best.rate
        for name in one.algorithms
    ]
    names = (best.point.algorithm, *DEFAULTS)
    first: dict[Layout, _Missing] = {}
    for one in sorted(bounded, key=lambda one: _place(names, one.point.algorithm)):
        first.setdefault(one.point.layout.in_one_chunk, one)
    known = [_Missing(trial.point, -trial.spare, inf) for trial in search.trials if not trial.fits]
    near = [one for one in (*known, *first.values()) if one.over <= most_over]
    chosen = sorted(near, key=lambda one: (one.over, -one.most, one.point.key))[:MOST_TRIED]
    return [
        WishTask(TrialTask(one.point, space.setup(one.point.layout), space.given, until), most_over, space.only)
        for one in chosen
    ]


def _place(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else len(names)


def wish(task: WishTask) -> OverMemory | None:
    """Return by how much a point misses its memory, and what it reaches without that limit.

    None where it misses more than is asked for, cannot be estimated, or once time is up.
    """
    own = task.trial
    try:
        with under(Clock(max(own.until - time(), 0.0))):
            trial = trial_of(own.point, estimate_of_point(own))
            if trial.fits or -trial.spare > task.most_over or not trial.suits(task.only):
                return None
            free = estimate_of_point(own._replace(setup=_without_limit(own.setup), given=_no_budget(own.given)))
    except (PipeschedError, TimeIsUp):
        return None
    return OverMemory(*own.point, -trial.spare, max(free.step.tokens_per_second_per_gpu, trial.rate))


def _without_limit(setup: Setup) -> Setup:
    return replace(setup, hardware=replace(setup.hardware, memory=MOST))


def _no_budget(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "budget"}


def nearest_wishes(wishes: Iterable[OverMemory], best: Trial) -> tuple[OverMemory, ...]:
    """Return those that may be faster than the best, what misses least first, one a layout."""
    first: dict[Layout, OverMemory] = {}
    for one in sorted(wishes, key=lambda one: (one.over, -one.most)):
        if one.most > best.rate:
            first.setdefault(one.layout.in_one_chunk, one)
    return tuple([*first.values()][:MOST_SHOWN])

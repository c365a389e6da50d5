"""How sure the rows of a search are: estimates of each once more, where processes are, and what tells rows apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from itertools import takewhile
from time import time
from typing import NamedTuple

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.errors import PipeschedError
from pipesched.estimation.result import Estimate
from pipesched.estimation.trust.answers import Trust
from pipesched.estimation.trust.judge import Judge
from pipesched.estimation.trust.measure import WhatToMeasure, what_to_measure
from pipesched.estimation.trust.speed import DECIDED, SpeedRatio, ratios
from pipesched.executors.batches import map_batches
from pipesched.tuning.space import Space, SpacePoint
from pipesched.tuning.trial import Trial, TrialTask, estimate_of_point

MOST_REORDERED = 20  # rows, at least, among which one's own runs may change the order
TOGETHER = 20  # rows that are compared with the first at once


class JudgeTask(NamedTuple):
    """What tells how sure a point is."""

    trial: TrialTask
    judge: Judge


def judged(task: JudgeTask) -> Trust | None:
    """Return how sure a point is; None once time is up."""
    try:
        with under(Clock(max(task.trial.until - time(), 0.0))):
            return task.judge.trust(estimate_of_point(task.trial))
    except (PipeschedError, TimeIsUp):
        return None


def trust_of_solved(judge: Judge, solved: Estimate, start: Estimate) -> Trust:
    """Return how sure a schedule is that `solve` found; its evidence is that of the estimate that it started from."""
    return judge.trust(replace(solved, outcome=replace(solved.outcome, algorithm=start.outcome.algorithm)))


def with_trust(
    space: Space,
    trials: Sequence[Trial],
    known: Mapping[SpacePoint, Trust],
    judge: Judge,
    pool: Executor | None,
    clock: Clock,
    until: float,
) -> list[Trial]:
    """Return trials with how sure they are, as far as time allows; of `known` points that is not asked again."""
    found = [trial if trial.trust else replace(trial, trust=known.get(trial.point)) for trial in trials]
    left = [number for number, trial in enumerate(found) if trial.trust is None]
    points = [found[number].point for number in left]
    calls = [JudgeTask(TrialTask(one, space.setup(one.layout), space.given, until), judge) for one in points]
    with closing(map_batches(pool, judged, calls, str, clock)) as results:
        try:
            for number, trust in zip(left, results, strict=True):
                found[number] = replace(found[number], trust=trust)
        except TimeIsUp:
            pass
    return found


def by_expected(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials by the rate that is expected, the highest first; those that nothing is known of come last."""
    return sorted(trials, key=lambda one: -one.trust.tokens_per_second_per_gpu.expected if one.trust else 0.0)


def with_behind(rows: Sequence[Trial], first: Trial | None = None) -> list[Trial]:
    """Return rows with the ratio of the first one's step to theirs; `first`: a row that is not among them."""
    if first is None:
        return [*rows[:1], *with_behind(rows[1:], rows[0])] if rows else []
    found = [*rows]
    compared = [number for number, row in enumerate(rows) if row.trust is not None and first.trust is not None]
    for begin in range(0, len(compared), TOGETHER):
        part = compared[begin : begin + TOGETHER]
        for number, ratio in zip(part, against_first([first, *(rows[number] for number in part)])[1:], strict=True):
            found[number] = replace(rows[number], behind=ratio)
    return found


def against_first(rows: Sequence[Trial]) -> list[SpeedRatio]:
    """Return the time of the first row's step over that of each; how sure they are must be known of all."""
    standings = [row.trust.standing for row in rows if row.trust is not None]
    return ratios(standings[0].model, [one.run for one in standings], [one.time for one in standings])


def tied(rows: Sequence[Trial]) -> int:
    """Return how many rows lead, the first included, of which none is known to be slower than the first."""
    leading = takewhile(lambda row: row.behind is not None and row.behind.faster < DECIDED, rows[1:])
    return len(rows[:1]) + sum(1 for _ in leading)


def measured_first(rows: Sequence[Trial]) -> WhatToMeasure | None:
    """Return which two of the rows to measure first; None where that helps little."""
    known = [*takewhile(lambda row: row.trust is not None, rows)]
    standings = [row.trust.standing for row in known if row.trust is not None]
    if len(standings) < 2:
        return None
    return what_to_measure(standings[0].model, [one.run for one in standings], [one.time for one in standings])

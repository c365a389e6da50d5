"""How sure the rows of a search are, what tells them apart, and what lies outside of measured runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from pipesched.core.clock import Clock, TimeIsUp
from pipesched.errors import PipeschedError
from pipesched.estimation.layout import read_layout
from pipesched.estimation.result import Estimate
from pipesched.estimation.setup import Setup
from pipesched.estimation.trust.evidence import DECIDED, SpeedRatio, Trust, ratios
from pipesched.estimation.trust.facts import RunFacts
from pipesched.estimation.trust.inside import Judge, WhatToMeasure, fields_outside, what_to_measure
from pipesched.tuning.prune import facts_of_point
from pipesched.tuning.result import Unmeasured
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import Space, SpacePoint, first_of_each
from pipesched.tuning.trial import Trial, TrialTask, before, estimate_of_point, results_in_time, until_end

MOST_REORDERED = 20  # rows, at least, among which what is expected decides the order
TOGETHER = 20  # rows that are compared with the first at once
MOST_SHOWN = 3  # points outside what was measured, or faster ones that may not fit


class JudgeTask(NamedTuple):
    """What tells how sure a point is."""

    trial: TrialTask
    judge: Judge


def judged(task: JudgeTask) -> Trust | None:
    """Return how sure a point is; None once time is up."""
    try:
        with before(task.trial.until):
            return task.judge.trust(estimate_of_point(task.trial))
    except (PipeschedError, TimeIsUp):
        return None


def trust_of_solved(judge: Judge, solved: Estimate, start: Estimate) -> Trust:
    """Return how sure a schedule is that `solve` found; its evidence is that of the estimate that it started from."""
    return judge.trust(replace(solved, outcome=replace(solved.outcome, algorithm=start.outcome.algorithm)))


def with_trust(
    space: Space, rows: list[Trial], known: dict[SpacePoint, Trust], judge: Judge, pool: Executor | None, clock: Clock
) -> list[Trial]:
    """Return rows with how sure they are, as far as time allows; of `known` points that is not asked again."""
    found, until = [row if row.trust else replace(row, trust=known.get(row.point)) for row in rows], until_end(clock)
    left = [number for number, trial in enumerate(found) if trial.trust is None]
    trials = [found[number] for number in left]
    calls = [
        JudgeTask(TrialTask(one.point, as_cut(space, one), space.given, until, only=space.only), judge)
        for one in trials
    ]
    for number, trust in zip(left, results_in_time(pool, judged, calls, clock), strict=False):
        found[number] = replace(found[number], trust=trust)
    return found


def as_cut(space: Space, trial: Trial) -> Setup:
    """Return the setup of a trial with the stages that were found for it, which need not be searched again."""
    setup = space.setup(trial.point.layout)
    if space.replaces or not trial.layout or setup.training.layout is not None:
        return setup
    chunks = len(read_layout(setup, trial.layout)) // setup.parallel.pipeline
    parallel, training = replace(setup.parallel, chunks=chunks), replace(setup.training, layout=trial.layout)
    return replace(setup, parallel=parallel, training=training)


def by_expected(trial: Trial) -> float:
    """Return a sort key: the rate that is expected, the highest first; of what nothing is known the estimated one."""
    return -(trial.rate if trial.trust is None else trial.trust.tokens_per_second_per_gpu.expected)


def to_judge(search: SpaceSearch, ranked: Sequence[Trial], top: int) -> list[Trial]:
    """Return the trials, in their order, of which so many rows may be made: the best that count, the fastest others."""
    most = max(top, MOST_REORDERED)
    best = [trial for trial in ranked if search.counts(trial)][:most]
    others = sorted((trial for trial in ranked if not search.counts(trial)), key=lambda trial: trial.rank)
    return [*(best or ranked[:1]), *[one for one in others if best or one is not ranked[0]][: max(top, MOST_SHOWN)]]


def in_order(search: SpaceSearch, trials: Sequence[Trial], top: int) -> list[Trial]:
    """Return so many rows by what is expected: those that may be the first, then the fastest others.

    Of the others those that are faster than the first row have room, up to MOST_SHOWN. Where none may be the first,
    the likeliest to fit is that all the same.
    """
    best = sorted((trial for trial in trials if search.counts(trial)), key=by_expected) or [*trials[:1]]
    others = sorted((trial for trial in trials if trial not in best), key=by_expected)
    faster = sum(by_expected(trial) < by_expected(best[0]) for trial in others[:MOST_SHOWN])
    best = best[: max(top - faster, 1)]
    return [*best, *others[: top - len(best)]]


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


def faster_outside(search: SpaceSearch, rate: float, executor: Executor | None, clock: Clock) -> list[Trial]:
    """Return at most three points outside what was measured, one a layout, with more than a rate."""
    if not search.outside or clock.is_over:
        return []

    def note(one: object) -> None:
        if isinstance(one, Trial):
            search.note(one)

    points = [(one.layout, one.algorithms) for one in search.outside]
    other = SpaceSearch(search.space, search.known, note, lambda _: search.report("beyond"), points=points, least=rate)
    other.run(executor, clock)
    faster = (trial for trial in other.fitting() if trial.rate > rate)
    return first_of_each(faster, lambda trial: trial.point.layout)[:MOST_SHOWN]


def unmeasured(space: Space, trial: Trial) -> Unmeasured:
    """Return a point with the fields that lie outside, and what would have to be measured to believe it."""
    facts = facts_of_point(space, *trial.point)
    outside = fields_outside(facts)
    ways = _ways(facts)
    said = list(dict.fromkeys(ways[one.field] for one in outside))
    nearest = trial.trust.evidence.nearest if trial.trust is not None else ()
    known = f"; nearest: {nearest[0].run}" if nearest else ""
    return Unmeasured(trial, outside, f"a step of this model {' and '.join(said)}{known}")


def _ways(facts: RunFacts) -> Mapping[str, str]:
    """Return how a run is described where a field of it lies outside what was measured."""
    tokens = f"{facts.sequence // facts.context:,} tokens a rank"
    return {
        "hardware": f"on {facts.gpu}",
        "gpus": f"on at least half of {facts.gpus:,} GPUs",
        "tensor": f"with tensor {facts.tensor} for a hidden size of {facts.hidden:,}",
        "pipeline": f"with pipeline {facts.pipeline}",
        "chunks": f"with pipeline {facts.pipeline} x chunks {facts.chunks}",
        "context": f"with context {facts.context} at {tokens}",
        "expert": f"with expert {facts.expert}",
        "expert_tensor": f"with expert_tensor {facts.expert_tensor}",
        "micro": f"with {facts.tokens:,} tokens of a microbatch on a rank" + f" of {facts.tensor}" * (facts.tensor > 1),
        "algorithm": f"under {facts.algorithm}",
        "shard": f"with shard {facts.shard}",
        "precision": f"in {facts.precision}",
    }

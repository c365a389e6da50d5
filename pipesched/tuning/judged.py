"""The best rows, looked at once more: how sure they are, what `solve` makes of them, how fast on slightly other GPUs.

A row is a `Trial`: a point of the space and its estimate. `tune` calls, in this order: `finish` (each finalist),
`with_trust` (how sure each row is), `in_order` and `with_behind` (the table), `gpu_time` (shares of a step),
`unmeasured` (what lies outside of measured runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from time import time
from typing import Any, NamedTuple

from pipesched.core.clock import Clock, TimeIsUp
from pipesched.errors import PipeschedError
from pipesched.estimation.derived import read_layout
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.result import Estimate, retimed
from pipesched.estimation.setup import Setup
from pipesched.estimation.terms import COMMUNICATION, MESSAGES, PER_MS, RECOMPUTE
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.evidence import DECIDED, SpeedRatio, Trust, ratios
from pipesched.estimation.trust.facts import ComparedRun
from pipesched.estimation.trust.inside import Judge, WhatToMeasure, fields_outside, what_to_measure
from pipesched.estimation.trust.residuals import ResidualModel
from pipesched.results.outcome import Outcome
from pipesched.tuning.prune import facts_of_point
from pipesched.tuning.result import TimeShare, Unmeasured
from pipesched.tuning.search import SpaceSearch
from pipesched.tuning.space import Space, SpacePoint
from pipesched.tuning.trial import Trial, TrialTask, before, estimate_of_point, results_in_time, trial_of, until_end

TOGETHER = 20  # rows that are compared with the first at once
MOST_SHOWN = 3  # points outside what was measured, or faster ones that may not fit


def judged(judge: Judge, task: TrialTask) -> Trust | None:
    """Return how sure a point is; None once time is up."""
    try:
        with before(task.until):
            return judge.trust(estimate_of_point(task))
    except (PipeschedError, TimeIsUp):
        return None


def with_trust(
    space: Space, rows: list[Trial], known: dict[SpacePoint, Trust], judge: Judge, pool: Executor | None, clock: Clock
) -> list[Trial]:
    """Return rows with how sure they are, as far as time allows; `known` has the answer for points asked before."""
    found, until = [row if row.trust else replace(row, trust=known.get(row.point)) for row in rows], until_end(clock)
    left = [number for number, trial in enumerate(found) if trial.trust is None]
    trials = [found[number] for number in left]
    tasks = [TrialTask(one.point, as_cut(space, one), space.given, until, only=space.only) for one in trials]
    for number, trust in zip(left, results_in_time(pool, partial(judged, judge), tasks, clock), strict=False):
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


def in_order(search: SpaceSearch, trials: Sequence[Trial], top: int) -> list[Trial]:
    """Return rows by what is expected: those that may be the first, faster others up to MOST_SHOWN, then the rest."""
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
    return ratios(*_compared(rows))


def _compared(rows: Sequence[Trial]) -> tuple[ResidualModel, list[ComparedRun], list[float]]:
    standings = [row.trust.standing for row in rows if row.trust is not None]
    return standings[0].model, [one.run for one in standings], [one.time for one in standings]


def tied(rows: Sequence[Trial]) -> int:
    """Return how many rows lead, the first included, of which none is known to be slower than the first."""
    leading = takewhile(lambda row: row.behind is not None and row.behind.faster < DECIDED, rows[1:])
    return len(rows[:1]) + sum(1 for _ in leading)


def measured_first(rows: Sequence[Trial]) -> WhatToMeasure | None:
    """Return which two of the rows to measure first; None where that helps little."""
    known = [*takewhile(lambda row: row.trust is not None, rows)]
    return what_to_measure(*_compared(known)) if len(known) > 1 else None


def unmeasured(space: Space, trial: Trial) -> Unmeasured:
    """Return a point with the fields that lie outside, and what would have to be measured to believe it."""
    facts = facts_of_point(space, *trial.point)
    outside, tokens = fields_outside(facts), f"{facts.sequence // facts.context:,} tokens a rank"
    ways = {
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
    said = list(dict.fromkeys(ways[one.field] for one in outside))
    nearest = trial.trust.evidence.nearest if trial.trust is not None else ()
    known = f"; nearest: {nearest[0].run}" if nearest else ""
    return Unmeasured(trial, outside, f"a step of this model {' and '.join(said)}{known}")


SOLVE = "solve"
UNCERTAIN = {  # what the estimate may have wrong -> the fields of Efficiency (shares of a GPU's peak) that hold it
    "matrix-product": ("gemm_forward", "gemm_input", "gemm_weight"),
    "attention": ("core", "unfused"),
    "memory": ("memory",),
    "network": ("network",),
}
FACTORS = (0.9, 1.1)
PASSES_OF_SIDE = ("forward", "backward")
GIVEN = {"forward", "backward", "backward_input", "backward_weight", "recompute", "overlap"}  # times a config may give


class Finished(NamedTuple):
    """What became of a finalist: its schedule by `solve` if better, and its rate on each of the `others`, in order."""

    estimate: Estimate
    solved: Trial | None
    rates: tuple[float, ...]
    parts: tuple[TimeShare, ...] = ()
    trust: Trust | None = None


def finish(task: TrialTask, seconds: float, judge: Judge | None = None) -> Finished | None:
    """Return what becomes of one of the best points, by `solve` too if `seconds` is above 0; None if time is up."""
    try:
        with before(task.until):
            found = estimate_of_point(task)
            elsewhere = (retimed(found, other) for other in others(found.setup.hardware))
            rates = tuple(one.step.tokens_per_second_per_gpu for one in elsewhere)
            trust = None if judge is None else judge.trust(found)
    except TimeIsUp:
        return None
    seconds = min(seconds, task.until - time())
    solved = _solved(found, seconds) if seconds > 0 else None
    if solved is None:
        return Finished(found, None, rates, trust=trust)
    trial = trial_of(task.point._replace(algorithm=SOLVE), solved)
    if judge is not None:
        own = replace(solved, outcome=replace(solved.outcome, algorithm=found.outcome.algorithm))
        trial = replace(trial, trust=judge.trust(own))  # by the evidence of what it started from
    return Finished(found, trial, rates, gpu_time(solved), trust)


def others(hardware: GpuModel) -> list[GpuModel]:
    """Return the hardware once per entry of UNCERTAIN and factor: its efficiencies times the factor, at most 1."""
    known, changes = hardware.efficiency, [(keys, factor) for keys in UNCERTAIN.values() for factor in FACTORS]
    values = ({key: min(getattr(known, key) * factor, 1.0) for key in keys} for keys, factor in changes)
    return [replace(hardware, efficiency=replace(known, **one)) for one in values]


def _solved(found: Estimate, seconds: float) -> Estimate | None:
    """Return the schedule that `solve` finds for the stages of an estimate, with offload or not, if it is better."""
    from pipesched.solver.request import SolveRequest
    from pipesched.solver.solve import solve_request

    best: Outcome = found.outcome
    problem = best.schedule.problem
    if len(problem.settled_placement.ways) > 1:
        return None  # two copies of the weights: `solve` finds such schedules for small problems only
    offloads = (False, True) if problem.costs.offload is not None else (False,)
    for offload in offloads:
        hint, limit = best.schedule if best.schedule.fits else None, seconds / len(offloads)
        try:
            how: dict[str, Any] = {"offload": offload, "workers": 1, "polish": False, "advice": False}
            asked = SolveRequest(problem, time_limit=limit, hint=hint, keeps_cuts=True, **how)
            outcome = solve_request(asked)
        except PipeschedError:
            continue
        if outcome.schedule.fits and outcome.schedule.makespan_ticks < best.schedule.makespan_ticks:
            best = outcome
    return None if best is found.outcome else Estimate(replace(best, algorithm=SOLVE), found.whole)


def gpu_time(estimate: Estimate) -> tuple[TimeShare, ...]:
    """Return the shares of the GPU time of a step, the largest first; they sum up to 1."""
    step = estimate.step
    problem = estimate.problem
    whole, microbatches = step.time * problem.devices, range(problem.microbatches)
    # Side work (an image encoder, say) runs beside the stages.
    beside = sum(float(item.time(key, one)) for item in problem.side for key in PASSES_OF_SIDE for one in microbatches)
    if GIVEN & {*estimate.cutter.replaced}:  # times of the config, in place of those that have terms
        schedule = estimate.outcome.schedule
        updates = 0 if schedule.step is None else sum(schedule.step.time("optimizer"))
        sums = {"forwards and backwards": float(sum(schedule.busy) - updates) - beside}
    else:
        sums = dict[str, float]()  # of all operations by what they are made of
        for items in estimate.items.each:
            for term in chain.from_iterable(getattr(items.times, operation) for operation in OPERATIONS):
                kind = COMMUNICATION if term.kind == MESSAGES else term.kind
                sums[kind] = sums.get(kind, 0.0) + float(term.value) * estimate.setup.microbatches
        again = sum(estimate.items.each[n].time("recompute") for stage in estimate.stages for n in stage.again)
        sums[RECOMPUTE] = sums.get(RECOMPUTE, 0.0) + again / PER_MS * estimate.setup.microbatches
        ticks, plan, shorter = problem.ticks, estimate.outcome.schedule.plan, 0  # what pairs take less than their parts
        for pair in plan.pairs.items():
            stage, other = map(plan.index.stage_of, pair)
            parts = ticks.mean["forward"][stage] + ticks.mean["backward"][other]
            shorter += parts - (ticks.mean["overlap"][stage] if "overlap" in ticks.mean else parts)
        hidden = shorter / ticks.per_unit
        for kind in (COMMUNICATION, RECOMPUTE):  # which may dispatch and combine again
            part = min(hidden, sums.get(kind, 0.0))
            sums[kind], hidden = sums.get(kind, 0.0) - part, hidden - part
    sums["side work"] = beside
    sums["gradients and parameters"] = step.communication * problem.devices
    sums["optimizer"] = step.optimizer * problem.devices
    sums["idle"] = max(whole - sum(sums.values()), 0.0)
    shares = [TimeShare(name, value / whole) for name, value in sums.items() if value > 0]
    return tuple(sorted(shares, key=lambda one: -one.share))

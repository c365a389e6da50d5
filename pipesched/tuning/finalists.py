"""The best layouts, looked at once more: what `solve` makes of them, how fast they are on slightly other GPUs.

And where the GPU time of a step goes: products, attention, memory traffic, communication, idle time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from time import time
from typing import Any, NamedTuple

from pipesched.core.clock import TimeIsUp
from pipesched.errors import PipeschedError
from pipesched.estimation.hardware import GpuModel
from pipesched.estimation.result import Estimate, retimed
from pipesched.estimation.terms import COMMUNICATION, MESSAGES, PER_MS, RECOMPUTE
from pipesched.estimation.times import OPERATIONS
from pipesched.estimation.trust.evidence import Trust
from pipesched.estimation.trust.inside import Judge
from pipesched.results.outcome import Outcome
from pipesched.tuning.judged import trust_of_solved
from pipesched.tuning.result import TimeShare
from pipesched.tuning.trial import Trial, TrialTask, before, estimate_of_point, trial_of

SOLVE = "solve"
SHARES = {  # what may be off -> the fields of Efficiency that are it
    "matrix-product": ("gemm_forward", "gemm_input", "gemm_weight"),
    "attention": ("core", "unfused"),
    "memory": ("memory",),
    "network": ("network",),
}
FACTORS = (0.9, 1.1)
PASSES_OF_SIDE = ("forward", "backward")
GIVEN = {"forward", "backward", "backward_input", "backward_weight", "recompute", "overlap"}  # of make_problem


class Finalist(NamedTuple):
    """One of the best points, how many seconds `solve` may take for it (0: it does not run), and what judges it."""

    task: TrialTask
    seconds: float
    judge: Judge | None = None


class Finished(NamedTuple):
    """What became of a finalist: its rate for each share and factor, its schedule by `solve`, GPU time and trust."""

    estimate: Estimate
    solved: Trial | None
    rates: tuple[float, ...]
    parts: tuple[TimeShare, ...] = ()
    trust: Trust | None = None


def finish(finalist: Finalist) -> Finished | None:
    """Return what becomes of a finalist; None once time is up."""
    task = finalist.task
    try:
        with before(task.until):
            found = estimate_of_point(task)
            elsewhere = (retimed(found, other) for other in others(found.setup.hardware))
            rates = tuple(one.step.tokens_per_second_per_gpu for one in elsewhere)
            trust = None if finalist.judge is None else finalist.judge.trust(found)
    except TimeIsUp:
        return None
    seconds = min(finalist.seconds, task.until - time())
    solved = _solved(found, seconds) if seconds > 0 else None
    if solved is None:
        return Finished(found, None, rates, trust=trust)
    trial = trial_of(task.point._replace(algorithm=SOLVE), solved)
    if finalist.judge is not None:
        trial = replace(trial, trust=trust_of_solved(finalist.judge, solved, found))
    return Finished(found, trial, rates, gpu_time(solved), trust)


def others(hardware: GpuModel) -> list[GpuModel]:
    """Return the hardware with each share as much off as each factor says; none is above 1."""
    known, changes = hardware.efficiency, [(keys, factor) for keys in SHARES.values() for factor in FACTORS]
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
    beside = sum(float(item.time(key, one)) for item in problem.side for key in PASSES_OF_SIDE for one in microbatches)
    if GIVEN & {*estimate.cutter.replaced}:  # times of the config, in place of those that have terms
        schedule = estimate.outcome.schedule
        updates = 0 if schedule.step is None else sum(schedule.step.time("optimizer"))
        sums = {"forwards and backwards": float(sum(schedule.busy) - updates) - beside}
    else:
        sums = _derived(estimate)
        hidden = _hidden(estimate)
        for kind in (COMMUNICATION, RECOMPUTE):  # which may dispatch and combine again
            part = min(hidden, sums.get(kind, 0.0))
            sums[kind], hidden = sums.get(kind, 0.0) - part, hidden - part
    sums["side work"] = beside
    sums["gradients and parameters"] = step.communication * problem.devices
    sums["optimizer"] = step.optimizer * problem.devices
    sums["idle"] = max(whole - sum(sums.values()), 0.0)
    shares = [TimeShare(name, value / whole) for name, value in sums.items() if value > 0]
    return tuple(sorted(shares, key=lambda one: -one.share))


def _hidden(estimate: Estimate) -> float:
    """Return the milliseconds by which pairs are shorter than their parts."""
    schedule, ticks = estimate.outcome.schedule, estimate.problem.ticks
    plan = schedule.plan
    hidden = 0
    for forward, backward in plan.pairs.items():
        stage, other = map(plan.index.stage_of, (forward, backward))
        parts = ticks.mean["forward"][stage] + ticks.mean["backward"][other]
        hidden += parts - (ticks.mean["overlap"][stage] if "overlap" in ticks.mean else parts)
    return hidden / ticks.per_unit


def _derived(estimate: Estimate) -> dict[str, float]:
    """Return the milliseconds of all operations by what they are made of."""
    microbatches = estimate.setup.microbatches
    sums: dict[str, float] = {}
    for item in estimate.items.each:
        for term in chain.from_iterable(getattr(item.times, operation) for operation in OPERATIONS):
            kind = COMMUNICATION if term.kind == MESSAGES else term.kind
            sums[kind] = sums.get(kind, 0.0) + float(term.value) * microbatches
    again = (estimate.items.each[number] for stage in estimate.stages for number in stage.again)
    sums[RECOMPUTE] = sums.get(RECOMPUTE, 0.0) + sum(item.time("recompute") for item in again) / PER_MS * microbatches
    return sums

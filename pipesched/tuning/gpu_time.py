"""Where the GPU time of a step goes: products, attention, memory traffic, communication, idle time."""

from __future__ import annotations

from itertools import chain

from pipesched.estimation.result import Estimate
from pipesched.estimation.terms import COMMUNICATION, MESSAGES, PER_MS, RECOMPUTE
from pipesched.estimation.times import OPERATIONS
from pipesched.tuning.result import TimeShare

GIVEN = {"forward", "backward", "backward_input", "backward_weight", "recompute", "overlap"}  # of make_problem


def gpu_time(estimate: Estimate) -> tuple[TimeShare, ...]:
    """Return the shares of the GPU time of a step, the largest first; they sum up to 1."""
    step = estimate.step
    whole = step.time * estimate.problem.devices
    sums = _given(estimate) if GIVEN & {*estimate.cutter.replaced} else _derived(estimate)
    sums["gradients and parameters"] = step.communication * estimate.problem.devices
    sums["optimizer"] = step.optimizer * estimate.problem.devices
    sums["idle"] = max(whole - sum(sums.values()), 0.0)
    shares = [TimeShare(name, value / whole) for name, value in sums.items() if value > 0]
    return tuple(sorted(shares, key=lambda one: -one.share))


def _given(estimate: Estimate) -> dict[str, float]:
    """Return the milliseconds of all operations, where the config gives times in place of those that have terms."""
    return {"forwards and backwards": float(sum(estimate.outcome.schedule.busy))}


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

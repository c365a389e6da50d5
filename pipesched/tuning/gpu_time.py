"""Where the GPU time of a step goes: products, attention, memory traffic, communication, idle time."""

from __future__ import annotations

from pipesched.estimation.communication import MESSAGES
from pipesched.estimation.items import PER_MS
from pipesched.estimation.result import Estimate
from pipesched.estimation.terms import Terms
from pipesched.estimation.times import OPERATIONS
from pipesched.tuning.result import TimeShare

PRODUCTS, ATTENTION, TRAFFIC = "matrix products", "attention", "memory traffic"
COMMUNICATION, LAUNCHES, AGAIN = "communication in layers", "kernels and launches", "recompute"
KIND = {  # name of a term -> what it counts as; all others are matrix products
    "attention core": ATTENTION,
    "softmax of attention": ATTENTION,
    "elementwise": TRAFFIC,
    "loss": TRAFFIC,
    "look-up": TRAFFIC,
    "gradient of the rows": TRAFFIC,
    "tensor-parallel communication": COMMUNICATION,
    "ring of keys and values": COMMUNICATION,
    "tensor-parallel communication of experts": COMMUNICATION,
    "dispatch and combine": COMMUNICATION,
    MESSAGES: COMMUNICATION,
    "kernels": LAUNCHES,
    "waits for the host": LAUNCHES,
}
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
        for operation in OPERATIONS:
            for name, value in _terms(getattr(item.times, operation)):
                sums[name] = sums.get(name, 0.0) + value * microbatches
    again = (estimate.items.each[number] for stage in estimate.stages for number in stage.again)
    sums[AGAIN] = sums.get(AGAIN, 0.0) + sum(item.time("recompute") for item in again) / PER_MS * microbatches
    return sums


def _terms(terms: Terms) -> list[tuple[str, float]]:
    """Return the terms of an operation as what they count as, in milliseconds."""
    return [
        (AGAIN if term.name.startswith("again:") else KIND.get(term.name, PRODUCTS), float(term.value))
        for term in terms
    ]

"""A finished plan with recompute and offload in it, as training frameworks do both.

A recomputed forward runs again directly before its backward, once the gradient for it is there. An activation that is
offloaded leaves as soon as its forward has ended, and is prefetched: its load may start as the slot before its backward
does. Only the order of the plan decides, so a plan that runs still runs: each of these operations stands where all that
it waits for comes before it in the order of its device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.shared_lanes import shared_lanes
from pipesched.schedulers.savings import Savings

AGAIN = Allowed(recompute=True).letters
OUT, BACK = tuple(Allowed(offload=True).letters)
LEAST = 3  # slots from a forward to its backward: one beside the offload, one beside the load, and the backward itself


def saved_plan(problem: Problem, plan: Plan, savings: Savings) -> Plan:
    """Return `plan` with the activations of these stages recomputed and offloaded."""
    if savings.recompute:
        plan = with_recompute(plan, savings.recompute)
    return with_offload(problem, plan, savings.offload) if savings.offload else plan


def with_recompute(plan: Plan, stages: range) -> Plan:
    """Return `plan` with a recompute of every microbatch of `stages` directly before its backward.

    That is B, I, or the pair which holds it. The recompute waits for the input gradient of the next stage.
    """
    index = plan.index.with_letters(AGAIN)
    again = _by_backward(index, stages, AGAIN)
    return replace(
        plan,
        index=index,
        orders=[[*_with_each_before(order, plan.pairs, again)] for order in plan.orders],
        waits=[*plan.waits, *_after_gradients(plan, index, stages)],
    )


def _by_backward(index: OpIndex, stages: range, kind: str) -> dict[int, int]:
    """Return for each B and I of `stages` the operation of a kind on the same stage and microbatch."""
    rows = ((index.row(gradient, stage), index.row(kind, stage)) for gradient in index.gradients for stage in stages)
    return {backward: number for pair in rows for backward, number in zip(*pair, strict=True)}


def _with_each_before(order: Sequence[int], pairs: Mapping[int, int], again: Mapping[int, int]) -> Iterator[int]:
    """Yield an order with the entry of `again` before each backward that has one."""
    for number in order:
        backward = pairs.get(number, number)
        if backward in again:
            yield again[backward]
        yield number


def _after_gradients(plan: Plan, index: OpIndex, stages: range) -> Iterator[tuple[int, int]]:
    """Yield a wait edge (before, after) for each recompute that has a next stage: from the B or I there."""
    waiting = {
        backward: again
        for kind in index.gradients
        for stage in stages
        if stage + 1 < index.stages
        for backward, again in zip(index.row(kind, stage + 1), index.row(AGAIN, stage), strict=True)
    }
    for number in chain(*plan.orders, plan.pairs.values()):
        if number in waiting:
            yield number, waiting[number]


def with_offload(problem: Problem, plan: Plan, stages: range) -> Plan:
    """Return `plan` with an offload and a load of every microbatch of `stages` whose backward does not come too soon.

    Where fewer than two slots lie between forward and backward, the activation stays: nothing would be gained.
    """
    index = plan.index.with_letters(OUT + BACK)
    forward_of = _by_backward(index, stages, "F")
    devices = [_transfers(order, plan.pairs, index, forward_of) for order in plan.orders]
    waits = [*plan.waits, *chain.from_iterable(waits for _, waits in devices)]
    own = replace(plan, index=index, lanes=(), waits=waits)
    lanes = [lanes for lanes, _ in devices]
    if problem.lanes == "pair":
        lanes = shared_lanes(problem, replace(own, lanes=lanes))
    return replace(own, lanes=lanes)


def _transfers(
    order: Sequence[int], pairs: Mapping[int, int], index: OpIndex, forward_of: Mapping[int, int]
) -> tuple[LanePair, list[tuple[int, int]]]:
    """Return the offloads of a device in the order of the forwards and the loads in that of the backwards.

    With them what the loads wait for.
    """
    place = {number: position for position, number in enumerate(order)}
    gone, waits = [], []
    for position, number in enumerate(order):
        forward = forward_of.get(pairs.get(number, number))
        if forward is not None and position - place[forward] >= LEAST:
            gone.append(forward)
            waits.append((order[position - 2], index.counterpart(forward, BACK)))
    offloads = [index.counterpart(forward, OUT) for forward in sorted(gone, key=place.__getitem__)]
    return LanePair(offloads, [load for _, load in waits]), waits

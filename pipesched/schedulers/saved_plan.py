"""Recompute and offload as options of every family (`savings`), and a finished plan with both (`saved_plan`).

A recomputed forward runs again directly before its backward, once the gradient for it is there. An activation that is
offloaded leaves as soon as its forward has ended, and is prefetched: its load may start as the slot before its backward
does. Only the order of the plan decides, so a plan that runs still runs. Each of these operations stands where all that
it waits for comes before it in the order of its device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import Any

from pipesched.errors import NotApplicable
from pipesched.pipeline.bounds.memory import require_offload, require_recompute
from pipesched.pipeline.layers.layers import rows_of
from pipesched.pipeline.plan.plan import LanePair, Plan
from pipesched.pipeline.problem.costs import entries_of
from pipesched.pipeline.problem.kinds import MemorySavings
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, to_fraction
from pipesched.schedulers.family import Family
from pipesched.schedulers.options import FULL, OFFLOAD, RECOMPUTE


def savings(problem: Problem, family: Family, recompute: Any, offload: Any) -> tuple[range, range]:
    """Return which stages a family recomputes and which it offloads by these options; one of them is not None.

    `problem` is the one that the family runs, with its number of stages. Where both are given, the smaller number takes
    the first stages and the larger those behind them. Raises NotApplicable for more stages than there are, for the same
    number twice, and for a family that obeys a budget; or where the costs hold a recompute already;
    ConfigError where the problem has no cost of an offload.
    """
    key = OFFLOAD if recompute is None else RECOMPUTE
    if family.obeys_budget and problem.memory.budget is not None:
        raise NotApplicable(
            f"{family.name} fits its whole activations into the budget, so {key} would only take time; solve with"
            f" {key} decides both together",
            key,
        )
    if offload is not None:
        require_offload(problem)
    if recompute is not None:
        require_recompute(problem)
    again = first_stages(problem, family, RECOMPUTE, recompute)
    away = first_stages(problem, family, OFFLOAD, offload)
    if again == away and counts_layers(problem, RECOMPUTE, recompute):
        raise NotApplicable(
            f"recompute {recompute} takes layers of every stage of {family.name}, so offload takes fewer than all"
            f" {away} stages: those are offloaded whole",
            OFFLOAD,
        )
    if again == away:
        raise NotApplicable(
            f"recompute and offload both take the first {again} stages of {family.name}; give different numbers: the"
            " smaller takes the first stages, the larger those behind them",
            OFFLOAD,
        )
    return range(away if away < again else 0, again), range(again if again < away else 0, away)


def first_stages(problem: Problem, family: Family, key: str, value: Any) -> int:
    """Return how many stages an option names: all of them for `full`, none where it is not given."""
    if value is None:
        return 0
    if value == FULL or counts_layers(problem, key, value):
        return problem.stages
    number: int = value
    if number > problem.stages:
        raise NotApplicable(
            f"{family.name} runs {problem.stages} stages here, so {key} takes {FULL} or at most {problem.stages}, not"
            f" {number}",
            key,
        )
    return number


def counts_layers(problem: Problem, key: str, value: Any) -> bool:
    """Return whether the value of an option is a number of layers of each stage."""
    return key == RECOMPUTE and problem.layers is not None and value is not None and value != FULL


def with_fewer_layers(problem: Problem, family: Family, recompute: Any) -> Problem:
    """Return `problem` as a number of layers to recompute leaves it; the same problem where that is no such number.

    A recompute of a stage then runs so many of its layers again, or all that it has; of the activation everything else
    stays. Raises NotApplicable for more layers than any stage has.
    """
    layers = problem.layers
    if layers is None or not counts_layers(problem, RECOMPUTE, recompute):
        return problem
    if recompute > max(layers.layout):
        raise NotApplicable(
            f"the stages of {family.name} have at most {max(layers.layout)} layers here, so recompute takes {FULL} or"
            f" at most {max(layers.layout)}, not {recompute}",
            RECOMPUTE,
        )
    spans = [(begin, min(begin + recompute, end)) for begin, end in layers.spans]
    each, rows = layers.layer.sums("activation", layers.count), rows_of(layers.layer.activation)
    own = layers.layer.checkpoint
    kept = own if own is None or isinstance(own, tuple) else (own,) * layers.count
    shares = []
    for (begin, end), size, part in zip(spans, problem.memory.activation, problem.memory.checkpoint, strict=True):
        parts = map(to_fraction, (part,) * (end - begin) if kept is None else kept[begin:end])
        freed = sum(((each[at + 1] - each[at]) * (1 - one) for at, one in enumerate(parts, begin)), Fraction(0))
        whole = sum(entries_of(size, rows), Fraction(0))
        shares.append(canonical(1 - freed / whole) if whole else part)
    return replace(
        problem,
        costs=replace(problem.costs, recompute=tuple(layers.of_spans("recompute", spans))),
        memory=replace(problem.memory, checkpoint=tuple(shares)),
    )


AGAIN = MemorySavings(recompute=True).letters
OUT, BACK = tuple(MemorySavings(offload=True).letters)
LEAST = 3  # slots from a forward to its backward: one beside the offload, one beside the load, and the backward itself


def saved_plan(plan: Plan, recompute: range, offload: range) -> Plan:
    """Return `plan` with the activations of these stages recomputed and offloaded."""
    if recompute:  # directly before B, I, or the pair which holds it; it waits for the next stage's gradient
        index, pairs, stages = plan.index.with_letters(AGAIN), plan.pairs, recompute
        again = _by_backward(index, stages, AGAIN)
        behind = _by_backward(index, range(stages.start + 1, min(stages.stop + 1, index.stages)), AGAIN)
        step = index.units  # from a stage to the next one
        waits = [(one, behind[one] - step) for one in chain(*plan.orders, pairs.values()) if one in behind]
        rows = (((again.get(pairs.get(one, one)), one) for one in order) for order in plan.orders)
        orders = [[one for both in row for one in both if one is not None] for row in rows]
        plan = replace(plan, index=index, orders=orders, waits=[*plan.waits, *waits])
    if not offload:
        return plan
    index = plan.index.with_letters(OUT + BACK)
    forward_of = _by_backward(index, offload, "F")
    devices = [_transfers(order, plan.pairs, index, forward_of) for order in plan.orders]
    waits = [*plan.waits, *chain.from_iterable(waits for _, waits in devices)]
    return replace(plan, index=index, lanes=[lanes for lanes, _ in devices], waits=waits)


def _by_backward(index: OpIndex, stages: range, kind: str) -> dict[int, int]:
    """Return for each B and I of `stages` the operation of a kind on the same stage and microbatch."""
    rows = ((index.row(gradient, stage), index.row(kind, stage)) for gradient in index.gradients for stage in stages)
    return {backward: number for pair in rows for backward, number in zip(*pair, strict=True)}


def _transfers(
    order: Sequence[int], pairs: Mapping[int, int], index: OpIndex, forward_of: Mapping[int, int]
) -> tuple[LanePair, list[tuple[int, int]]]:
    """Return the lanes of a device, offloads as its forwards, loads as its backwards, and what the loads wait for.

    Where fewer than two slots lie between forward and backward, the activation stays: nothing would be gained.
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

"""The step around the passes of a plan: where weights are gathered, gradients reduced and optimizers run.

Families order passes alone. Below level weights each stage is gathered once, at the head of the lane. At level weights
PyTorch's rule holds: before each pass the next few distinct stages of the device are whole, and others are freed
(torch.distributed.pipelining, `_add_unshard_reshard`). Gradients are reduced directly behind the last backward that
they need, and optimizers run behind all other slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipesched.pipeline.ops import NO_NUMBER, Op, StepOp
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import FULL, GRADIENTS, WEIGHTS
from pipesched.pipeline.step_plan import NOTHING_BEFORE, NetworkEntry, slots_of_step, with_scoped
from pipesched.pipeline.step_side import side_first
from pipesched.pipeline.units import FORWARD_ONLY

Issued = tuple[Op, int]  # an operation of the lane, and the slot behind which it is issued


def with_step(problem: Problem, plan: Plan) -> Plan:
    """Return `plan` with the step of `problem` by the rule: what of it a plan has already stays as it is.

    A plan with optimizers or side work among its slots gets the programs of its lanes alone.
    """
    if not problem.has_step or plan.network:
        return plan
    return with_programs(problem, plan if plan.index.scoped else _with_slots(problem, plan))


def with_programs(problem: Problem, plan: Plan) -> Plan:
    """Return the plan with the programs of its network lanes by the rule."""
    return _renumbered(problem, plan, network_programs(problem, plan))


def _with_slots(problem: Problem, plan: Plan) -> Plan:
    """Return the plan with optimizers and side work among its slots."""
    before, behind = side_first(problem, plan)
    parts = zip(before, plan.orders, behind, optimizers(problem, plan), strict=True)
    return with_slots(problem, plan, [[*head, *order, *tail, *last] for head, order, tail, last in parts])


def with_slots(problem: Problem, plan: Plan, rows: Sequence[Sequence[int | Op]]) -> Plan:
    """Return the plan with these slots of each device: the numbers of its passes, and operations of the step."""
    index = with_scoped(plan.index, (op for row in rows for op in row if isinstance(op, Op)), len(problem.side))
    orders = [[index.number(one) if isinstance(one, Op) else one for one in row] for row in rows]
    return replace(plan, index=index, orders=orders)


def _renumbered(problem: Problem, plan: Plan, programs: Sequence[Sequence[Issued]]) -> Plan:
    """Return the plan with programs, and with the numbers that its operations then have."""
    index = plan.index
    known = [index.op(number) for number in slots_of_step(plan.orders, index)]
    wider = with_scoped(index, [*known, *(op for program in programs for op, _ in program)], len(problem.side))
    new = {index.number(op): wider.number(op) for op in known}
    orders = [[new.get(number, number) for number in order] for order in plan.orders] if known else plan.orders
    network = [[NetworkEntry(wider.number(op), new.get(after, after)) for op, after in one] for one in programs]
    waits = [(new.get(before, before), new.get(after, after)) for before, after in plan.waits]
    return replace(plan, index=wider, orders=orders, network=network, waits=waits)


def optimizers(problem: Problem, plan: Plan) -> Iterator[list[Op]]:
    """Yield the optimizers of each device, by the last backward of their stages; stages with tied weights last."""
    ends, has_optimizer = _tied_stages(problem), problem.costs.optimizer is not None
    for order in plan.orders if has_optimizer else [()] * problem.devices:
        last = last_backwards(plan, order)
        stages = sorted(last, key=lambda stage: (stage in ends, last[stage]))
        yield [StepOp._make((stage, "OPTIMIZER", NO_NUMBER, 0)) for stage in stages]


def _tied_stages(problem: Problem) -> tuple[int, ...]:
    """Return the first and the last stage where they reduce tied gradients between two devices."""
    there = problem.settled_placement.devices
    return (0, problem.stages - 1) if problem.costs.tied is not None and there[0] != there[-1] else ()


def last_backwards(plan: Plan, order: Sequence[int]) -> dict[int, int]:
    """Return the place in an order of the last B or W of each stage."""
    return {stage: places[-1] for stage, places in _backwards(plan, order, each=False).items()}


def _backwards(plan: Plan, order: Sequence[int], *, each: bool) -> dict[int, list[int]]:
    """Return the places in an order of the B and W of each stage; with `each`, by stage and then microbatch."""
    index, pairs, first = plan.index, plan.pairs, plan.index.passes
    weights = [index.of_kind(kind) for kind in "BW" if kind in index.letters]
    found: dict[int, list[int]] = {}
    for place, number in enumerate(order):
        one = pairs.get(number, number)
        if one < first and any(one in row for row in weights):
            key = index.stage_of(one) * index.microbatches + index.microbatch_of(one) if each else index.stage_of(one)
            found.setdefault(key, []).append(place)
    return found


def network_programs(problem: Problem, plan: Plan) -> list[list[Issued]]:
    """Return the program of each device's lane by the rule: operations, each with the slot behind which it stands."""
    programs = []
    for device, order in enumerate(plan.orders):
        issued: dict[int, list[Op]] = {}  # by the place of the slot behind which they stand, -1: before the first
        for place, op in _reductions(problem, plan, order):
            issued.setdefault(place, []).append(op)
        for place, op in _residency(problem, plan, device, order):
            issued.setdefault(place, []).append(op)
        programs.append(
            [(op, NOTHING_BEFORE if place < 0 else order[place]) for place in sorted(issued) for op in issued[place]]
        )
    ends = _tied_stages(problem)
    for stage in ends:
        device = problem.settled_placement.devices[stage]
        programs[device].append((StepOp._make((stage, "REDUCE_TIED", NO_NUMBER, 0)), NOTHING_BEFORE))
    return programs


def _reductions(problem: Problem, plan: Plan, order: Sequence[int]) -> Iterator[tuple[int, Op]]:
    """Yield reductions with the place of the last backward that each needs."""
    shard = problem.sharding
    if (problem.costs.reduce is None and not shard.divides(GRADIENTS)) or problem.mode == FORWARD_ONLY:
        return
    each, count = shard.reduces_each, problem.microbatches
    for key, places in sorted(_backwards(plan, order, each=each).items(), key=lambda entry: entry[1][-1]):
        stage, number = divmod(key, count) if each else (key, NO_NUMBER)
        yield places[-1], StepOp._make((stage, "REDUCE_GRAD", number, 0))


def _residency(problem: Problem, plan: Plan, device: int, order: Sequence[int]) -> Iterator[tuple[int, Op]]:
    """Yield gathers and frees of weights with the place of the slot behind which each stands."""
    places = _passes(plan, order)
    if problem.sharding.divides(WEIGHTS):
        yield from _turns(places, ahead_of(problem, device))
    elif problem.costs.gather is not None:
        for stage in dict.fromkeys(stage for _, stages in places for stage in stages):
            yield NOTHING_BEFORE, StepOp._make((stage, "UNSHARD", 0, 0))


def _passes(plan: Plan, order: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the place of each slot that needs weights, with its stage, of a pair with both."""
    index, pairs, first = plan.index, plan.pairs, plan.index.passes
    stage_of = index.stage_of
    return [
        (place, (stage_of(number), stage_of(pairs[number])) if number in pairs else (stage_of(number),))
        for place, number in enumerate(order)
        if number < first
    ]


def ahead_of(problem: Problem, device: int) -> int:
    """Return how many stages of a device are whole at once."""
    ahead, there = problem.sharding.ahead, problem.settled_placement.devices
    if isinstance(ahead, tuple):
        return ahead[device]
    return there.count(device) if ahead == FULL else int(ahead)


def _turns(places: Sequence[tuple[int, tuple[int, ...]]], ahead: int) -> Iterator[tuple[int, Op]]:
    """Yield UNSHARD and RESHARD: before each pass, its stage and the next ones are whole, `ahead` of them in all."""
    turns: dict[int, int] = {}
    whole: Sequence[int] = ()

    def op(kind: str, stage: int) -> Op:
        return StepOp._make((stage, kind, turns[stage], 0))

    for (place, _), near in zip(places, _next_stages([stages for _, stages in places], ahead), strict=True):
        behind = place - 1
        for stage in sorted({*whole}.difference(near)):
            yield behind, op("RESHARD", stage)
        for stage in near:
            if stage not in whole:
                turns[stage] = turns.get(stage, -1) + 1
                yield behind, op("UNSHARD", stage)
        whole = near
    for stage in sorted(whole):
        yield places[-1][0], op("RESHARD", stage)


def _next_stages(rows: Sequence[tuple[int, ...]], ahead: int) -> list[list[int]]:
    """Return for each pass the distinct stages from there on, in order, until there are `ahead`.

    A pair adds both of its stages before they are counted. It goes backwards, and knows where each stage comes next.
    """
    found: list[list[int]] = [[] for _ in rows]
    coming: dict[int, int] = {}  # all stages behind a place, the nearest first, with the place where they come
    for place in range(len(rows) - 1, -1, -1):
        coming = {**dict.fromkeys(rows[place], place), **{s: at for s, at in coming.items() if s not in rows[place]}}
        near = found[place]
        for stage, at in coming.items():
            if len(near) >= ahead and at != coming[near[-1]]:
                break
            near.append(stage)
    return found

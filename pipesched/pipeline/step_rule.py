"""The step around the passes of a plan: where weights are gathered, gradients reduced and optimizers run.

Families order passes alone. Below level weights each stage is gathered once, at the head of the lane. At level weights
PyTorch's rule holds: before each pass the next few distinct stages of the device are whole, and others are freed
(torch.distributed.pipelining, `_add_unshard_reshard`). With `shard.gather` each a stage is gathered directly before
what finds it sharded, and freed behind each forward, as FSDP does by itself. Gradients are reduced directly behind the
last backward that they need, and optimizers run behind all other slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from pipesched.pipeline.kinds import NETWORK_KINDS, STEP_SLOTS
from pipesched.pipeline.ops import NO_NUMBER, Op, StepOp
from pipesched.pipeline.plan import (
    NOTHING_BEFORE,
    NetworkEntry,
    Plan,
    ends_of_stages,
    stages_along,
    with_parts,
    with_scoped,
)
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step import FULL, WEIGHTS
from pipesched.pipeline.step_jobs import reduces, tied_stages

OpsOfDevices = list[list[Op]]


def side_first(problem: Problem, plan: Plan) -> tuple[OpsOfDevices, OpsOfDevices]:
    """Return for each device the side work before its passes, and that behind them.

    Of each item the microbatch that is fed as the m-th runs on the m-th of its devices, modulo their number; forwards
    and backwards stand by microbatch, then by item.
    """
    before: OpsOfDevices = [[] for _ in range(problem.devices)]
    behind: OpsOfDevices = [[] for _ in range(problem.devices)]
    firsts = {number: place for place, number in enumerate(plan.index.row("F", 0)[:: plan.index.slices])}
    fed = (firsts[number] for order in plan.orders for number in order if number in firsts) if problem.side else ()
    for turn, microbatch in enumerate(fed):
        for number, item in enumerate(problem.side):
            device = item.devices[turn % len(item.devices)]
            before[device].append(StepOp._make((number, "E", microbatch, 0)))
            if item.backward is not None:
                behind[device].append(StepOp._make((number, "G", microbatch, 0)))
    return before, behind


Issued = tuple[Op, int]  # an operation of the lane, and the slot behind which it is issued


def with_step(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> Plan:
    """Return `plan` with the step of `problem` by the rule: what of it a plan has already stays as it is.

    A plan with optimizers or side work among its slots gets the programs of its lanes alone. `given` are programs of
    the devices, which take the place of the rule for gathers and frees, and for the reductions of the stages they name.
    """
    if not problem.has_step or plan.network:
        return plan
    return with_programs(problem, plan if plan.index.scoped else _with_slots(problem, plan), given)


def with_programs(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> Plan:
    """Return a plan of all slots with the programs of its network lanes; `given` are those of `with_step`."""
    programs, index = network_programs(problem, plan, given), plan.index
    slots = (index.op(number) for kind in STEP_SLOTS for number in index.of_kind(kind))
    index = with_scoped(index, [*slots, *(op for program in programs for op, _ in program)], len(problem.side))
    rows = {(kind, stage): row for kind in NETWORK_KINDS for stage, row in enumerate(index.rows(kind))}
    network = [
        [NetworkEntry(rows[op.kind, op.stage][max(op.microbatch, 0)], after) for op, after in program]
        for program in programs
    ]
    return with_parts(plan, index=index, network=network)


def _with_slots(problem: Problem, plan: Plan) -> Plan:
    before, behind = side_first(problem, plan)
    ends = [(head, (*tail, *last)) for head, tail, last in zip(before, behind, optimizers(problem, plan), strict=True)]
    index = with_scoped(plan.index, (op for both in ends for part in both for op in part), len(problem.side))
    number = index.number  # of passes it is what it was: only the ends are looked at
    rows = zip(ends, plan.orders, strict=True)
    orders = [[*map(number, head), *order, *map(number, tail)] for (head, tail), order in rows]
    return with_parts(plan, index=index, orders=orders)


def with_slots(problem: Problem, plan: Plan, rows: Sequence[Sequence[int | Op]]) -> Plan:
    """Return the plan with these slots of each device: the numbers of its passes, and operations of the step."""
    index = with_scoped(plan.index, (op for row in rows for op in row if isinstance(op, Op)), len(problem.side))
    orders = [[index.number(one) if isinstance(one, Op) else one for one in row] for row in rows]
    return with_parts(plan, index=index, orders=orders)


def optimizers(problem: Problem, plan: Plan) -> Iterator[list[Op]]:
    """Yield the optimizers of each device, by the last backward of their stages; stages with tied weights last."""
    tied = tied_stages(problem)
    for device in range(problem.devices):
        last = {} if problem.costs.optimizer is None else _last_backwards(problem, plan, device)
        stages = sorted(last, key=lambda stage: (stage in tied, last[stage]))
        yield [StepOp._make((stage, "OPTIMIZER", NO_NUMBER, 0)) for stage in stages]


def _last_backwards(problem: Problem, plan: Plan, device: int) -> dict[int, int]:
    """Return the place of the last B or W of each stage of a device."""
    count = problem.settled_placement.devices.count(device)
    return ends_of_stages(plan.orders[device], plan.pairs, plan.index, count)


def network_programs(problem: Problem, plan: Plan, given: Sequence[Sequence[Issued]] = ()) -> list[list[Issued]]:
    """Return the program of each device's lane by the rule: operations, each with the slot behind which it stands.

    `given` are programs as those of `with_step`.
    """
    programs = []
    for device, order in enumerate(plan.orders):
        own = given[device] if given else None
        reduced = {op.stage for op, _ in own or () if op.kind == "REDUCE_GRAD"}
        issued: dict[int, list[Op]] = {}  # by the place of the slot behind which they stand, -1: before the first
        for place, op in _reductions(problem, plan, device):
            if op.stage not in reduced:
                issued.setdefault(place, []).append(op)
        for place, op in _residency(problem, plan, device, order) if own is None else _placed(own, order):
            issued.setdefault(place, []).append(op)
        programs.append(
            [(op, NOTHING_BEFORE if place < 0 else order[place]) for place in sorted(issued) for op in issued[place]]
        )
    for stage in tied_stages(problem):
        device = problem.settled_placement.devices[stage]
        programs[device].append((StepOp._make((stage, "REDUCE_TIED", NO_NUMBER, 0)), NOTHING_BEFORE))
    return programs


def _placed(program: Sequence[Issued], order: Sequence[int]) -> Iterator[tuple[int, Op]]:
    """Yield the operations of a program with the places of the slots behind which they stand."""
    places = {number: place for place, number in enumerate(order)}
    for op, after in program:
        yield places.get(after, NOTHING_BEFORE), op


def _reductions(problem: Problem, plan: Plan, device: int) -> Iterator[tuple[int, Op]]:
    """Yield reductions with the place of the last backward that each needs."""
    if not reduces(problem):
        return
    if problem.sharding.reduces_each:
        count = problem.settled_placement.devices.count(device)
        yield from _reductions_of_each(plan, plan.orders[device], count)
        return
    last = _last_backwards(problem, plan, device)
    for stage in sorted(last, key=last.__getitem__):
        yield last[stage], StepOp._make((stage, "REDUCE_GRAD", NO_NUMBER, 0))


def _reductions_of_each(plan: Plan, order: Sequence[int], count: int) -> Iterator[tuple[int, Op]]:
    """Yield the reductions of each stage and microbatch with the place of the last B or W of its slices."""
    index, pairs = plan.index, plan.pairs
    numbers = [pairs.get(slot, slot) for slot in order] if pairs else order
    places = dict(zip(numbers, range(len(order)), strict=True))
    kinds = [kind for kind in "BW" if kind in index.letters]
    last: list[tuple[int, int, int]] = []
    for stage in stages_along(order, pairs, index, count):
        rows = [index.row(kind, stage)[part :: index.slices] for kind in kinds for part in range(index.slices)]
        for microbatch, needed in enumerate(zip(*rows, strict=True)):
            last.append((max(map(places.get, needed, repeat(-1))), stage, microbatch))
    for place, stage, microbatch in sorted(last):
        if place >= 0:
            yield place, StepOp._make((stage, "REDUCE_GRAD", microbatch, 0))


def _residency(problem: Problem, plan: Plan, device: int, order: Sequence[int]) -> Iterator[tuple[int, Op]]:
    """Yield gathers and frees of weights with the place of the slot behind which each stands."""
    if problem.sharding.divides(WEIGHTS):
        places = _passes(plan, order)
        is_each = problem.sharding.gathers_each
        yield from _turns_of_each(plan, order, places) if is_each else _turns(places, ahead_of(problem, device))
    elif problem.costs.gather is not None:
        for stage in stages_along(order, plan.pairs, plan.index, problem.settled_placement.devices.count(device)):
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
        if near == whole:
            continue
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


def _turns_of_each(
    plan: Plan, order: Sequence[int], places: Sequence[tuple[int, tuple[int, ...]]]
) -> Iterator[tuple[int, Op]]:
    """Yield UNSHARD before each pass of a sharded stage, RESHARD behind each forward and behind the last pass."""
    last = {stage: place for place, stages in places for stage in stages}
    turns = dict.fromkeys(last, 0)
    whole: set[int] = set()
    for place, stages in places:
        for stage in dict.fromkeys(stages):
            if stage not in whole:
                whole.add(stage)
                yield place - 1, StepOp._make((stage, "UNSHARD", turns[stage], 0))
        of_forward = {*stages[:1]}.difference(stages[1:]) if plan.index.kind_of(order[place]) == "F" else set()
        for stage in sorted(of_forward.union(stage for stage in stages if last[stage] == place)):
            whole.remove(stage)
            yield place, StepOp._make((stage, "RESHARD", turns[stage], 0))
            turns[stage] += 1


def _next_stages(rows: Sequence[tuple[int, ...]], ahead: int) -> list[list[int]]:
    """Return for each pass the distinct stages from there on, in order, until there are `ahead`.

    A pair adds both of its stages before they are counted. It goes backwards, and knows where each stage comes next.
    """
    found: list[list[int]] = [[] for _ in rows]
    coming: dict[int, int] = {}  # all stages behind a place, the nearest first, with the place where they come
    for place in range(len(rows) - 1, -1, -1):
        here = rows[place]
        if coming and here == (next(iter(coming)),):  # the nearest again: it stays so
            coming[here[0]] = place
        else:
            coming = {**dict.fromkeys(here, place), **{s: at for s, at in coming.items() if s not in here}}
        near = found[place]
        for stage, at in coming.items():
            if len(near) >= ahead and at != coming[near[-1]]:
                break
            near.append(stage)
    return found

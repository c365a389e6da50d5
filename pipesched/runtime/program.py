"""From a schedule to what each rank does: its operations, and between them its messages and transfers, in one order.

`checked_schedule` takes a file, a document or a Schedule, and checks it. `programs` makes the list of each rank, of
`ProgramStep`s, which `engine.py` runs.

All ranks' lists are parts of one sequence, in which every message is sent and received at the moment that its operation
has run. So no rank can wait for another that waits for it, even where a send blocks until it is received; and two ranks
exchange their messages in the same order. What a step has beside its passes (gathers, reductions, optimizers) is called
for where the program of the plan has it, behind the slot that it names. Tied gradients, which two ranks reduce
together, are called for at one moment of the sequence.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.arrays import column, np
from pipesched.core.timing import in_order
from pipesched.errors import ConfigError, InvalidSchedule, PipeschedWarning, WrongOperation
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.lowering import lower_plan, waits_of_times
from pipesched.pipeline.plan.message_programs import without_messages
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.pipeline.problem.kinds import KINDS, STEP_KINDS, STEP_SLOTS
from pipesched.pipeline.problem.ops import Op
from pipesched.pipeline.problem.placement import Placement
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.results.outcome import Outcome
from pipesched.results.run import run
from pipesched.schedulers.registry import is_known

RUN, SEND, RECEIVE, CALL = "run", "send", "receive", "call"
TIED = "REDUCE_TIED"


def checked_schedule(source: object, name: str = "source", problem: Problem | None = None) -> Schedule:
    """Return the schedule of a path, a document (a mapping, or its JSON text) or an Outcome, or the Schedule itself.

    `problem` goes with the path of a CSV, or with the name of an algorithm, which schedules it. `name` is the parameter
    that the source was given as. Raises ConfigError for what cannot be read as a schedule, for slices, for forwards
    alone and for side work. Raises InvalidSchedule, naming operations, for one that breaks the rules of its problem: an
    operation that is missing or stands twice, an order that cannot run.
    """
    try:
        schedule = _schedule_of(source, problem)
    except WrongOperation as error:
        raise InvalidSchedule(str(error)) from None
    except ConfigError as error:
        if error.key == "problem":
            raise
        raise ConfigError(error.message, name, entry=error.entry, where=error.where) from None
    own = schedule.problem
    if own.slices.count > 1:
        raise ConfigError(f"has {own.slices.count} slices a microbatch; training runs whole microbatches", name)
    if own.mode == FORWARD_ONLY:
        raise ConfigError("is of forwards alone (`mode` forward); training runs backwards too", name)
    if own.side:
        raise ConfigError("has side work (`side`), for which training has no modules", name)
    return checked(schedule)


def _schedule_of(source: object, problem: Problem | None) -> Schedule:
    """Return the schedule, by what `source` is: an algorithm, a path, a document, an Outcome or a Schedule."""
    if is_known(source, loads=True):
        if problem is None:
            name = source if isinstance(source, str) else shown(source)
            raise ConfigError(f"is missing: what {name} schedules", "problem")
        return run(problem, source).schedule  # type: ignore[arg-type]
    if isinstance(source, Mapping):
        source = json.dumps(source)
    if isinstance(source, (str, Path)) and not str(source).lstrip().startswith("{"):
        from pipesched.file_formats.files import read

        source = read(source, problem=problem)
    elif problem is not None:
        raise ConfigError("goes with an algorithm or a CSV; a schedule has its own", "problem")
    if isinstance(source, str):
        from pipesched.documents.schedule import parse

        source = parse(source, "the document")
    if isinstance(source, Outcome) and isinstance(source.schedule, Schedule):
        return source.schedule
    if isinstance(source, Schedule):
        return source
    raise ConfigError(f"must be a Schedule, or the document of one or its path, not {shown(source)}", "source")


class ProgramStep(NamedTuple):
    """One entry of a rank's list: run an operation, or send or receive what one gives to the neighbouring stage.

    Operations of the step beside its passes are for the user's code to run, which is called. `offloads` are how many
    of this rank must have ended before an operation begins, as it takes what they gave back.
    """

    action: str
    op: Op
    peer: int = -1  # of a message: the other rank
    offloads: int = 0

    def __str__(self) -> str:
        return str(self.op) if self.action == RUN else f"{self.action} {self.op}"


def taker_of(op: Op, stages: int) -> int | None:
    """Return the stage that takes what an operation gives: the next one a forward's output, the one before a gradient.

    None where none does.
    """
    needs = (need for kind in KINDS.values() for need in kind.needs if need.letter == op.kind and need.stage)
    return next((op.stage - need.stage for need in needs if 0 <= op.stage - need.stage < stages), None)


def programs(schedule: Schedule) -> list[list[ProgramStep]]:
    """Return the list of each device. Raises InvalidSchedule (Deadlock) for an order that cannot run.

    Where a plan has transfers and no wait edges, they follow from its times; so do the offloads whose memory an
    operation takes, always. Edges between two devices are not waited for: they change neither results nor memory.
    """
    plan, order, waits = schedule.plan, _in_one_sequence(schedule), list[tuple[int, int]]()
    if any(chain.from_iterable(plan.lanes)):
        waits = waits_of_times(schedule.graph, schedule.start_ticks, order, schedule.problem.devices)
        plan = plan if plan.waits else replace(plan, waits=waits)
    placement, index = schedule.problem.settled_placement, plan.index
    issued = [_issued(plan, device) for device in range(schedule.problem.devices)]
    # Of each device what stands in its list, with its SEND and the transfers behind it, and where operations stand.
    rows = [[[], *_calls(behind.get(NOTHING_BEFORE, ()))] for behind in issued]
    places: list[dict[int, int]] = [{} for _ in issued]
    earlier = _predecessors_of_transfers(plan)
    offloads = _offloads_before(plan, placement, {*plan.waits, *waits})
    for number in order:
        if number >= index.passes:  # of the step: what devices run themselves stands in their lists
            if index.kind_of(number) in (*STEP_SLOTS, TIED):
                device = placement.devices[index.stage_of(number)]
                rows[device] += _calls([index.op(number), *issued[device].get(number, ())])
            continue
        together = [number, *([plan.pairs[number]] if number in plan.pairs else [])]
        ended = max(offloads.get(one, 0) for one in together)
        for op in map(index.op, together):
            device = _device(index.number(op), plan, placement)
            step = ProgramStep(RUN, op, offloads=ended)
            if KINDS[op.kind].is_transfer:
                known = (places[device].get(before, 0) for before in earlier.get(number, ()))
                places[device][number] = place = max(known, default=0)  # behind the last that it waits for
                rows[device][place].append(step)
                continue
            places[device][index.number(op)] = len(rows[device])
            rows[device].append([step])
            target = taker_of(op, index.stages)
            other = device if target is None else placement.device(target, op.microbatch, index.microbatches)
            if other != device:
                rows[device][-1].append(ProgramStep(SEND, op, other))
                rows[other].append([ProgramStep(RECEIVE, op, device)])
        rows[device] += _calls(issued[device].get(number, ()))
    return [[*chain(*row)] for row in rows]


def _calls(ops: Iterable[Op]) -> list[list[ProgramStep]]:
    return [[ProgramStep(CALL, op)] for op in ops]


def _issued(plan: Plan, device: int) -> dict[int, list[Op]]:
    """Return what is issued on a network lane behind each slot, in the order of its program, but for tied gradients."""
    issued: dict[int, list[Op]] = {}
    for number, after in plan.network[device] if plan.network else ():
        op = plan.index.op(number)
        if op.kind != TIED:
            issued.setdefault(after, []).append(op)
    return issued


def warn_left_out(schedule: Schedule) -> None:
    """Give the warning that nobody runs what a step has beside its passes, about the caller's caller."""
    kinds = [kind for kind in STEP_KINDS if kind in schedule.plan.index.kinds]
    if kinds:
        what = f"{', '.join(kinds)} of the schedule: left out, as there is no `collective` of a Runtime to run them"
        warnings.warn(what, PipeschedWarning, stacklevel=3)


def _predecessors_of_transfers(plan: Plan) -> dict[int, list[int]]:
    """Return for each transfer what it waits for: its counterpart, the one before it on its lane, its wait edges."""
    index, before = plan.index, dict[int, list[int]]()
    for lane in chain.from_iterable(plan.lanes):
        for place, number in enumerate(lane):
            kind = KINDS[index.op(number).kind]
            counterparts = [index.counterpart(number, need.letter) for need in kind.needs if not need.slice]
            before[number] = [*counterparts, *lane[max(place - 1, 0) : place]]
    for first, second in plan.waits:
        if second in before:
            before[second].append(first)
    return before


def _offloads_before(plan: Plan, placement: Placement, waits: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return how many offloads of its device an operation waits for: those that `waits` names, and all before these."""
    places = {number: place for lanes in plan.lanes for place, number in enumerate(lanes.offloads, 1)}
    waiting = Counter[int]()
    for first, second in waits if places else ():
        if first in places and _device(first, plan, placement) == _device(second, plan, placement):
            waiting[second] = max(places[first], waiting[second])
    return waiting


def _device(number: int, plan: Plan, placement: Placement) -> int:
    op = plan.index.op(number)
    return placement.device(op.stage, op.microbatch, plan.index.microbatches)


def _in_one_sequence(schedule: Schedule) -> list[int]:
    """Return the tasks of the whole plan by their starts, each behind all that it waits for on any device or lane."""
    plan = without_messages(schedule.plan)  # a list has its sends and receives by this sequence
    orders = chain.from_iterable(map(pairwise, plan.machines))
    graph = lower_plan(schedule.problem, replace(plan, waits=[*plan.waits, *orders]))
    planned = [*chain.from_iterable(plan.machines)]

    def key(task: int) -> tuple[int, int, int]:
        return schedule.start_ticks[task], schedule.end_ticks[task], task

    order: list[int] = in_order(graph, column(planned), np.argsort(sorted(range(len(graph)), key=key))).tolist()
    if len(order) < len(planned):
        schedule_plan(schedule.problem, plan)  # says which operations wait for each other
        raise InvalidSchedule("the operations of the plan wait for each other")
    return order

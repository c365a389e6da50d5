"""From a schedule to what each rank does: its operations, and between them its messages and transfers, in one order.

All ranks' lists are parts of one sequence, in which every message is sent and received at the moment that its operation
has run. So no rank can wait for another that waits for it, even where a send blocks until it is received; and two ranks
exchange their messages in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from typing import NamedTuple

from pipesched.errors import InvalidSchedule
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.ops import Op
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.pipeline.waits import waits_of_times

RUN, SEND, RECEIVE = "run", "send", "receive"


class ProgramStep(NamedTuple):
    """One entry of a rank's list: run an operation, or send or receive what one gives to the neighbouring stage."""

    action: str
    op: Op
    peer: int = -1  # of a message: the other rank

    def __str__(self) -> str:
        return str(self.op) if self.action == RUN else f"{self.action} {self.op}"


class StageMessage(NamedTuple):
    """What an operation gives to a neighbouring stage, and the stage that takes it."""

    op: Op
    target: int


def message_of(op: Op, stages: int) -> StageMessage | None:
    """Return the message of an operation: a forward's output to the next stage, a gradient to the one before."""
    for kind in KINDS.values():
        for need in kind.needs:
            if need.letter == op.kind and need.stage and 0 <= op.stage - need.stage < stages:
                return StageMessage(op, op.stage - need.stage)
    return None


def programs(schedule: Schedule) -> list[list[ProgramStep]]:
    """Return the list of each device. Raises InvalidSchedule (Deadlock) for an order that cannot run.

    Where a plan has transfers and no wait edges, they follow from its times. Those between two devices are not waited
    for: they change neither results nor the memory of a device.
    """
    plan, order = schedule.plan, _in_one_sequence(schedule)
    if any(chain.from_iterable(plan.lanes)) and not plan.waits:
        waits = waits_of_times(schedule.graph, schedule.start_ticks, order, schedule.problem.devices)
        plan = replace(plan, waits=waits)
    placement, index = schedule.problem.settled_placement, plan.index
    rows = [_Row() for _ in range(schedule.problem.devices)]
    earlier = _predecessors_of_transfers(plan)
    for number in order:
        for op in [index.op(number), *([index.op(plan.pairs[number])] if number in plan.pairs else [])]:
            device = placement.device(op.stage, op.microbatch, index.microbatches)
            if KINDS[op.kind].is_transfer:
                rows[device].add_transfer(op, number, earlier.get(number, ()))
                continue
            rows[device].add(op, index.number(op))
            message = message_of(op, index.stages)
            if message is not None:
                other = placement.device(message.target, op.microbatch, index.microbatches)
                if other != device:
                    rows[device].send(op, other)
                    rows[other].receive(op, device)
    return [row.steps() for row in rows]


class _Row:
    """The list of one device under construction: transfers stand directly behind the last that they wait for."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, ProgramStep]] = []
        self._places: dict[int, int] = {}
        self._count = 0

    def _append(self, step: ProgramStep) -> None:
        self._count += 1
        self._entries.append((self._count, 0, 0, step))

    def add(self, op: Op, number: int) -> None:
        self._append(ProgramStep(RUN, op))
        self._places[number] = self._count

    def send(self, op: Op, peer: int) -> None:
        self._entries.append((self._count, 1, 0, ProgramStep(SEND, op, peer)))

    def receive(self, op: Op, peer: int) -> None:
        self._append(ProgramStep(RECEIVE, op, peer))

    def add_transfer(self, op: Op, number: int, earlier: Sequence[int]) -> None:
        place = max((self._places[before] for before in earlier if before in self._places), default=0)
        self._places[number] = place
        self._entries.append((place, 2, len(self._entries), ProgramStep(RUN, op)))

    def steps(self) -> list[ProgramStep]:
        return [entry[-1] for entry in sorted(self._entries, key=lambda entry: entry[:3])]


def _predecessors_of_transfers(plan: Plan) -> dict[int, list[int]]:
    """Return for each transfer what it waits for: its counterpart, the one before it on its lane, its wait edges."""
    index, before = plan.index, dict[int, list[int]]()
    for lane in chain.from_iterable(plan.lanes):
        for number in lane:
            kind = KINDS[index.op(number).kind]
            before[number] = [index.counterpart(number, need.letter) for need in kind.needs if not need.slice]
        for first, second in pairwise(lane):
            before[second].append(first)
    for first, second in plan.waits:
        if second in before:
            before[second].append(first)
    return before


def _in_one_sequence(schedule: Schedule) -> list[int]:
    """Return the tasks of the whole plan by their starts, each behind all that it waits for on any device or lane."""
    plan = schedule.plan
    orders = chain.from_iterable(map(pairwise, plan.machines))
    graph = lower_plan(schedule.problem, replace(plan, waits=[*plan.waits, *orders]))
    waiting = [len(before) for before in graph.predecessors]
    planned = [*chain.from_iterable(plan.machines)]

    def key(task: int) -> tuple[int, int, int]:
        return schedule.start_ticks[task], schedule.end_ticks[task], task

    ready, order = [key(task) for task in planned if not waiting[task]], list[int]()
    heapify(ready)
    while ready:
        task = heappop(ready)[-1]
        order.append(task)
        for after, _ in graph.successors[task]:
            waiting[after] -= 1
            if not waiting[after]:
                heappush(ready, key(after))
    if len(order) < len(planned):
        schedule_plan(schedule.problem, plan)  # says which operations wait for each other
        raise InvalidSchedule("the operations of the plan wait for each other")
    return order

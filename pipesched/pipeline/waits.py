"""Wait edges: from times to a plan that keeps their memory.

In a plan without times, a load may come back too early, and a forward may start before the offload that makes room for
it has ended. So whatever takes memory waits for all that gave some back before it in a known good order. Then, in any
replay, at the start of whatever takes memory, at least as much was given back as in that order, and at most as much was
taken: the memory never rises above its peak in that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

from pipesched.core.tasks import NOWHERE, TaskGraph
from pipesched.core.timing import UNTIMED
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import LanePair, Plan
from pipesched.pipeline.problem import Problem


class MemoryEvent(NamedTuple):
    """An operation that takes memory at its start, or gives some back at its end; on a lane, or else in a slot."""

    number: int
    gives: bool
    on_lane: bool


def memory_waits(changes: Iterable[MemoryEvent]) -> Iterator[tuple[int, int]]:
    """Yield the wait edges (before, after) for the memory of one device, whose changes come in a good order.

    Slots wait for each other by their order, and so do the offloads of a lane; the edges join the two.
    """
    slot = offload = None
    for change in changes:
        if change.gives and change.on_lane:
            offload = change.number
        elif change.gives:
            slot = change.number
        else:
            if change.on_lane and slot is not None:
                yield slot, change.number
            if offload is not None:
                yield offload, change.number


def plan_of_times(problem: Problem, index: OpIndex, starts: Sequence[int]) -> Plan:
    """Return the plan of a legal schedule from its starts in ticks (UNTIMED: the operation does not run).

    `schedule_plan` starts nothing of it later, and no device then holds more memory (except where several operations of
    no length take and give at one instant).
    """
    graph = lower(problem, index, {number for number, start in enumerate(starts) if start == UNTIMED})
    order = _in_order_of_time(graph, starts)
    rows = graph.by_resource(order)
    lanes = rows[problem.devices :]
    return Plan(
        index,
        rows[: problem.devices],
        lanes=[LanePair(*pair) for pair in zip(lanes[::2], lanes[1::2], strict=True)],
        waits=waits_of_times(graph, starts, order, problem.devices) if lanes else [],
    )


def waits_of_times(
    graph: TaskGraph, starts: Sequence[int], order: Sequence[int], devices: int
) -> list[tuple[int, int]]:
    """Return the wait edges (before, after) with which a schedule keeps its memory.

    `starts` are in ticks; `order` holds the tasks that run by their starts, each behind all that it waits for.
    """
    return [*chain.from_iterable(memory_waits(changes) for changes in _changes(graph, starts, order, devices))]


def _in_order_of_time(graph: TaskGraph, starts: Sequence[int]) -> list[int]:
    """Return what runs by start, then end; at one instant by precedence, and what gives memory before what takes it."""

    def key(task: int) -> tuple[int, int, bool, int]:
        return starts[task], starts[task] + graph.durations[task], graph.takes[task] > 0, task

    waiting = [len(before) for before in graph.predecessors]
    ready = [key(task) for task, there in enumerate(graph.resources) if there != NOWHERE and not waiting[task]]
    heapify(ready)
    order = []
    while ready:
        task = heappop(ready)[-1]
        order.append(task)
        for after, _ in graph.successors[task]:
            waiting[after] -= 1
            if not waiting[after]:
                heappush(ready, key(after))
    return order


def _changes(
    graph: TaskGraph, starts: Sequence[int], order: Sequence[int], devices: int
) -> Iterator[list[MemoryEvent]]:
    """Yield the memory changes of each device in order of time; what is given at a time precedes what is taken then."""
    events: list[list[tuple[int, int, MemoryEvent]]] = [[] for _ in range(devices)]
    for position, number in enumerate(order):
        start, end, on_lane = (
            starts[number],
            starts[number] + graph.durations[number],
            graph.resources[number] >= devices,
        )
        if graph.takes[number]:
            events[graph.pools[number]].append((start, position, MemoryEvent(number, False, on_lane)))
        if graph.gives[number]:
            rank = position if start == end else -1
            events[graph.pools[number]].append((end, rank, MemoryEvent(number, True, on_lane)))
    for happened in events:
        yield [change for _, _, change in sorted(happened, key=lambda event: event[:2])]

"""The moves in the order of a device that shorten a schedule, each timed exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pipesched.analysis.reasons.explanation import OrderMove
from pipesched.analysis.reasons.timed import timed_tasks
from pipesched.core.clock import look
from pipesched.core.order_moves import candidate_moves, moved
from pipesched.core.reasons import TimedTasks
from pipesched.core.timing import Times, earliest_times
from pipesched.errors import Deadlock
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule, timed_schedule

MOST_RETIMED = 5_000_000  # operations, over all moves
MOST_MOVES = 10


class _Found(NamedTuple):
    """A move that gains; of equal makespans the one that was tried first comes first."""

    makespan: int
    number: int
    task: int
    start: int
    to: int


def best_moves(schedule: Schedule, tasks: TimedTasks) -> tuple[list[OrderMove], bool]:
    """Return the ten moves with the least makespan that shorten a schedule, and whether all were timed.

    `tasks` are those of the schedule, which is at its earliest times. A move leaves the order of all others; the budget
    is not looked at.
    """
    most = max(MOST_RETIMED // max(len(tasks.topological), 1), 1)
    found: list[_Found] = []
    is_complete = True
    for number, (task, start, to) in enumerate(candidate_moves(tasks)):
        if number == most:
            is_complete = False
            break
        look()
        times = _retimed(schedule, tasks, task, start, to)
        makespan = _makespan(tasks, times)
        if makespan < tasks.makespan:
            found.append(_Found(makespan, number, task, start, to))
    return [_move(schedule, tasks, move) for move in sorted(found)[:MOST_MOVES]], is_complete


def moved_before(schedule: Schedule, pairs: Iterable[tuple[int, int]]) -> Iterator[int | float | None]:
    """Yield, for each pair of a device's operations, the makespan once the first stands directly before the second.

    They are numbers of the plan; times are the earliest. None where that order cannot run.
    """
    tasks = timed_tasks(schedule)
    for task, other in pairs:
        order = tasks.orders[tasks.machine[task]]
        try:
            times = _retimed(schedule, tasks, task, order.index(task), order.index(other))
        except Deadlock:
            yield None
        else:
            yield in_units(_makespan(tasks, times), schedule.problem.ticks.per_unit)


def _retimed(schedule: Schedule, tasks: TimedTasks, task: int, start: int, to: int) -> Times:
    """Return the earliest times after a move."""
    orders = [*tasks.orders]
    machine = tasks.machine[task]
    orders[machine] = moved(orders[machine], start, to)
    return earliest_times(schedule.graph, orders)


def _makespan(tasks: TimedTasks, times: Times) -> int:
    """Return the last end of a device; some operation starts at 0."""
    return max(max((times.ends[task] for task in order), default=0) for order in tasks.orders[: tasks.devices])


def _move(schedule: Schedule, tasks: TimedTasks, found: _Found) -> OrderMove:
    device, problem = tasks.machine[found.task], schedule.problem
    times = _retimed(schedule, tasks, found.task, found.start, found.to)
    orders = [*schedule.plan.orders]
    orders[device] = moved(orders[device], found.start, found.to)
    plan = replace(schedule.plan, orders=orders)
    after = timed_schedule(problem, plan, times.starts, times.ends, schedule.graph)
    return OrderMove(
        schedule.plan.slot(found.task),
        device,
        found.start,
        found.to,
        in_units(found.makespan, problem.ticks.per_unit),
        after.peak_memory[device],
        after.memory[device],
        device not in after.over_budget,
    )

"""The moves in the order of a device that shorten a schedule, each timed exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pipesched.analysis.reasons.explanation import OrderMove, timed_tasks
from pipesched.core.clock import look
from pipesched.core.order_moves import candidate_moves, moved
from pipesched.core.reasons import TimedTasks
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import Times, earliest_times
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.check_program import checked_programs
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.plan import NetworkEntry, Plan, with_parts
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule, timed_schedule
from pipesched.pipeline.step_lowering import reshard_times
from pipesched.pipeline.step_rule import network_programs

MOST_RETIMED = 5_000_000  # operations, over all moves
MOST_MOVES = 10
LOWERED = 8  # times as long as timing alone: making the task graph of a move anew, where programs of lanes change


def moved_plan(schedule: Schedule, device: int, order: Sequence[int]) -> Plan:
    """Return the plan of a schedule with another order of a device, and the program that this makes of its lane.

    What the lane moves keeps its order; each stands behind the slot that the rule names in the new order. Raises
    InvalidSchedule where that is no legal program.
    """
    orders = [*schedule.plan.orders]
    orders[device] = order
    plan = with_parts(schedule.plan, orders=orders)
    if not plan.index.scoped:
        return plan
    after = dict(network_programs(schedule.problem, plan)[device])
    ops = {number: plan.index.op(number) for number, _ in plan.network[device]}
    if {*ops.values()} != {*after}:
        raise InvalidSchedule(f"device {device} gathers and frees other stages in this order")
    network = [*plan.network]
    network[device] = [NetworkEntry(number, after[op]) for number, op in ops.items()]
    plan = with_parts(plan, network=network)
    wrong = checked_programs(schedule.problem, plan, [device])[0].wrong
    if wrong:
        raise InvalidSchedule(wrong[0], wrong)
    return plan


def graph_of(schedule: Schedule, plan: Plan) -> TaskGraph:
    """Return the task graph of a moved plan, with the durations that the schedule has."""
    if not plan.index.scoped:
        return schedule.graph
    return lower_plan(schedule.problem, plan).changed(durations=schedule.graph.duration)


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
    has_programs = bool(schedule.plan.network)
    size = len(tasks.topological) * (LOWERED if has_programs else 1)
    most = max(MOST_RETIMED // max(size, 1), 1)
    limits = timed_tasks(schedule, moving=True) if has_programs else None
    found: list[_Found] = []
    is_complete = True
    for number, (task, start, to) in enumerate(candidate_moves(tasks, limits)):
        if number == most:
            is_complete = False
            break
        look()
        try:
            makespan = _makespan(_retimed(schedule, tasks, task, start, to))
        except InvalidSchedule:  # a slot would need weights, or a lane a slot, that its program has elsewhere
            continue
        if makespan < tasks.makespan:
            found.append(_Found(makespan, number, task, start, to))
    best, per_unit = list[OrderMove](), schedule.problem.ticks.per_unit
    for makespan, _, task, start, to in sorted(found)[:MOST_MOVES]:
        device, after = tasks.machine[task], _retimed(schedule, tasks, task, start, to)
        memory, fits = (after.peak_memory[device], after.memory[device]), device not in after.over_budget
        slot, lasting = schedule.plan.slot(task), in_units(makespan, per_unit)
        best.append(OrderMove(slot, device, start, to, lasting, *memory, fits))
    return best, is_complete


def moved_before(schedule: Schedule, pairs: Iterable[tuple[int, int]]) -> Iterator[int | float | None]:
    """Yield, for each pair of a device's operations, the makespan once the first stands directly before the second.

    They are numbers of the plan; times are the earliest. None where that order cannot run.
    """
    tasks = timed_tasks(schedule)
    for task, other in pairs:
        order = tasks.orders[tasks.machine[task]]
        try:
            after = _retimed(schedule, tasks, task, order.index(task), order.index(other))
        except InvalidSchedule:
            yield None
        else:
            yield in_units(_makespan(after), schedule.problem.ticks.per_unit)


def _retimed(schedule: Schedule, tasks: TimedTasks, task: int, start: int, to: int) -> Schedule:
    """Return the schedule after a move, at its earliest times. Raises InvalidSchedule where it cannot run."""
    machine = tasks.machine[task]
    plan = moved_plan(schedule, machine, moved(tasks.orders[machine], start, to))
    graph = graph_of(schedule, plan)
    starts, ends = earliest_times(graph, plan.machines)
    for number, time in reshard_times(plan, ends):
        starts[number] = ends[number] = time
    return timed_schedule(schedule.problem, plan, Times(starts, ends), graph)


def _makespan(schedule: Schedule) -> int:
    """Return the last end of a device or a network lane; some operation starts at 0."""
    orders = [*schedule.plan.orders, *schedule.plan.network_lanes]
    return max(schedule.end_ticks[order[-1]] for order in orders if order)

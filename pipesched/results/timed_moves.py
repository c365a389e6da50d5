"""A schedule as tasks (`timed_tasks`), its idle time by class (`gaps_of`), and moves that shorten it (`best_moves`).

`explain` (analysis/) and the editor ask for them; core/reasons.py, which does the work, knows tasks alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple

from pipesched.core.arrays import np
from pipesched.core.clock import check_deadline
from pipesched.core.reasons import NOTHING, Arc, Gap, Idle, TimedTasks, candidate_moves, classes, idle_gaps, moved
from pipesched.core.tasks import Edges
from pipesched.core.timing import UNTIMED, Times, earliest_times
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.check.check_step import checked_programs
from pipesched.pipeline.plan.lowering import Sent, lower_plan, precedence_rows, queues_of
from pipesched.pipeline.plan.plan import NetworkEntry, Plan, with_parts
from pipesched.pipeline.plan.schedule import Schedule, timed_schedule
from pipesched.pipeline.plan.step import ON_DEVICE, WEIGHTS
from pipesched.pipeline.plan.step_plan import network_programs, reshard_times, step_arrows, waits_of
from pipesched.pipeline.problem.ops import Slot
from pipesched.pipeline.problem.quantities import in_units

MOST_RETIMED = 5_000_000  # operations, over all moves
MOST_MOVES = 10
LOWERED = 8  # times as long as timing alone: making the task graph of a move anew, where programs of lanes change


class OrderMove(NamedTuple):
    """A slot that shortens the schedule where it moves in the order of its device, from one position to another.

    What it makes is the same at all positions from `first` to `last`.
    """

    slot: Slot
    device: int
    start: int
    to: int
    makespan: int | float  # afterwards, as all that follows
    peak_memory: int | float  # of the activations of the device
    memory: int | float  # its static memory too
    fits: bool  # whether that is within the budget
    first: int
    last: int


def timed_tasks(schedule: Schedule, *, moving: bool = False) -> TimedTasks:
    """Return the operations of a schedule as tasks, with its times from its first start on; a pair is its forward.

    The tag of an arc is the boundary between stages that it crosses from one device to another. Of a step, what a lane
    moves waits for the slot behind which it is issued as if by a wait edge. `moving` leaves out all that follows from
    the order of slots: where they are issued, and at level weights which gather a slot needs.
    """
    plan, first = schedule.plan, schedule.last_ticks - schedule.makespan_ticks
    waits: list[list[int]] = [[] for _ in range(plan.index.size)]
    task = {backward: forward for forward, backward in plan.pairs.items()}
    for before, after in waits_of(plan):
        waits[task.get(after, after)].append(task.get(before, before))
    inputs: list[list[Arc]] = [[] for _ in waits]
    is_run = {*chain(*plan.machines), *task}
    for row in precedence_rows(schedule.problem, plan.index):
        check_deadline()
        tag = NOTHING if row.boundary < 0 else row.boundary
        for before, after in zip(row.before, row.after, strict=True):
            if before in is_run and after in is_run:
                inputs[task.get(after, after)].append(Arc(task.get(before, before), row.lag, tag))
    if plan.index.scoped:  # gathers, reductions or optimizers stand beside the passes
        data, weights, issued = step_arrows(schedule.problem, plan)
        # weights, late: what passes wait for, and a gather where nothing is gathered ahead; a move may change these
        is_fixed = not (moving and schedule.problem.sharding.divides(WEIGHTS))
        late = schedule.graph.edges if is_fixed and schedule.problem.sharding.gathers_each else Edges((), ())
        late = late.where(np.isin(late.after, plan.index.of_kind("UNSHARD")))
        for before, after, lag in chain(data, weights if is_fixed else (), late):
            inputs[after].append(Arc(before, lag))
        for before, after, _ in () if moving else issued:
            waits[after].append(before)
    held = _with_messages(schedule, inputs, waits) if plan.messages else ()
    starts, ends = schedule.start_ticks, schedule.end_ticks
    if first:
        starts, ends = [time - first for time in starts], [time - first for time in ends]
    count = len(plan.machines) - len(plan.network_lanes)
    queues = [queue.tolist() for queue in plan.queues]
    orders = [*plan.machines[:count], *queues, *plan.machines[count:]] if queues else plan.machines
    return TimedTasks(
        schedule.graph.durations, inputs, waits, orders, len(plan.orders), starts, ends,
        arrived=arrivals(schedule, first) if schedule.own_lengths else (), late_lanes=len(plan.network),
        queued=range(plan.index.first_message, plan.index.size), held=held,
    )  # fmt: skip


def _with_messages(schedule: Schedule, inputs: list[list[Arc]], waits: list[list[int]]) -> Sequence[Sequence[int]]:
    """Add what messages wait for, and what waits for them; return what holds each device, where messages do."""
    problem, plan = schedule.problem, schedule.plan
    sent, first = Sent(problem, plan), plan.index.first_message
    for number in np.flatnonzero(sent.is_run).tolist():
        source, target, message = int(sent.source[number]), int(sent.target[number]), number + first
        inputs[message].append(Arc(source))
        inputs[target] = [arc for arc in inputs[target] if arc.before != source or arc.tag == NOTHING]
        inputs[target].append(Arc(message))
    assert problem.messages is not None
    for row in queues_of(plan, problem.messages.queue):
        for before, after in pairwise(row.tolist()):
            if max(before, after) >= first:
                waits[after].append(before)
    if problem.messages.queue != ON_DEVICE:
        return ()
    starts, ends = schedule.start_ticks, schedule.end_ticks
    rows = ([one for one in program.number.tolist() if starts[one] < ends[one]] for program in plan.messages)
    return [sorted(row, key=starts.__getitem__) for row in rows]


def arrivals(schedule: Schedule, first: int) -> Sequence[int]:
    """Return when messages were there, from the first start on; nothing of a schedule that was not measured."""
    if not schedule.own_lengths:
        return ()
    return [time - first for time in schedule.arrival_ticks] or [UNTIMED] * schedule.plan.index.size


def gaps_of(schedule: Schedule, tasks: TimedTasks) -> list[Gap]:
    """Return all idle time of a schedule by class and culprit; `tasks` are its operations."""
    graph, first = schedule.graph, schedule.last_ticks - schedule.makespan_ticks
    capacities, highest = schedule.problem.capacity_grains, dict[int, tuple[list[int], list[list[int]]]]()

    def fits(task: int, time: int) -> bool:
        """Return whether a task fits at a time in ticks from the first start on, before its own; all else stays.

        It then takes its memory from there on, and gives back what it gives after its duration.
        """
        device = graph.pools[task]
        capacity = capacities[device]
        if capacity is None:
            return True
        if device not in highest:
            steps, reach = [*schedule.memory_steps(device)], 1
            levels = [[level for _, level in steps]]  # entry i of table k is the highest of the 2^k from the i-th on
            while 2 * reach <= len(steps):
                levels.append([*map(max, levels[-1], levels[-1][reach:])])
                reach *= 2
            highest[device] = [time for time, _ in steps], levels
        times, tables = highest[device]
        time, start = time + first, schedule.start_ticks[task]
        end = min(time + graph.durations[task], start)
        taken, given = graph.takes[task], graph.gives[task]
        # The highest level from `begin` to `until`: of two runs of 2^power levels, which together cover these.
        for begin, until, most in ((time, end, capacity - taken), (end, start, capacity - taken + given)):
            low, high = max(bisect_right(times, begin) - 1, 0), bisect_left(times, until)
            power = max(high - low, 1).bit_length() - 1
            ends = {low, high - (1 << power)} if low < high else ()  # behind the last change nothing is held
            if begin < until and max((tables[power][at] for at in ends), default=0) > most:
                return False
        return True

    is_limited = schedule.fits and any(capacity is not None for capacity in capacities)  # not what is above a budget
    return [*idle_gaps(tasks, graph.takes, fits if is_limited else lambda *_: True)]


def idle_by_class(schedule: Schedule) -> dict[Idle, int | float]:
    """Return the idle time of all devices by class, in the user's time unit."""
    ticks = dict.fromkeys(classes(measured=schedule.own_lengths, queued=bool(schedule.plan.messages)), 0)
    for gap in gaps_of(schedule, timed_tasks(schedule)):
        ticks[gap.idle] += gap.end - gap.start
    return {idle: in_units(time, schedule.problem.ticks.per_unit) for idle, time in ticks.items()}


def moved_plan(schedule: Schedule, device: int, order: Sequence[int]) -> Plan:
    """Return the plan with another order of a device, and the program of its lane. Raises InvalidSchedule."""
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


_Found = tuple[int, int, int, int, int]  # a move that gains: its makespan, when it was tried, its task, from, to


def best_moves(schedule: Schedule, tasks: TimedTasks) -> tuple[list[OrderMove], bool]:
    """Return the ten best moves of one slot in a schedule at its earliest times, and whether all moves were timed."""
    found, is_complete = list[_Found](), True
    for number, (move, after) in enumerate(_timed_moves(schedule, tasks)):
        is_complete &= move is not None
        if move is not None and after is not None and (makespan := _makespan(after)) < tasks.makespan:
            found.append((makespan, number, *move))
    alike: dict[tuple[int, int, int], list[_Found]] = {}  # by task, makespan and last position
    for one in sorted(found, key=itemgetter(2, 0, 4)):
        makespan, _, task, _, to = one
        alike[task, makespan, to] = [*alike.pop((task, makespan, to - 1), []), one]
    groups = sorted(alike.values(), key=min)[:MOST_MOVES]  # of equal makespans the one that was tried first
    return [_move(schedule, tasks, min(group), (group[0][-1], group[-1][-1])) for group in groups], is_complete


def shortened(schedule: Schedule) -> Iterator[Schedule]:
    """Yield ever shorter schedules within the budget, each a single move from the one before, at earliest times."""
    better: Schedule | None = schedule
    while better is not None:
        tasks, before = timed_tasks(better), better
        made = (after for _, after in _timed_moves(before, tasks) if after is not None)
        better = next((one for one in made if _makespan(one) < tasks.makespan and one.fits), None)
        if better is not None:
            yield better


def _timed_moves(
    schedule: Schedule, tasks: TimedTasks
) -> Iterator[tuple[tuple[int, int, int] | None, Schedule | None]]:
    """Yield each move that may shorten a schedule, with what it makes; None and None where not all are timed."""
    has_programs = bool(schedule.plan.network)
    size = len(tasks.topological) * (LOWERED if has_programs else 1)
    most = max(MOST_RETIMED // max(size, 1), 1)
    limits = timed_tasks(schedule, moving=True) if has_programs else None
    for number, move in enumerate(candidate_moves(tasks, limits)):
        if number == most:
            yield None, None
            return
        check_deadline()
        try:
            yield move, _retimed(schedule, tasks, *move)
        except InvalidSchedule:  # a slot would need weights, or a lane a slot, that its program has elsewhere
            yield move, None


def moved_before(schedule: Schedule, pairs: Iterable[tuple[int, int]]) -> Iterator[int | float | None]:
    """Yield the makespan once the first of a pair of operations stands before the second; None if that cannot run."""
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
    messages, graph = schedule.problem.messages, schedule.graph
    if plan.index.scoped or (messages is not None and messages.queue == ON_DEVICE):
        graph = lower_plan(schedule.problem, plan).changed(durations=graph.duration)
    starts, ends = earliest_times(graph, plan.lines)
    for number, time in reshard_times(plan, ends):
        starts[number] = ends[number] = time
    return timed_schedule(schedule.problem, plan, Times(starts, ends), graph)


def _makespan(schedule: Schedule) -> int:
    """Return the last end of a device or a network lane; some operation starts at 0."""
    orders = [*schedule.plan.orders, *schedule.plan.network_lanes]
    return max(schedule.end_ticks[order[-1]] for order in orders if order)


def _move(schedule: Schedule, tasks: TimedTasks, found: _Found, places: tuple[int, int]) -> OrderMove:
    makespan, _, task, start, to = found
    device, after = tasks.machine[task], _retimed(schedule, tasks, task, start, to)
    slot, makespan_then = schedule.plan.slot(task), in_units(makespan, schedule.problem.ticks.per_unit)
    memory, fits = (after.peak_memory[device], after.memory[device]), device not in after.over_budget
    return OrderMove(slot, device, start, to, makespan_then, *memory, fits, *places)

"""A schedule of a pipeline as the tasks that the questions of `core.reasons` are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pipesched.checks import shown
from pipesched.core.reasons import NOTHING, Arc, TimedTasks
from pipesched.core.timing import UNTIMED
from pipesched.errors import ConfigError
from pipesched.pipeline.check import checked
from pipesched.pipeline.lowering import precedence_rows
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step import WEIGHTS
from pipesched.pipeline.step_lowering import step_arrows, waits_of
from pipesched.results.outcome import Outcome


def given_schedule(schedule: object) -> Schedule:
    """Return the schedule that is asked about, after checks. Raises ConfigError and InvalidSchedule."""
    subject = schedule.schedule if isinstance(schedule, Outcome) else schedule
    if not isinstance(subject, Schedule):
        raise ConfigError(f"must be a Schedule or an Outcome, not {shown(schedule)}", "schedule")
    return checked(subject)


def timed_tasks(schedule: Schedule, *, moving: bool = False) -> TimedTasks:
    """Return the operations of a schedule as tasks, with its times from its first start on; a pair is its forward.

    The tag of an arc is the boundary between stages that it crosses from one device to another. Of a step, what a lane
    moves waits for the slot behind which it is issued as if by a wait edge; `moving` leaves out all that follows from
    the order of slots: where they are issued, and at level weights which gather a slot needs.
    """
    plan, first = schedule.plan, schedule.last_ticks - schedule.makespan_ticks
    waits: list[list[int]] = [[] for _ in range(plan.index.size)]
    task = {backward: forward for forward, backward in plan.pairs.items()}
    for before, after in waits_of(plan):
        waits[task.get(after, after)].append(task.get(before, before))
    inputs = _inputs(schedule, task)
    if plan.index.scoped:
        step = step_arrows(schedule.problem, plan)
        is_fixed = not (moving and schedule.problem.sharding.divides(WEIGHTS))
        for before, after, lag in chain(step.data, step.weights if is_fixed else ()):
            inputs[after].append(Arc(before, lag))
        for before, after, _ in () if moving else step.issued:
            waits[after].append(before)
    starts, ends = schedule.start_ticks, schedule.end_ticks
    if first:
        starts, ends = [time - first for time in starts], [time - first for time in ends]
    return TimedTasks(
        schedule.graph.durations,
        inputs,
        waits,
        plan.machines,
        len(plan.orders),
        starts,
        ends,
        arrived=arrivals(schedule, first),
        late_lanes=len(plan.network),
    )


def arrivals(schedule: Schedule, first: int) -> Sequence[int]:
    """Return when messages were there, from the first start on; nothing of a schedule that was not measured."""
    if not schedule.own_lengths:
        return ()
    return [time - first for time in schedule.arrival_ticks] or [UNTIMED] * schedule.plan.index.size


def _inputs(schedule: Schedule, task: dict[int, int]) -> list[list[Arc]]:
    """Return the arcs of data into each task; `task` maps the backwards of pairs to their forwards."""
    plan = schedule.plan
    is_run = [False] * plan.index.size
    for order in plan.machines:
        for number in order:
            is_run[number] = True
    for backward in task:
        is_run[backward] = True
    inputs: list[list[Arc]] = [[] for _ in range(plan.index.size)]
    for row in precedence_rows(schedule.problem, plan.index):
        tag = NOTHING if row.boundary < 0 else row.boundary
        for before, after in zip(row.before, row.after, strict=True):
            if is_run[before] and is_run[after]:
                inputs[task.get(after, after)].append(Arc(task.get(before, before), row.lag, tag))
    return inputs

"""One operation: what it waited for, how long, and the chain of what held it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pipesched.analysis.reasons.timed import given_schedule, timed_tasks
from pipesched.checks import shown
from pipesched.errors import ConfigError
from pipesched.pipeline.ops import Slot
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.outcome import Outcome


@dataclass(frozen=True)
class Input:
    """What a slot waits for: when that came, and whether it is the one that held the slot back.

    `what` is "input" (data), "order" (the slot before it on its device or lane) or "wait" (a wait edge of the plan).
    """

    slot: Slot
    what: str
    there: int | float
    is_tight: bool


@dataclass(frozen=True)
class Why:
    """Why a slot starts when it does, in the user's time unit.

    `allowed` is when all that it waits for was there; `slack` how much later it may end before the makespan grows.
    `chain` leads from it back to time 0: each was held back by the next.
    """

    slot: Slot
    place: str
    start: int | float
    end: int | float
    allowed: int | float
    slack: int | float
    inputs: Sequence[Input]
    chain: Sequence[Slot]


def why(schedule: Schedule | Outcome, op: str) -> Why:
    """Say why an operation, a pair or a transfer, named by its text (3B2), starts when it does.

    Raises ConfigError for one that the schedule does not run, with the nearest that it does, and for what is no
    schedule; InvalidSchedule for a schedule that breaks a rule, and Deadlock for one whose order cannot run.
    """
    subject = given_schedule(schedule)
    tasks, plan = timed_tasks(subject), subject.plan
    if not tasks.can_run:
        schedule_plan(subject.problem, plan)  # raises Deadlock: a chain of what waits in a circle has no end
    names = {str(plan.slot(task)): task for order in tasks.orders for task in order}
    names |= {str(plan.index.op(number)): forward for forward, backward in plan.pairs.items()
              for number in (forward, backward)}  # fmt: skip
    if op not in names:
        near = get_close_matches(op, names, n=3, cutoff=0.3)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise ConfigError(f"{shown(op)} does not run in this schedule; one looks like {next(iter(names))}{hint}", "op")
    task, scale = names[op], subject.problem.ticks.per_unit
    machine = tasks.machine[task]
    tight = tasks.tight[task]
    waits = set(tasks.waits[task])
    inputs = [
        Input(
            plan.slot(arc.before),
            "input" if arc.is_input else "wait" if arc.before in waits else "order",
            in_units(tasks.ends[arc.before] + arc.lag, scale),
            arc == tight,
        )
        for arc in tasks.arcs(task)
    ]
    return Why(
        slot=plan.slot(task),
        place=_place(subject, machine),
        start=in_units(tasks.starts[task], scale),
        end=in_units(tasks.ends[task], scale),
        allowed=in_units(tasks.allowed[task], scale),
        slack=in_units(tasks.slack[task], scale),
        inputs=inputs,
        chain=[plan.slot(before) for before in tasks.chain(task)],
    )


def _place(schedule: Schedule, machine: int) -> str:
    """Name a device, or a lane to or from host memory."""
    devices = schedule.problem.devices
    if machine < devices:
        return f"device {machine}"
    if machine >= devices + 2 * len(schedule.plan.lanes):
        return f"the network lane of device {machine - devices - 2 * len(schedule.plan.lanes)}"
    lane, back = divmod(machine - devices, 2)
    sharing = schedule.problem.devices_of_lanes(lane)
    of = f"device{'s' * (len(sharing) > 1)} {' and '.join(map(str, sharing))}"
    return f"the lane of {of} {'from' if back else 'to'} host memory"

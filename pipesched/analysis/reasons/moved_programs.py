"""The programs of network lanes once a slot has moved: what lanes move keeps its order, issued where the rule says."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.core.tasks import TaskGraph
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.check_program import checked_programs
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.plan import Plan, with_parts
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.step_plan import NetworkEntry
from pipesched.pipeline.step_rule import network_programs


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

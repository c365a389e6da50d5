"""Side work by the plain rule: in turn on its devices, forwards before all passes of a device and backwards behind."""

from __future__ import annotations

from pipesched.pipeline.ops import Op, StepOp
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem

OpsOfDevices = list[list[Op]]


def side_first(problem: Problem, plan: Plan) -> tuple[OpsOfDevices, OpsOfDevices]:
    """Return for each device the side work before its passes, and that behind them.

    Of each item the microbatch that is fed as the m-th runs on the m-th of its devices, modulo their number; forwards
    and backwards stand by microbatch, then by item.
    """
    before: OpsOfDevices = [[] for _ in range(problem.devices)]
    behind: OpsOfDevices = [[] for _ in range(problem.devices)]
    for turn, microbatch in enumerate(fed_order(plan) if problem.side else ()):
        for number, item in enumerate(problem.side):
            device = item.devices[turn % len(item.devices)]
            before[device].append(StepOp._make((number, "E", microbatch, 0)))
            if item.backward is not None:
                behind[device].append(StepOp._make((number, "G", microbatch, 0)))
    return before, behind


def fed_order(plan: Plan) -> list[int]:
    """Return the microbatches in the order in which stage 0 runs their first forwards."""
    index = plan.index
    firsts = {number: place for place, number in enumerate(index.row("F", 0)[:: index.slices])}
    return [firsts[number] for order in plan.orders for number in order if number in firsts]

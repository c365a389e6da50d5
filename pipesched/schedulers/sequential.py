"""Sequential: one microbatch at a time, the baseline that every pipeline beats."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.units import FORWARD_ONLY
from pipesched.schedulers.family import Family
from pipesched.schedulers.naive import naive
from pipesched.schedulers.plan_of import last_slice_first, plain_index


def sequential(problem: Problem) -> Plan:
    """Run for each microbatch all forwards, then all backwards: a device runs F0 B0 F1 B1 ...

    With slices F0.0 F0.1 .. B0.1 B0.0 ..; where only forwards run, as naive does.
    """
    if problem.mode == FORWARD_ONLY:
        return naive(problem)
    index, slices, orders = plain_index(problem), problem.slices.count, []
    for device in range(problem.devices):
        forwards, backwards = index.row("F", device), last_slice_first(index, index.row("B", device))
        parts = (range(first, first + slices) for first in range(0, index.units, slices))
        orders.append([row[unit] for part in parts for row in (forwards, backwards) for unit in part])
    return Plan(index, orders)


FAMILY = Family(
    name="sequential",
    plan=sequential,
    placement="linear",
    needs="any M",
    bubble="1 - 1/P",
    memory="1",
    paper="model parallelism without a pipeline",
    elsewhere="any framework",
    settled_order=True,
    slices=True,
    forward_only=True,
)

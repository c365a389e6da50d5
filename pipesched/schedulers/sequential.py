"""Sequential: one microbatch at a time, the baseline that every pipeline beats."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.orders import linear_plan


def sequential(problem: Problem) -> Plan:
    """Run for each microbatch all forwards, then all backwards: a device runs F0 B0 F1 B1 ..."""
    return linear_plan(problem, lambda _: 0)


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
)

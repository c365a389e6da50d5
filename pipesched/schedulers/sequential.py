"""Sequential: one microbatch at a time, the baseline that every pipeline beats."""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.orders import one_forward_one_backward


def sequential(problem: Problem) -> Plan:
    """For each microbatch all forwards, then all backwards: a device runs F0 B0 F1 B1 ..."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    return Plan(
        index,
        [
            one_forward_one_backward(index.row("F", device), index.row("B", device), warm_up=0)
            for device in range(problem.devices)
        ],
    )


FAMILY = Family(
    name="sequential",
    plan=sequential,
    placement="linear",
    stages="P",
    needs="any M",
    bubble="1 - 1/P",
    memory="1",
    source="model parallelism without a pipeline",
    elsewhere="any framework",
)

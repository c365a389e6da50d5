"""1F1B with overlapped pairs: the forward of one microbatch hides the communication of another's backward."""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import forwards_over_backwards


def one_f_one_b_overlap(problem: Problem) -> Plan:
    """Run 2(P-d-1)+1 forwards on device d; then pairs F&B while forwards are left; then the backwards left."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    orders, pairs = [], {}
    for device in range(problem.devices):
        warm_up = 2 * (problem.devices - device - 1) + 1
        order, paired = forwards_over_backwards(index.row("F", device), index.row("B", device), warm_up)
        orders.append(order)
        pairs.update(paired)
    return Plan(index, orders, pairs)


FAMILY = Family(
    name="1f1b-overlap",
    plan=one_f_one_b_overlap,
    placement="linear",
    needs="any M; costs.overlap says what a pair takes",
    bubble="by simulation",
    memory="min(M, 2(P-d))",
    paper="the case V = 1 of Megatron-LM's combined 1F1B",
    elsewhere="PPViz",
    settled_order=True,
    has_pairs=True,
)

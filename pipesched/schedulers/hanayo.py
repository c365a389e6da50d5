"""Hanayo's waves: each device holds stages of several down-and-up passes, and runs what is ready, backwards first."""

from __future__ import annotations

from pipesched.core.listsched import list_schedule
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family


def hanayo(problem: Problem) -> Plan:
    """Run on a free device any ready B first, then the F of the oldest microbatch; hold at most 2WP chunks."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    graph, owners = lower(problem, index), index.owners(problem.batches)
    takes = [int(index.is_forward(task)) for task in range(index.size)]
    backwards_first = [owner - problem.microbatches * (not take) for owner, take in zip(owners, takes, strict=True)]
    picked = list_schedule(
        graph.changed(takes=takes, gives=[1 - take for take in takes]),
        priority=backwards_first,
        capacities=(problem.stages,) * problem.devices,
        owners=owners,
    ).picked
    return Plan(index, graph.by_resource(picked))


FAMILY = Family(
    name="hanayo",
    plan=hanayo,
    placement="wave",
    chunks=2,
    is_multiple=True,
    needs="S = 2WP for W waves, any M",
    bubble="by simulation",
    memory="at most min(M, P)",
    paper="Hanayo (Liu et al. 2023, arXiv 2308.15762)",
    looks_at_each=True,
)

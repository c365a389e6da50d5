"""List scheduling of the task graph: by named rules under the memory budget, and Hanayo's waves, backwards first."""

from __future__ import annotations

from itertools import chain

from pipesched.core.listsched import list_schedule
from pipesched.errors import NoSchedule
from pipesched.pipeline.bounds.memory import forward_headrooms, require_least_capacity
from pipesched.pipeline.plan.lowering import lower
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import ANY, Family


def list_scheduler(problem: Problem, *, priority: str = "none", tie: str = "dfs", seed: int = 0) -> Plan:
    """Start, whenever a device is free, the ready operation of least (priority, tie, index) that fits in memory.

    The backward is split when the config gives its halves. Under a budget of P-d activations on device d every rule
    gives 1F1B. Raises NoSchedule when the budget holds no microbatch.
    """
    require_least_capacity(problem)
    index = OpIndex(problem.letters, problem.stages, problem.microbatches, problem.slices.count)
    graph, capacities = lower(problem, index), problem.capacity_grains
    turns = [*index.of_kind("F")] if index.slices > 1 else []
    for stage in range(index.stages)[::-1] if turns else ():  # as slices take the least memory: W directly after I
        rows = [index.row(kind, stage)[::-1] for kind in index.letters[1:]]
        turns += chain.from_iterable(zip(*rows, strict=True))
    try:
        result = list_schedule(
            graph,
            priority=priority,
            tie=tie,
            capacities=capacities,
            owners=index.owners(problem.batches),
            rooms=forward_headrooms(problem, index),
            turns=turns,
            seed=seed,
        )
    except NoSchedule as error:
        raise NoSchedule(f"list scheduling found no order under the budget: {error}", device=error.device) from None
    return Plan(index, graph.by_resource(result.picked))


FAMILY = Family(
    name="list",
    plan=list_scheduler,
    placement=ANY,
    needs="any placement; obeys the budget",
    bubble="by simulation",
    memory="at most the budget",
    paper="Graham 1969; as in high-level synthesis",
    options=("priority", "tie", "seed"),
    obeys_budget=True,
    splits_backward=None,
    slices=True,
    forward_only=True,
    looks_at_each=True,
)


def hanayo(problem: Problem) -> Plan:
    """Run on a free device any ready B first, then the F of the oldest microbatch; hold at most 2WP chunks."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    graph, owners = lower(problem, index), index.owners(problem.batches)
    takes = [1] * (index.size // 2) + [0] * (index.size // 2)  # each F, and then each B
    backwards_first = [owner - problem.microbatches * (not take) for owner, take in zip(owners, takes, strict=True)]
    picked = list_schedule(
        graph.changed(takes=takes, gives=[1 - take for take in takes]),
        priority=backwards_first,
        capacities=(problem.stages,) * problem.devices,
        owners=owners,
    ).picked
    return Plan(index, graph.by_resource(picked))


HANAYO = Family(
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

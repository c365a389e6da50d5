"""Looped breadth-first: every chunk takes all microbatches before the next chunk begins."""

from __future__ import annotations

from itertools import chain

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family


def looped_bfs(problem: Problem) -> Plan:
    """Run all microbatches through chunk 0, then chunk 1, ...; then backwards, chunks and microbatches reversed."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    orders = []
    for device in range(problem.devices):
        chunks = problem.settled_placement.stages_on(device)
        forwards = chain.from_iterable(index.row("F", stage) for stage in chunks)
        backwards = chain.from_iterable(index.row("B", stage)[::-1] for stage in reversed(chunks))
        orders.append([*forwards, *backwards])
    return Plan(index, orders)


FAMILY = Family(
    name="looped-bfs",
    plan=looped_bfs,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M",
    bubble="(P-1)/(VM+P-1) when M >= P",
    memory="VM chunks",
    paper="Breadth-First Pipeline Parallelism (Lamy-Poirier 2023, arXiv 2211.05953)",
    elsewhere="PyTorch ScheduleLoopedBFS",
    settled_order=True,
    same_with_one_stage="naive",
)

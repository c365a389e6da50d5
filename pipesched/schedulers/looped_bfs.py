"""Looped breadth-first: every chunk takes all microbatches before the next chunk begins."""

from __future__ import annotations

from itertools import chain

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import plain_index


def looped_bfs(problem: Problem) -> Plan:
    """Run all microbatches through chunk 0, then chunk 1, ...; then backwards, chunks and microbatches reversed.

    Where only forwards run, all slices go through a chunk too before the next one.
    """
    index = plain_index(problem)
    orders = []
    for device in range(problem.devices):
        chunks = problem.settled_placement.stages_on(device)
        forwards = chain.from_iterable(index.row("F", stage) for stage in chunks)
        back = reversed(chunks) if "B" in index.letters else ()
        backwards = chain.from_iterable(index.row("B", stage)[::-1] for stage in back)
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
    forward_only=True,
    same_with_one_stage="naive",
)

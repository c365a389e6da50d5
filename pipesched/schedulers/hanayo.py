"""Hanayo: waves. Each device holds stages of several down-and-up passes, and runs what is ready, backwards first."""

from __future__ import annotations

from dataclasses import replace

from pipesched.core.listsched import list_schedule
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family


def hanayo(problem: Problem) -> Plan:
    """Whenever a device is free: any ready B first, then the F of the oldest microbatch; at most 2WP chunks held."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    count = problem.microbatches
    graph = lower(problem, index)
    forwards = [microbatch for _ in range(problem.stages) for microbatch in range(count)]
    backwards_first = [*forwards, *(microbatch - count for microbatch in forwards)]
    chunks = [0] * len(graph)
    chunks[: len(forwards)] = [1] * len(forwards)
    picked = list_schedule(
        replace(graph, takes=chunks, gives=chunks[::-1]),
        priority=backwards_first,
        caps=(problem.stages,) * problem.devices,
        owners=forwards * 2,
    ).picked
    orders: list[list[int]] = [[] for _ in range(problem.devices)]
    for number in picked:
        orders[graph.resources[number]].append(number)
    return Plan(index, orders)


FAMILY = Family(
    name="hanayo",
    plan=hanayo,
    placement="wave",
    stages="2kP",
    needs="S = 2WP for W waves, any M",
    bubble="by simulation",
    memory="min(2WM, 2WP) chunks at most",
    source="Hanayo (Liu et al. 2023, arXiv 2308.15762)",
)

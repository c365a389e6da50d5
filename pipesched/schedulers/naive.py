"""Schedules that fill and drain, all forwards and then all backwards: naive (GPipe, AFAB), and looped breadth-first.

And sequential, one microbatch at a time, the baseline that every pipeline beats.
"""

from __future__ import annotations

from itertools import chain

from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.units import FORWARD_ONLY
from pipesched.schedulers.family import Family
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


def naive(problem: Problem, *, lifo: bool = False) -> Plan:
    """Run F of all microbatches, then B of all in the same order, or with `lifo` in the reverse order.

    Of each microbatch F of all slices in turn, B of the last slice first.
    """
    index, orders = plain_index(problem), []
    for device in range(problem.devices):
        backwards = index.row("B", device) if "B" in index.letters else ()
        orders.append([*index.row("F", device), *(backwards[::-1] if lifo else last_slice_first(index, backwards))])
    return Plan(index, orders)


def looped_bfs(problem: Problem) -> Plan:
    """Run all microbatches through chunk 0, then chunk 1, ...; then backwards, chunks and microbatches reversed.

    Where only forwards run, all slices go through a chunk too before the next one, round by round if there are several.
    """
    index, orders = plain_index(problem), []
    size = index.units // problem.rounds
    for device in range(problem.devices):
        chunks = problem.settled_placement.stages_on(device)
        turns = [slice(first, first + size) for first in range(0, index.units, size)]
        forwards = chain.from_iterable(index.row("F", stage)[turn] for turn in turns for stage in chunks)
        back = reversed(chunks) if "B" in index.letters else ()
        backwards = chain.from_iterable(index.row("B", stage)[::-1] for stage in back)
        orders.append([*forwards, *backwards])
    return Plan(index, orders)


FAMILY = Family(
    name="naive",
    plan=naive,
    placement="linear",
    needs="any M",
    bubble="(P-1)/(M+P-1)",
    memory="M",
    paper="GPipe (Huang et al. 2019, arXiv 1811.06965)",
    elsewhere="PyTorch ScheduleGPipe",
    options=("lifo",),
    settled_order=True,
    slices=True,
    forward_only=True,
)

SEQUENTIAL = Family(
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

LOOPED = Family(
    name="looped-bfs",
    plan=looped_bfs,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M",
    bubble="(P-1)/(VM+P-1) when M >= P",
    memory="M",
    paper="Breadth-First Pipeline Parallelism (Lamy-Poirier 2023, arXiv 2211.05953)",
    elsewhere="PyTorch ScheduleLoopedBFS",
    settled_order=True,
    forward_only=True,
    same_with_one_stage="naive",
)

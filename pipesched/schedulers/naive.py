"""Naive fill and drain: all forwards, then all backwards (GPipe, AFAB)."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import last_slice_first, plain_index


def naive(problem: Problem, *, lifo: bool = False) -> Plan:
    """Run F of all microbatches, then B of all in the same order, or with `lifo` in the reverse order.

    Of each microbatch F of all slices in turn, B of the last slice first.
    """
    index = plain_index(problem)
    orders = []
    for device in range(problem.devices):
        backwards = index.row("B", device) if "B" in index.letters else ()
        orders.append([*index.row("F", device), *(backwards[::-1] if lifo else last_slice_first(index, backwards))])
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

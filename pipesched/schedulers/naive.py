"""Naive fill and drain: all forwards, then all backwards (GPipe, AFAB)."""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family


def naive(problem: Problem, *, lifo: bool = False) -> Plan:
    """Run F of all microbatches, then B of all in the same order, or with `lifo` in the reverse order."""
    index = OpIndex("FB", problem.stages, problem.microbatches)
    step = -1 if lifo else 1
    return Plan(
        index, [[*index.row("F", device), *index.row("B", device)[::step]] for device in range(problem.devices)]
    )


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
)

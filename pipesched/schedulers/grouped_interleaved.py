"""Grouped interleaved 1F1B (PipeOffload's GIS): fewer warm-ups and smaller groups, for less memory."""

from __future__ import annotations

from pipesched.core.arrays import ceil_div
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.interleaved import Judge, Rule, Size, grouped, grouped_by, in_turn


def grouped_interleaved(problem: Problem, *, group_size: Size = None, judge: Judge | None = None) -> Plan:
    """Run interleaved's order with (V-1)g + P-1-d warm-up forwards; the paper's g are ceil(P/2) to P (default P)."""
    return grouped(problem, RULE, group_size, judge)


def half_grouped_interleaved(problem: Problem) -> Plan:
    """Run GIS-H: groups of ceil(P/2), the least memory of the family, or the next larger that runs."""
    return grouped_by(problem, RULE, ceil_div(problem.devices, 2))


RULE = Rule(name="grouped-interleaved", letters="FB", step=1, arrange=in_turn)

FAMILY = Family(
    name="grouped-interleaved",
    plan=grouped_interleaved,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M; g from P/2 to P, or others that run",
    bubble="by simulation",
    memory="min(VM, (V-1)g + P - d) chunks",
    paper="PipeOffload (Wan et al. 2025, arXiv 2503.01328)",
    options=("group_size",),
    settled_order=True,
    same_with_one_stage="1f1b",
)

HALF = Family(
    name="gis-h",
    plan=half_grouped_interleaved,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M; g = ceil(P/2), larger where that deadlocks",
    bubble="by simulation",
    memory="min(VM, (V-1)g + P - d) chunks",
    paper="PipeOffload (Wan et al. 2025, arXiv 2503.01328)",
    settled_order=True,
    same_with_one_stage="1f1b",
)

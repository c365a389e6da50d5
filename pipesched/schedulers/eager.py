"""Eager 1F1B: twice the warm-up of 1F1B, so that communication hides behind computation, at more memory."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import linear_plan


def eager_1f1b(problem: Problem) -> Plan:
    """Run 2(P-d-1)+1 forwards on device d; then F and B in turn while forwards are left; then the backwards left."""
    return linear_plan(problem, lambda device: 2 * (problem.devices - device - 1) + 1)


FAMILY = Family(
    name="eager-1f1b",
    plan=eager_1f1b,
    placement="linear",
    needs="any M",
    bubble="(P-1)/(M+P-1), and p2p mostly hidden",
    memory="min(M, 2(P-d))",
    paper="Zhuang et al. 2023, arXiv 2211.05322",
    elsewhere="AlpaComm",
    settled_order=True,
)

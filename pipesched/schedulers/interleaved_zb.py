"""Interleaved zero bubble (PyTorch): interleaved visits, split backward, each W some backwards after its I."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.interleaved import Arranged, Judge, Rule, Size, grouped
from pipesched.schedulers.plan_of import split_one_forward_one_backward


def interleaved_zb(problem: Problem, *, group_size: Size = None, judge: Judge | None = None) -> Plan:
    """Run (V-1)g + P-1-d forwards on device d; then F, I and the W of the backward d steps before; then the W left.

    g is P by default; PyTorch takes M/max(1, M // P).
    """
    return grouped(problem, RULE, group_size, judge)


def _arrange(columns: Sequence[Sequence[int]], warm_up: int, device: int) -> Arranged:
    forwards, inputs, weights = columns
    return split_one_forward_one_backward(forwards, inputs, weights, warm_up, delay=device), {}


RULE = Rule(name="interleaved-zb", letters="FIW", step=1, arrange=_arrange)

FAMILY = Family(
    name="interleaved-zb",
    plan=interleaved_zb,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M; splits the backward",
    bubble="by simulation",
    memory="min(VM, (V-1)g + P) chunks",
    paper="PyTorch, Interleaved Zero Bubble",
    elsewhere="PyTorch ScheduleInterleavedZeroBubble (g = M/(M//P))",
    options=("group_size",),
    settled_order=True,
    splits_backward=True,
    same_with_one_stage="zb-h1",
)

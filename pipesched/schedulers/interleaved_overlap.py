"""Interleaved 1F1B with overlapped pairs (Megatron-LM's combined 1F1B)."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.interleaved import Arranged, Judge, Rule, Size, grouped
from pipesched.schedulers.plan_of import forwards_over_backwards


def interleaved_overlap(problem: Problem, *, group_size: Size = None, judge: Judge | None = None) -> Plan:
    """Run interleaved 1F1B with one more warm-up forward, so that the steady F and B are independent and make pairs."""
    return grouped(problem, RULE, group_size, judge)


def _arrange(columns: Sequence[Sequence[int]], warm_up: int, _device: int) -> Arranged:
    forwards, backwards = columns
    return forwards_over_backwards(forwards, backwards, warm_up)


RULE = Rule(name="interleaved-overlap", letters="FB", step=2, arrange=_arrange, extra=1)

FAMILY = Family(
    name="interleaved-overlap",
    plan=interleaved_overlap,
    placement="loop",
    is_multiple=True,
    needs="S = VP, any M; costs.overlap says what a pair takes",
    bubble="by simulation",
    memory="min(VM, (V-1)g + 2(P-d)) chunks",
    paper="Megatron-LM, combined 1F1B for expert-parallel overlap",
    elsewhere="Megatron-LM (overlap_moe_expert_parallel_comm)",
    options=("group_size",),
    settled_order=True,
    has_pairs=True,
    same_with_one_stage="1f1b-overlap",
)

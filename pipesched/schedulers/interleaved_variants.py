"""Relatives of interleaved 1F1B: other warm-ups and groups, overlapped pairs, a split backward."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.core.integers import ceil_div
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.interleaved import Arranged, Rule, grouped, grouped_by, in_turn
from pipesched.schedulers.orders import forwards_over_backwards, split_one_forward_one_backward


def _in_pairs(columns: Sequence[Sequence[int]], warm_up: int, _device: int) -> Arranged:
    forwards, backwards = columns
    return forwards_over_backwards(forwards, backwards, warm_up)


def _split(columns: Sequence[Sequence[int]], warm_up: int, device: int) -> Arranged:
    forwards, inputs, weights = columns
    return split_one_forward_one_backward(forwards, inputs, weights, warm_up, delay=device), {}


GROUPS = Rule("grouped-interleaved", "FB", step=1, arrange=in_turn)
PAIRS = Rule("interleaved-overlap", "FB", step=2, arrange=_in_pairs, extra=1)
SPLIT = Rule("interleaved-zb", "FIW", step=1, arrange=_split)


def grouped_interleaved(problem: Problem, *, group_size: int | None = None) -> Plan:
    """Run interleaved's order with (V-1)g + P-1-d warm-up forwards; the paper's g are ceil(P/2) to P (default P)."""
    return grouped(problem, GROUPS, group_size)


def half_grouped_interleaved(problem: Problem) -> Plan:
    """Run GIS-H: groups of ceil(P/2), the least memory of the family, or the next larger that runs."""
    return grouped_by(problem, GROUPS, ceil_div(problem.devices, 2))


def interleaved_overlap(problem: Problem, *, group_size: int | None = None) -> Plan:
    """Run interleaved 1F1B with one more warm-up forward, so that the steady F and B are independent and make pairs."""
    return grouped(problem, PAIRS, group_size)


def interleaved_zb(problem: Problem, *, group_size: int | None = None) -> Plan:
    """Run (V-1)g + P-1-d forwards on device d; then F, I and the W of the backward d steps before; then the W left.

    g is P by default; PyTorch takes M/max(1, M // P).
    """
    return grouped(problem, SPLIT, group_size)


GROUPED = Family(
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
OVERLAP = Family(
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
    same_with_one_stage="1f1b-overlap",
)
ZERO_BUBBLE = Family(
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

"""Interleaved 1F1B with overlapped pairs (Megatron-LM's combined 1F1B)."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.interleaved import Arranged, Rule, grouped
from pipesched.schedulers.orders import forwards_over_backwards


def interleaved_overlap(problem: Problem, *, group_size: int | None = None) -> Plan:
    """Interleaved 1F1B with one more warm-up forward, and the steady F and B merged into pairs."""
    return grouped(problem, RULE, group_size)


def _arrange(columns: Sequence[Sequence[int]], warm_up: int, _device: int) -> Arranged:
    forwards, backwards = columns
    return forwards_over_backwards(forwards, backwards, warm_up)


RULE = Rule(
    name="interleaved-overlap",
    kinds="FB",
    warm_up=lambda devices, device, chunks, group: 2 * (devices - device - 1) + (chunks - 1) * group + 1,
    arrange=_arrange,
)

FAMILY = Family(
    name="interleaved-overlap",
    plan=interleaved_overlap,
    placement="loop",
    stages="kP",
    needs="S = VP, any M; costs.overlap says what a pair takes",
    bubble="by simulation",
    memory="min(VM, (V-1)g + 2(P-d)) chunks",
    source="Megatron-LM, combined 1F1B for expert-parallel overlap",
    elsewhere="Megatron-LM",
    options=("group_size",),
)

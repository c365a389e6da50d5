"""Seq1F1B: 1F1B over the slices of microbatches, so that a device waits and holds less."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import linear_plan


def seq_1f1b(problem: Problem) -> Plan:
    """Run P-d-2+n forwards of slices on device d; then F and B in turn while forwards are left; then the B left.

    Each microbatch has n slices; its backwards begin with the last one. With one slice this is 1F1B.
    """
    return linear_plan(problem, lambda device: problem.devices - device - 2 + problem.slices.count)


FAMILY = Family(
    name="seq-1f1b",
    plan=seq_1f1b,
    placement="linear",
    needs="any M; slices (n = 1: 1f1b)",
    bubble="(P-1)/(nM+P-1)",
    memory="min(nM, P-d-1+n) slices",
    paper="Seq1F1B (Sun et al. 2024, arXiv 2406.03488)",
    elsewhere="thunlp/Seq1F1B, zero-bubble (num_seq_splits)",
    settled_order=True,
    slices=True,
    same_without_slices="1f1b",
)

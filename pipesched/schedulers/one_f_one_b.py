"""1F1B: after a warm-up, one forward and one backward in turn, so that a device holds at most P - d activations."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import linear_plan


def one_f_one_b(problem: Problem) -> Plan:
    """Run P-d-1 forwards on device d; then F and B in turn while forwards are left; then the backwards left."""
    return linear_plan(problem, lambda device: problem.devices - device - 1)


FAMILY = Family(
    name="1f1b",
    plan=one_f_one_b,
    placement="linear",
    needs="any M",
    bubble="(P-1)/(M+P-1)",
    memory="min(M, P-d)",
    paper="PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503)",
    elsewhere="Megatron-LM, DeepSpeed, PyTorch Schedule1F1B (M >= P)",
    settled_order=True,
    with_slices="seq-1f1b",
)

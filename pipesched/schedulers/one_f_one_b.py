"""1F1B and its relatives: after a warm-up, one forward and one backward in turn, so that devices hold few activations.

Seq1F1B does that with the slices of microbatches, so that a device waits and holds less. Eager 1F1B has twice the
warm-up, so that communication hides behind computation, at more memory. With overlapped pairs the forward of one
microbatch hides the communication of another's backward.
"""

from __future__ import annotations

from functools import partial

from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import (
    forwards_over_backwards,
    last_slice_first,
    of_devices,
    one_forward_one_backward,
    plain_index,
)


def one_f_one_b(problem: Problem, *, step: int = 1, extra: int = 0) -> Plan:
    """Run P-d-1 forwards on device d; then F and B in turn while forwards are left; then the backwards left.

    Of n slices n-1 forwards more come first, and the backwards of each microbatch begin with the last one. Eager 1F1B
    runs 2(P-d-1)+1 forwards first: `step` and `extra` are 2 and 1.
    """
    index = plain_index(problem)
    backwards = (last_slice_first(index, row) for row in index.rows("B"))
    warm_ups = (step * (problem.devices - 1 - device) + index.slices - 1 + extra for device in range(problem.devices))
    return Plan(index, [*map(one_forward_one_backward, index.rows("F"), backwards, warm_ups)])


def one_f_one_b_overlap(problem: Problem) -> Plan:
    """Run 2(P-d-1)+1 forwards on device d; then pairs F&B while forwards are left; then the backwards left."""
    index, warm_ups = OpIndex("FB", problem.stages, problem.microbatches), range(2 * problem.devices - 1, 0, -2)
    return of_devices(index, map(forwards_over_backwards, index.rows("F"), index.rows("B"), warm_ups))


_linear = partial(Family, placement="linear", needs="any M", settled_order=True)

FAMILY = _linear(
    name="1f1b",
    plan=partial(one_f_one_b, step=1, extra=0),
    bubble="(P-1)/(M+P-1)",
    memory="min(M, P-d)",
    paper="PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503)",
    elsewhere="Megatron-LM, DeepSpeed, PyTorch Schedule1F1B (M >= P)",
    with_slices="seq-1f1b",
)

SLICED = _linear(
    name="seq-1f1b",
    plan=partial(one_f_one_b, step=1, extra=0),
    needs="any M; slices (n = 1: 1f1b)",
    bubble="(P-1)/(nM+P-1)",
    memory="min(nM, P-d-1+n)/n",
    paper="Seq1F1B (Sun et al. 2024, arXiv 2406.03488)",
    elsewhere="thunlp/Seq1F1B, zero-bubble (num_seq_splits)",
    slices=True,
    same_without_slices="1f1b",
)

EAGER = _linear(
    name="eager-1f1b",
    plan=partial(one_f_one_b, step=2, extra=1),
    bubble="(P-1)/(M+P-1), and p2p mostly hidden",
    memory="min(M, 2(P-d))",
    paper="Zhuang et al. 2023, arXiv 2211.05322",
    elsewhere="AlpaComm",
)

OVERLAPPED = _linear(
    name="1f1b-overlap",
    plan=one_f_one_b_overlap,
    needs="any M; costs.overlap says what a pair takes",
    bubble="by simulation",
    memory="min(M, 2(P-d))",
    paper="the case V = 1 of Megatron-LM's combined 1F1B",
    elsewhere="PPViz",
    has_pairs=True,
)

"""Zero Bubble's handcrafted schedules (Qi et al. 2024): weight gradients run where devices would idle.

Of n slices a microbatch they warm up with n-1 forwards more, and backwards begin with the last slice, as in Seq1F1B.
"""

from __future__ import annotations

from functools import partial

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family
from pipesched.schedulers.plan_of import last_slice_first, split_one_forward_one_backward


def zb_h1(problem: Problem) -> Plan:
    """Run min(nM, P-d-2+n) warm-up forwards of n slices, and each W d backwards after its I: 1F1B's memory."""
    return _plan(problem, depth=1)


def zb_h2(problem: Problem) -> Plan:
    """Run min(nM, 2(P-d-1)+n-1) warm-up forwards, and each W 2d backwards after its I: about twice 1F1B's memory."""
    return _plan(problem, depth=2)


def _plan(problem: Problem, depth: int) -> Plan:
    index = OpIndex("FIW", problem.stages, problem.microbatches, problem.slices.count)
    return Plan(index, handcrafted(index, warm_up=depth, delay=depth))


def handcrafted(index: OpIndex, warm_up: int, delay: int) -> list[list[int]]:
    """Return the orders of one stage a device with warm_up * (P-d-1) forwards, and each W delay * d backwards after I.

    With slices there is a forward more first for each but one. Without delay this is 1F1B with each backward in halves.
    """
    last, orders = index.stages - 1, []
    for device in range(index.stages):
        inputs, weights = (last_slice_first(index, index.row(kind, device)) for kind in "IW")
        forwards_first, weights_later = warm_up * (last - device) + index.slices - 1, delay * device
        forwards = index.row("F", device)
        orders.append(split_one_forward_one_backward(forwards, inputs, weights, forwards_first, weights_later))
    return orders


_linear = partial(
    Family,
    placement="linear",
    needs="any M; slices; splits the backward",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="the authors' Megatron fork",
    settled_order=True,
    splits_backward=True,
    slices=True,
)
H1 = _linear(
    name="zb-h1", plan=zb_h1, bubble="(P-1)(f+b-w) idle when w <= f, b", memory="min(M, P); n slices: min(nM, P-1+n)/n"
)
H2 = _linear(
    name="zb-h2",
    plan=zb_h2,
    bubble="in span max(0, (P-1)(f+b-2w)) idle when w <= f",
    memory="min(M, 2P-1); n slices: min(nM, 2P-2+n)/n",
)

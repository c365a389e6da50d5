"""DualPipe-V: DualPipe cut in half. One copy of the weights, two stages a device on a V."""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.dualpipe import eight_steps
from pipesched.schedulers.family import Family


def dualpipe_v(problem: Problem) -> Plan:
    """Run DualPipe's eight steps; phase 0 is stage d, phase 1 stage 2P-1-d, of the same microbatches.

    They are exactly DeepSeek's where M >= 2P; with fewer microbatches the steps are cut as in DualPipe.
    """
    devices = problem.devices
    index = OpIndex("FBIW", problem.stages, problem.microbatches)
    orders, pairs = [], {}
    for device in range(devices):
        lane = [(device, 0), (2 * devices - 1 - device, 0)]
        run = eight_steps(index, lane, devices, device, problem.microbatches)
        orders.append(run.order)
        pairs.update(run.pairs)
    return Plan(index, orders, pairs)


FAMILY = Family(
    name="dualpipe-v",
    plan=dualpipe_v,
    placement="v",
    chunks=2,
    needs="S = 2P, any M",
    bubble="(P-1)(F&B + B - 3w) idle at f = b = w a stage and M >= 2P",
    memory="min(2M, 2P+1) chunks",
    paper="Cut-in-half (Qi et al. 2025); DeepSeek DualPipeV",
    elsewhere="DeepSeek DualPipeV, PyTorch ScheduleDualPipeV (both M >= 2P)",
    settled_order=True,
    has_pairs=True,
    splits_backward=True,
)

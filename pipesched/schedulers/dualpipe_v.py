"""DualPipe-V: DualPipe cut in half. One copy of the weights, two stages a device on a V."""

from __future__ import annotations

from pipesched.errors import NotApplicable
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.dualpipe import PhaseRun, dualpipe_steps
from pipesched.schedulers.family import Family


def dualpipe_v(problem: Problem) -> Plan:
    """DualPipe's eight steps; phase 0 is stage d, phase 1 stage 2P-1-d, of the same microbatches. Needs M >= 2P."""
    devices, count = problem.devices, problem.microbatches
    if count < 2 * devices:
        raise NotApplicable(f"dualpipe-v needs at least {2 * devices} microbatches (2P), not {count}", "microbatches")
    index = OpIndex("FBIW", problem.stages, count)
    orders, pairs = [], {}
    for device in range(devices):
        run = PhaseRun(index, [(device, 0), (2 * devices - 1 - device, 0)])
        dualpipe_steps(run, devices, device, count - 2 * devices, unpaired=device == devices - 1)
        orders.append(run.order)
        pairs.update(run.pairs)
    return Plan(index, orders, pairs)


FAMILY = Family(
    name="dualpipe-v",
    plan=dualpipe_v,
    placement="v",
    stages="2P",
    needs="M >= 2P",
    bubble="by simulation",
    memory="2P+1 chunks",
    source="Cut-in-half (Qi et al. 2025); DeepSeek DualPipeV",
    elsewhere="DeepSeek DualPipe, PyTorch ScheduleDualPipeV",
)

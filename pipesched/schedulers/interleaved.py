"""Interleaved 1F1B (Megatron-LM): a device holds V chunks of the model, and groups of microbatches visit them in
turn.
"""

from __future__ import annotations

from itertools import count

from pipesched.errors import Deadlock, NotApplicable
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import schedule_plan
from pipesched.schedulers.family import Family
from pipesched.schedulers.one_f_one_b import one_f_one_b
from pipesched.schedulers.orders import one_forward_one_backward


def interleaved(problem: Problem, *, group_size: int | None = None) -> Plan:
    """Device d: 2(P-d-1) + (V-1)g forwards, then one F, one B, then B; `group_size` is g.

    Forwards visit the chunks 0..V-1 with g microbatches at a time (the last group may be short), backwards the chunks
    V-1..0. With one chunk a device this is 1F1B. g is P by default, or where that deadlocks the next larger that
    cannot. Raises NotApplicable, with group sizes that run, for one that deadlocks.
    """
    wanted = problem.devices if group_size is None else group_size
    if wanted < 1:
        raise NotApplicable(f"interleaved needs a group size of at least 1, not {wanted}", "group_size")
    if problem.stages == problem.devices:
        return one_f_one_b(problem)
    if _is_safe(problem, wanted) or _runs(problem, wanted):
        return _interleave(problem, wanted)
    if group_size is not None:
        raise NotApplicable(_refusal(problem, wanted), "group_size")
    safe = next(size for size in range(wanted, problem.microbatches + 1) if _is_safe(problem, size))
    note = f"group size {safe}: groups of {wanted} deadlock with {problem.microbatches} microbatches"
    return _interleave(problem, safe, note)


def _interleave(problem: Problem, group: int, note: str = "") -> Plan:
    devices, chunks = problem.devices, problem.stages // problem.devices
    index = OpIndex("FB", problem.stages, problem.microbatches)
    visits = visit_order(chunks, problem.microbatches, group)
    first = [index.row("F", chunk * devices) for chunk in range(chunks)]  # the chunks of device 0
    last = [index.row("B", chunk * devices) for chunk in reversed(range(chunks))]
    forwards = [first[chunk][microbatch] for chunk, microbatch in visits]
    backwards = [last[chunk][microbatch] for chunk, microbatch in visits]
    orders = []
    for device in range(devices):
        next_stage = device * problem.microbatches  # from a stage of device 0 to the one on this device
        orders.append(
            one_forward_one_backward(
                [number + next_stage for number in forwards],
                [number + next_stage for number in backwards],
                warm_up=2 * (devices - device - 1) + (chunks - 1) * group,
            )
        )
    return Plan(index, orders, note=note)


def visit_order(chunks: int, microbatches: int, group: int) -> list[tuple[int, int]]:
    """(chunk, microbatch) in the order of Megatron's virtual microbatch ids: group by group, chunk by chunk."""
    return [
        (chunk, microbatch)
        for first in range(0, microbatches, group)
        for chunk in range(chunks)
        for microbatch in range(first, min(first + group, microbatches))
    ]


def _is_safe(problem: Problem, group: int) -> bool:
    """Megatron's rule: groups of at least P, the last one included. Such an order never deadlocks."""
    last = problem.microbatches % group or group
    return group >= problem.devices and (last >= problem.devices or group > problem.microbatches)


def _runs(problem: Problem, group: int) -> bool:
    """Whether the order of this group size runs: many that Megatron refuses do."""
    try:
        schedule_plan(problem, _interleave(problem, group))
    except Deadlock:
        return False
    return True


def _refusal(problem: Problem, wanted: int) -> str:
    smaller = next((size for size in range(wanted - 1, 0, -1) if _runs(problem, size)), None)
    larger = next(size for size in count(wanted + 1) if _is_safe(problem, size) or _runs(problem, size))
    nearest = [str(size) for size in (smaller, larger) if size is not None]
    return (
        f"interleaved with group size {wanted} deadlocks on {problem.devices} devices with"
        f" {problem.microbatches} microbatches; nearest group sizes that run: {', '.join(nearest)}"
    )


FAMILY = Family(
    name="interleaved",
    plan=interleaved,
    placement="loop",
    stages="kP",
    needs="S = VP, any M; groups of at least P, or smaller ones that run",
    bubble="(P-1)/(VM+P-1)",
    memory="(V-1)g + 2(P-d) - 1 chunks",
    source="Megatron-LM (Narayanan et al. 2021, arXiv 2104.04473)",
    elsewhere="Megatron-LM, PyTorch ScheduleInterleaved1F1B",
    options=("group_size",),
)

"""ZB-V: two stages a device on a V, split backward, no bubble in the span where f = b = w, at 1F1B's memory."""

from __future__ import annotations

from pipesched.core.arrays import lists, np
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import Waits, best_of, of_the_mean, v_blocks
from pipesched.schedulers.family import Family

STEPS = ["F0", "F1", "I0", "I1", "W0", "W1"]  # a kind and a chunk
WAITS = Waits(3, 1, 3, 1)


@of_the_mean
def zb_v(problem: Problem, *, objective: str = "span") -> Plan:
    """Run the published order, or where that is better, the best of blocks that hold 2P chunks at most."""
    index = OpIndex("FIW", problem.stages, problem.microbatches)
    published = [published_order(index, problem.devices, device) for device in range(problem.devices)]
    return best_of(problem, v_blocks(problem, WAITS), most_chunks(problem), objective, known=[published])


def most_chunks(problem: Problem) -> int:
    """Return the chunks that 1F1B holds."""
    return 2 * problem.devices


def published_order(index: OpIndex, devices: int, device: int) -> list[int]:
    """Return the order of a device for f = b = w, where F0 is the F of chunk 0, F1 that of chunk 1, and so on.

    Warm-up: 2(P-d)-1 times F0, d times F1 F0, P-d times F1 I1 W1. Steady: F0 while any is left, I0 W0 F1 I1 W1.
    Cool-down: d times I0 I1, P-d times I0 W0, then the W1 and the W0 that are left. Fewer than 2P-1 microbatches run as
    the first of 2P-1.
    """
    late, count = devices - device, max(index.microbatches, 2 * devices - 1)
    phases = (("F0", 2 * late - 1), ("F1 F0", device), ("F1 I1 W1", late), ("F0 I0 W0 F1 I1 W1", count - devices),
              ("I0 I1", device), ("I0 W0", late), ("W1", count), ("W0", count))  # fmt: skip
    steps = np.concatenate([np.tile([*map(STEPS.index, names.split())], times) for names, times in phases])
    order, microbatch = np.zeros(len(steps), dtype=np.int64), np.zeros(len(steps), dtype=np.int64)
    for number, step in enumerate(STEPS):
        places = np.flatnonzero(steps == number)
        microbatch[places] = np.arange(len(places))
        order[places] = index.row(step[0], index.stages - 1 - device if step[1] == "1" else device).start
    return lists((order + microbatch)[microbatch < index.microbatches])


FAMILY = Family(
    name="zb-v",
    plan=zb_v,
    placement="v",
    chunks=2,
    needs="S = 2P, any M; splits the backward",
    bubble="none in span at f = b = w and M >= 2P; else by simulation",
    memory="min(2M, 2P) chunks",
    paper="Zero Bubble Pipeline Parallelism (Qi et al. 2024, arXiv 2401.10241)",
    elsewhere="PyTorch ScheduleZBVZeroBubble, the authors' Megatron fork",
    options=("objective",),
    splits_backward=True,
    is_slow=True,
    most_chunks=most_chunks,
)

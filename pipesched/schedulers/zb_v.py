"""ZB-V: two stages a device on a V, split backward, no bubble in the span where f = b = w, at 1F1B's memory."""

from __future__ import annotations

from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.best_block import best_of, of_the_mean
from pipesched.schedulers.family import Family
from pipesched.schedulers.v_block import Waits, v_blocks

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
    late = devices - device
    run = _Order(index, devices, device)
    run.steps("F0", 2 * late - 1)
    run.steps("F1 F0", device)
    run.steps("F1 I1 W1", late)
    while run.left("F1") or run.left("F0"):
        run.steps("F0 I0 W0 F1 I1 W1", 1)
    run.steps("I0 I1", device)
    run.steps("I0 W0", late)
    run.steps("W1", run.left("W1"))
    run.steps("W0", run.left("W0"))
    return run.order


class _Order:
    """The order of a device as it grows: each step takes the next microbatch, or nothing when none is left."""

    def __init__(self, index: OpIndex, devices: int, device: int) -> None:
        stages = (device, index.stages - 1 - device)
        self.order: list[int] = []
        self.rows = {f"{kind}{chunk}": index.row(kind, stages[chunk]) for kind in "FIW" for chunk in (0, 1)}
        self.count = max(index.microbatches, 2 * devices - 1)
        self.done = dict.fromkeys(self.rows, 0)

    def left(self, step: str) -> int:
        """Return how many microbatches have this step before them."""
        return self.count - self.done[step]

    def steps(self, names: str, times: int) -> None:
        """Run these steps in turn, so many times."""
        for step in names.split() * times:
            if self.left(step):
                self.order += self.rows[step][self.done[step] : self.done[step] + 1]
                self.done[step] += 1


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

"""DualPipe (DeepSeek-V3): pipelines from both ends, forwards and backwards of opposite directions overlapped."""

from __future__ import annotations

from collections import deque

from pipesched.errors import NotApplicable
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.family import Family


def dualpipe(problem: Problem) -> Plan:
    """DeepSeek's eight steps. Needs even P, even M, and M >= 2P."""
    devices, count = problem.devices, problem.microbatches
    if devices % 2:
        raise NotApplicable(
            f"dualpipe needs an even number of devices, for instance {devices + 1}, not {devices}", "devices"
        )
    if count % 2 or count < 2 * devices:
        nearest = max(count + count % 2, 2 * devices)
        rule = f"an even number of microbatches, at least {2 * devices} (2P)"
        raise NotApplicable(f"dualpipe needs {rule}: for instance {nearest}, not {count}", "microbatches")
    index = OpIndex("FBIW", problem.stages, count)
    half, orders, pairs = devices // 2, list[list[int]](), dict[int, int]()
    for device in range(devices):
        rank, own = min(device, devices - 1 - device), device >= half  # own: the direction that enters on this half
        lane = [  # phase 0 is this half's own direction, phase 1 the other one
            (devices - 1 - device if direction else device, direction * count // 2) for direction in (own, not own)
        ]
        run = PhaseRun(index, lane)
        dualpipe_steps(run, half, rank, count // 2 - devices, unpaired=rank == half - 1)
        orders.append(run.order)
        pairs.update(run.pairs)
    return Plan(index, orders, pairs)


class PhaseRun:
    """One device's order as it grows. Phase p works on stage `lane[p][0]`, microbatches from `lane[p][1]` on."""

    def __init__(self, index: OpIndex, lane: list[tuple[int, int]]) -> None:
        self.order: list[int] = []
        self.pairs: dict[int, int] = {}
        self._index, self._lane = index, lane
        self._done = {(kind, phase): 0 for kind in "FB" for phase in (0, 1)}
        self._waiting_w: deque[int] = deque()

    def _next(self, kind: str, phase: int) -> int:
        """The number of the next operation; I counts as a backward, and queues its W."""
        counter = ("B" if kind == "I" else kind, phase)
        stage, first = self._lane[phase]
        microbatch = first + self._done[counter]
        self._done[counter] += 1
        if kind == "I":
            self._waiting_w.append(self._index.row("W", stage)[microbatch])
        return self._index.row(kind, stage)[microbatch]

    def op(self, kind: str, phase: int) -> None:
        """Run the next F, B or I of a phase."""
        self.order.append(self._next(kind, phase))

    def weight(self) -> None:
        """Run the W that has waited longest."""
        self.order.append(self._waiting_w.popleft())

    def pair(self, forward: int, backward: int) -> None:
        """Run the next F of one phase and the next B of the other together."""
        number = self._next("F", forward)
        self.pairs[number] = self._next("B", backward)
        self.order.append(number)


def dualpipe_steps(run: PhaseRun, half: int, rank: int, surplus: int, *, unpaired: bool) -> None:
    """The eight steps of a device `rank` places from its end, out of `half`; `surplus` is N-P, or M-2P for the V form.

    `unpaired`: the very first F0 and B1 of the steady state run one after another.
    """
    far = half - rank - 1
    for _ in range(2 * far):
        run.op("F", 0)
    for _ in range(rank + 1):
        run.op("F", 0)
        run.op("F", 1)
    for _ in range(far):
        run.op("I", 1)
        run.weight()
        run.op("F", 1)
    for step in range(surplus + rank + 1):
        if step == 0 and unpaired:
            run.op("F", 0)
            run.op("B", 1)
        else:
            run.pair(0, 1)
        run.pair(1, 0)
    for _ in range(far):
        run.op("B", 1)
        run.pair(1, 0)
    _drain(run, rank)
    for _ in range(far):
        run.weight()
        run.op("I", 0)
    for _ in range(rank + 1):
        run.weight()


def _drain(run: PhaseRun, rank: int) -> None:
    """Step 6: backwards of both phases; from the middle on only their I, whose W then fill the end."""
    kind = "B"
    for step in range(rank + 1):
        middle = step == (rank + 1) // 2
        kind = "I" if middle and rank % 2 else kind
        run.op(kind, 1)
        kind = "I" if middle else kind
        run.op(kind, 0)


FAMILY = Family(
    name="dualpipe",
    plan=dualpipe,
    placement="bidirectional",
    stages="P",
    needs="even P, even M >= 2P; two copies of the weights",
    bubble="(P/2-1)(F&B + B - 3w) idle at f = b = w",
    memory="P+1",
    source="DeepSeek-V3 (2024, arXiv 2412.19437)",
    elsewhere="DeepSeek DualPipe",
)

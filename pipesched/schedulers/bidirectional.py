"""Pipelines in opposite directions fill each other's bubbles: Chimera, BitPipe, DualPipe and its half, DualPipe-V.

In BitPipe each direction is a V. DualPipe (DeepSeek-V3) overlaps forwards and backwards of opposite directions.
DualPipe-V has one copy of the weights, and two stages a device on a V.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import BoundPlan, Family, NeedsEven
from pipesched.schedulers.plan_of import Arranged, of_devices


def merged(problem: Problem, *, eager: bool = False) -> Plan:
    """Run each direction in units of P/2 microbatches, and merge the two by slot: with odd P they want the same slots.

    Microbatch un+i (n = P/2, i < n) of a direction at its stage s: F at slot 2Su+2i+s, B at slot 2Su+2S-1-s+2i. If
    `eager`, all F of a unit on stage 0 are at its first slot: BitPipe's first stage runs them without a pause, and at
    P = 4 these are its published orders of 4 and 8 microbatches. With an odd M the second direction has one microbatch
    more.
    """
    stages, count = problem.stages, problem.microbatches
    index = OpIndex("FB", stages, count)
    slots: list[list[tuple[int, int]]] = [[] for _ in range(problem.devices)]
    for microbatch in range(count):
        is_second = microbatch >= count // 2
        unit, position = divmod(microbatch - count // 2 * is_second, problem.devices // 2)
        first = 2 * stages * unit + 2 * position
        for stage, device in enumerate(problem.settled_placement.ways[is_second]):
            forward = first + stage if stage or not eager else 2 * stages * unit
            slots[device].append((forward, index.row("F", stage)[microbatch]))
            slots[device].append((first + 2 * stages - 1 - stage, index.row("B", stage)[microbatch]))
    return Plan(index, [[number for _, number in sorted(row)] for row in slots])


CHIMERA = Family(
    name="chimera",
    plan=BoundPlan(merged, eager=False),
    placement="bidirectional",
    needs="even P, any M; two copies of the weights",
    bubble="(P-2)/(2M+P-2) at B = f and P dividing M",
    memory="P/2+1 .. P when M >= P",
    paper="Chimera (Li and Hoefler 2021, arXiv 2107.06925)",
    requires=NeedsEven("chimera", ("devices",)),
    settled_order=True,
)


BITPIPE = Family(
    name="bitpipe",
    plan=BoundPlan(merged, eager=True),
    placement="bidirectional",
    chunks=2,
    needs="even P, S = 2P, any M; two copies of the weights",
    bubble="(P-2)/(3M+P-2) at B = 2f and M = P",
    memory="3P/4+1/2 .. P when M >= P",
    paper="BitPipe (Wu et al. 2024, arXiv 2410.19367)",
    elsewhere="the authors' Megatron fork (P dividing M)",
    requires=NeedsEven("bitpipe", ("devices",)),
    settled_order=True,
)


def dualpipe(problem: Problem) -> Plan:
    """Run DeepSeek's eight steps, exactly where M >= 2P; with fewer microbatches the steps are cut. P, M are even."""
    devices, count = problem.devices, problem.microbatches
    index, half = OpIndex("FBIW", problem.stages, count), devices // 2

    def arranged(device: int) -> Arranged:
        rank, own = min(device, devices - 1 - device), device >= half  # own: the direction that enters on this half
        lane = [  # phase 0 is this half's own direction, phase 1 the other one
            (devices - 1 - device if direction else device, direction * count // 2) for direction in (own, not own)
        ]
        return eight_steps(index, lane, half, rank, count // 2)

    return of_devices(index, map(arranged, range(devices)))


def dualpipe_v(problem: Problem, *, whole: bool = False) -> Plan:
    """Run DualPipe's eight steps; phase 0 is stage d, phase 1 stage 2P-1-d, of the same microbatches.

    They are exactly DeepSeek's where M >= 2P; with fewer microbatches the steps are cut as in DualPipe. With `whole`
    backwards no W fills the end, and F and B run in turn.
    """
    devices, count = problem.devices, problem.microbatches
    index = OpIndex("FB" if whole else "FBIW", problem.stages, count)
    lanes = ([(device, 0), (2 * devices - 1 - device, 0)] for device in range(devices))
    return of_devices(index, (eight_steps(index, lane, devices, rank, count) for rank, lane in enumerate(lanes)))


class PhaseRun:
    """One device's order as it grows. Phase p works on stage `lane[p][0]`, microbatches from `lane[p][1]` on.

    The first `missing` forwards and backwards that are asked of each phase have no microbatch, and are left out. Where
    the numbers have no I and W, a backward is whole: B in place of I, no W, and F before B in place of a pair.
    """

    def __init__(self, index: OpIndex, lane: list[tuple[int, int]], missing: int) -> None:
        self.order: list[int] = []
        self.pairs: dict[int, int] = {}
        self._index, self._lane, self._is_whole = index, lane, "I" not in index.letters
        self._done = {(kind, phase): -missing for kind in "FB" for phase in (0, 1)}
        self._waiting_w: deque[int] = deque()

    def _next(self, kind: str, phase: int) -> list[int]:
        """Return the number of the next operation, if any is left; I counts as a backward, and queues its W."""
        counter = ("B" if kind == "I" else kind, phase)
        done = self._done[counter]
        self._done[counter] += 1
        if done < 0:
            return []
        stage, first = self._lane[phase]
        if kind == "I":
            self._waiting_w.append(self._index.row("W", stage)[first + done])
        return [self._index.row(kind, stage)[first + done]]

    def op(self, kind: str, phase: int) -> None:
        """Run the next F, B or I of a phase."""
        self.order += self._next("B" if kind == "I" and self._is_whole else kind, phase)

    def weight(self) -> None:
        """Run the W that has waited longest, if one waits."""
        if self._waiting_w:
            self.order.append(self._waiting_w.popleft())

    def pair(self, forward: int, backward: int) -> None:
        """Run the next F of one phase and the next B of the other together."""
        first, second = self._next("F", forward), self._next("B", backward)
        if self._is_whole:
            self.order += first + second
        else:
            self.order += first or second
            self.pairs.update(zip(first, second, strict=False))


def eight_steps(index: OpIndex, lane: list[tuple[int, int]], half: int, rank: int, count: int) -> Arranged:
    """Run the eight steps of the device that is `rank` devices from its end of the pipeline, out of `half`.

    Each phase has `count` microbatches; `lane` holds the stage and the first microbatch of each phase. Where fewer than
    2 * half microbatches leave nothing of the steady state, the first operations of the other steps have no microbatch
    either.
    """
    far, steady = half - rank - 1, count - 2 * half + rank + 1
    run = PhaseRun(index, lane, missing=max(-steady, 0))
    for _ in range(2 * far):
        run.op("F", 0)
    for _ in range(rank + 1):
        run.op("F", 0)
        run.op("F", 1)
    for _ in range(far):
        run.op("I", 1)
        run.weight()
        run.op("F", 1)
    for step in range(steady):
        if step == 0 and far == 0:  # where the directions meet, F and B end sooner in turn than as a pair
            run.op("F", 0)
            run.op("B", 1)
        else:
            run.pair(0, 1)
        run.pair(1, 0)
    for _ in range(far):
        run.op("B", 1)
        run.pair(1, 0)
    for place in range(2 * rank + 2):  # backwards of both phases in turn; from the middle on I, whose W fill the end
        run.op("B" if place <= rank else "I", 1 - place % 2)
    for _ in range(far):
        run.weight()
        run.op("I", 0)
    for _ in range(rank + 1):
        run.weight()
    return run.order, run.pairs


DUALPIPE = Family(
    name="dualpipe",
    plan=dualpipe,
    placement="bidirectional",
    needs="even P, even M; two copies of the weights",
    bubble="(P/2-1)(F&B + B - 3w) idle at f = b = w and M >= 2P",
    memory="min(M, P+1)",
    paper="DeepSeek-V3 (2024, arXiv 2412.19437)",
    elsewhere="DeepSeek DualPipe (M >= 2P)",
    requires=NeedsEven("dualpipe", ("devices", "microbatches")),
    settled_order=True,
    has_pairs=True,
    splits_backward=True,
)

HALVED = Family(
    name="dualpipe-v",
    plan=BoundPlan(dualpipe_v, whole=False),
    placement="v",
    chunks=2,
    needs="S = 2P, any M",
    bubble="(P-1)(F&B + B - 3w) idle at f = b = w a stage and M >= 2P",
    memory="min(M, P+1/2)",
    paper="Cut-in-half (Qi et al. 2025); DeepSeek DualPipeV",
    elsewhere="DeepSeek DualPipeV, PyTorch ScheduleDualPipeV (both M >= 2P)",
    settled_order=True,
    has_pairs=True,
    splits_backward=True,
)

WHOLE = replace(
    HALVED,
    name="dualpipe-v-whole",
    plan=BoundPlan(dualpipe_v, whole=True),
    bubble="(4P-5)f idle at B = 2f a stage, P >= 2 and M >= 2P",
    paper="DualPipeV of DeepSpeed 0.19.8, which keeps gradients of weights in the backward",
    elsewhere="DeepSpeed DualPipeVModule (M >= 2P)",
    has_pairs=False,
    splits_backward=False,
)

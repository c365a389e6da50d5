"""Pipelines in opposite directions fill each other's bubbles: Chimera, BitPipe, DualPipe and its half, DualPipe-V.

In BitPipe each direction is a V. DualPipe (DeepSeek-V3) overlaps forwards and backwards of opposite directions.
DualPipe-V has one copy of the weights, and two stages a device on a V. S stages, P devices, M microbatches.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import Binding, Family, require_even


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
    plan=Binding(merged, eager=False),
    placement="bidirectional",
    needs="even P, any M; two copies of the weights",
    bubble="(P-2)/(2M+P-2) at B = f and P dividing M",
    memory="P/2+1 .. P when M >= P",
    paper="Chimera (Li and Hoefler 2021, arXiv 2107.06925)",
    requires=Binding(require_even, name="chimera", keys=("devices",)),
    settled_order=True,
)

BITPIPE = Family(
    name="bitpipe",
    plan=Binding(merged, eager=True),
    placement="bidirectional",
    chunks=2,
    needs="even P, S = 2P, any M; two copies of the weights",
    bubble="(P-2)/(3M+P-2) at B = 2f and M = P",
    memory="3P/4+1/2 .. P when M >= P",
    paper="BitPipe (Wu et al. 2024, arXiv 2410.19367)",
    elsewhere="the authors' Megatron fork (P dividing M)",
    requires=Binding(require_even, name="bitpipe", keys=("devices",)),
    settled_order=True,
)


def dualpipe(problem: Problem) -> Plan:
    """Run DeepSeek's eight steps, exactly where M >= 2P; with fewer microbatches the steps are cut. P, M are even."""
    devices, count = problem.devices, problem.microbatches
    index, half = OpIndex("FBIW", problem.stages, count), devices // 2

    orders, pairs = list[list[int]](), dict[int, int]()
    for device in range(devices):
        rank, own = min(device, devices - 1 - device), device >= half  # own: the direction that enters on this half
        lane = [  # phase 0 is this half's own direction, phase 1 the other one
            (devices - 1 - device if direction else device, direction * count // 2) for direction in (own, not own)
        ]
        orders.append(eight_steps(index, lane, half, rank, count // 2, pairs))
    return Plan(index, orders, pairs)


def dualpipe_v(problem: Problem, *, whole: bool = False) -> Plan:
    """Run DualPipe's eight steps; phase 0 is stage d, phase 1 stage 2P-1-d, of the same microbatches.

    They are exactly DeepSeek's where M >= 2P; with fewer microbatches the steps are cut as in DualPipe. With `whole`
    backwards no W fills the end, and F and B run in turn.
    """
    devices, count = problem.devices, problem.microbatches
    index = OpIndex("FB" if whole else "FBIW", problem.stages, count)
    lanes, pairs = ([(device, 0), (2 * devices - 1 - device, 0)] for device in range(devices)), dict[int, int]()
    orders = [eight_steps(index, lane, devices, rank, count, pairs) for rank, lane in enumerate(lanes)]
    return Plan(index, orders, pairs)


def eight_steps(
    index: OpIndex, lane: list[tuple[int, int]], half: int, rank: int, count: int, pairs: dict[int, int]
) -> list[int]:
    """Run the eight steps of the device that is `rank` devices from its end of the pipeline, out of `half`.

    That is its order; its pairs come into `pairs`. Phase p works on stage `lane[p][0]`, on `count` microbatches from
    `lane[p][1]` on. Where fewer than 2 * half microbatches leave nothing of the steady state, the first operations of
    the other steps have no microbatch either. Where the numbers have no I and W, a backward is whole: B in place of I,
    no W, and F before B in place of a pair.
    """
    # a step is a kind and a phase, F0 say, or two of them that run as a pair, F0B1; W is of whatever stage has waited
    far, steady = half - rank - 1, count - 2 * half + rank + 1
    steps = [*["F0"] * 2 * far, *["F0", "F1"] * (rank + 1), *["I1", "W", "F1"] * far]
    meet = ["F0B1"] if far else ["F0", "B1"]  # where directions meet, F and B end sooner in turn than as a pair
    steps += [*meet, "F1B0", *["F0B1", "F1B0"] * (steady - 1)] if steady > 0 else []
    steps += ["B1", "F1B0"] * far
    both = [f"{'B' if place <= rank else 'I'}{1 - place % 2}" for place in range(2 * rank + 2)]
    steps += [*both, *["W", "I0"] * far, *["W"] * (rank + 1)]  # the W of I fill the end
    order, waiting, is_whole = list[int](), deque[int](), "I" not in index.letters
    done = dict.fromkeys(("F0", "F1", "B0", "B1"), min(steady, 0))  # below 0: these have no microbatch
    for step in steps:
        if step == "W":  # the one that has waited longest
            order += [waiting.popleft()] if waiting else []
            continue
        numbers = []
        for kind, phase in zip(step[::2], step[1::2], strict=True):
            counter = f"{'F' if kind == 'F' else 'B'}{phase}"
            (stage, first), place = lane[int(phase)], done[counter]
            done[counter] += 1
            if place >= 0:
                numbers.append(index.row("B" if is_whole and kind == "I" else kind, stage)[first + place])
                waiting += [index.row("W", stage)[first + place]] if kind == "I" and not is_whole else []
        order += numbers if is_whole else numbers[:1]
        pairs.update(() if is_whole else pairwise(numbers))
    return order


DUALPIPE = Family(
    name="dualpipe",
    plan=dualpipe,
    placement="bidirectional",
    needs="even P, even M; two copies of the weights",
    bubble="(P/2-1)(F&B + B - 3w) idle at f = b = w and M >= 2P",
    memory="min(M, P+1)",
    paper="DeepSeek-V3 (2024, arXiv 2412.19437)",
    elsewhere="DeepSeek DualPipe (M >= 2P)",
    requires=Binding(require_even, name="dualpipe", keys=("devices", "microbatches")),
    settled_order=True,
    has_pairs=True,
    splits_backward=True,
)

HALVED = Family(
    name="dualpipe-v",
    plan=Binding(dualpipe_v, whole=False),
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
    plan=Binding(dualpipe_v, whole=True),
    bubble="(4P-5)f idle at B = 2f a stage, P >= 2 and M >= 2P",
    paper="DualPipeV of DeepSpeed 0.19.8, which keeps gradients of weights in the backward",
    elsewhere="DeepSpeed DualPipeVModule (M >= 2P)",
    has_pairs=False,
    splits_backward=False,
)

"""Two pipelines in opposite directions fill each other's bubbles: Chimera, and BitPipe, in which each is a V."""

from __future__ import annotations

from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.problem.ops import OpIndex
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.family import Family, need_even


def chimera(problem: Problem) -> Plan:
    """Merge the two directions by slot. P must be even: with odd P they want the same slots."""
    return merged(problem)


def merged(problem: Problem, *, eager: bool = False) -> Plan:
    """Run each direction in units of P/2 microbatches, and merge the two by slot.

    Microbatch un+i (n = P/2, i < n) of a direction at its stage s: F at slot 2Su+2i+s, B at slot 2Su+2S-1-s+2i. If
    `eager`, all F of a unit on stage 0 are at its first slot. With an odd M the second direction has one microbatch
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


def _chimera_requires(problem: Problem) -> None:
    need_even("chimera", ("devices",), problem)


FAMILY = Family(
    name="chimera",
    plan=chimera,
    placement="bidirectional",
    needs="even P, any M; two copies of the weights",
    bubble="(P-2)/(2M+P-2) at B = f and P dividing M",
    memory="P/2+1 .. P when M >= P",
    paper="Chimera (Li and Hoefler 2021, arXiv 2107.06925)",
    requires=_chimera_requires,
    settled_order=True,
)


def bitpipe(problem: Problem) -> Plan:
    """Merge the two directions by slot as Chimera does; the first stage runs the forwards of a unit without a pause.

    At P = 4 these are the published orders of 4 and 8 microbatches. P must be even.
    """
    return merged(problem, eager=True)


def _bitpipe_requires(problem: Problem) -> None:
    need_even("bitpipe", ("devices",), problem)


BITPIPE = Family(
    name="bitpipe",
    plan=bitpipe,
    placement="bidirectional",
    chunks=2,
    needs="even P, S = 2P, any M; two copies of the weights",
    bubble="(P-2)/(3M+P-2) at B = 2f and M = P",
    memory="3P/4+1/2 .. P when M >= P",
    paper="BitPipe (Wu et al. 2024, arXiv 2410.19367)",
    elsewhere="the authors' Megatron fork (P dividing M)",
    requires=_bitpipe_requires,
    settled_order=True,
)

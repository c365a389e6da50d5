"""BitPipe: two pipelines in opposite directions, each a V of two stages a device, so that bubbles are half as long."""

from __future__ import annotations

from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.schedulers.chimera import merged
from pipesched.schedulers.family import Family, need_even


def bitpipe(problem: Problem) -> Plan:
    """Merge the two directions by slot as Chimera does; the first stage runs the forwards of a unit without a pause.

    At P = 4 these are the published orders of 4 and 8 microbatches. P must be even.
    """
    return merged(problem, eager=True)


def _require_even_devices(problem: Problem) -> None:
    need_even("bitpipe", ("devices",), problem)


FAMILY = Family(
    name="bitpipe",
    plan=bitpipe,
    placement="bidirectional",
    chunks=2,
    needs="even P, S = 2P, any M; two copies of the weights",
    bubble="(P-2)/(3M+P-2) at B = 2f and M = P",
    memory="3P/4+1/2 .. P when M >= P",
    paper="BitPipe (Wu et al. 2024, arXiv 2410.19367)",
    elsewhere="the authors' Megatron fork (P dividing M)",
    requires=_require_even_devices,
    settled_order=True,
)

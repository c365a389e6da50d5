"""Cuts near a balanced one, where devices have several stages: all that single items that change stages lead to."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from pipesched.core.clock import look
from pipesched.solver.cuts.chain import Chain
from pipesched.solver.cuts.in_order import RankedCut


def cuts_near(chain: Chain, ends: tuple[int, ...], most: int) -> Iterator[RankedCut]:
    """Yield cuts by their bounds, then their largest work, of `most` that are looked at, beginning from a cut."""
    seen, queue = {ends}, [RankedCut(*chain.bound_of(ends), ends)]
    while queue:
        best = heappop(queue)
        yield best
        for near in _moved(best.ends):
            if near not in seen and len(seen) < most:
                look()
                seen.add(near)
                heappush(queue, RankedCut(*chain.bound_of(near), near))


def _moved(ends: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the cuts in which one stage but the last ends an item earlier or later, and none is empty."""
    for stage, (begin, end, behind) in enumerate(zip((0, *ends), ends, ends[1:], strict=False)):
        for moved in (end - 1, end + 1):
            if begin < moved < behind:
                yield (*ends[:stage], moved, *ends[stage + 1 :])

"""Differences of clocks under constraints: bounds on each pair, by shortest paths, and a cycle where there are none.

A bound (i, j) of w says that clock j is ahead of clock i by at most w ticks. Such constraints can be met exactly when
no cycle of them has a negative sum, and the shortest path from i to j is then the tightest bound that follows
(Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms, difference constraints; Johnson's algorithm).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

Pair = tuple[int, int]
Bounds = Mapping[Pair, int]
NONE = -1  # no clock


def negative_cycle(count: int, bounds: Bounds) -> list[Pair] | None:
    """Return a cycle of bounds that cannot be met together, of two wherever one is; None if all can."""
    for (i, j), most in bounds.items():
        if i < j and (j, i) in bounds and most + bounds[j, i] < 0:
            return [(i, j), (j, i)]
    _, before, last = _relaxed(count, bounds)
    if last == NONE:
        return None
    for _ in range(count):
        last = before[last]
    cycle: list[Pair] = []
    at = last
    while not cycle or at != last:
        cycle.append((before[at], at))
        at = before[at]
    return cycle[::-1]


def _relaxed(count: int, bounds: Bounds) -> tuple[list[int], list[int], int]:
    """Return clocks by Bellman and Ford, which clock set each, and the last one that had to change.

    That is NONE where the clocks meet all bounds; else it hangs on a cycle of bounds that cannot be met together.
    """
    clocks, before, last = [0] * count, [NONE] * count, NONE
    for _ in range(count + 1):
        last = NONE
        for (i, j), most in bounds.items():
            if clocks[i] + most < clocks[j]:
                clocks[j], before[j], last = clocks[i] + most, i, j
        if last == NONE:
            break
    return clocks, before, last


def tightest(count: int, bounds: Bounds, sources: Sequence[int]) -> dict[Pair, int]:
    """Return the tightest bound of each pair from these sources that follows; pairs without any are left out.

    The bounds can be met together (`negative_cycle` says so).
    """
    clocks, _, _ = _relaxed(count, bounds)
    arcs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for (i, j), most in bounds.items():
        arcs[i].append((j, most + clocks[i] - clocks[j]))
    found: dict[Pair, int] = {}
    for source in sources:
        reached: dict[int, int] = {}
        queue = [(0, source)]
        while queue:
            length, node = heappop(queue)
            if node in reached:
                continue
            reached[node] = length
            for target, more in arcs[node]:
                if target not in reached:
                    heappush(queue, (length + more, target))
        found |= {(source, node): length - clocks[source] + clocks[node] for node, length in reached.items()}
    return found


def with_equality(bounds: Bounds, pair: Pair, difference: int) -> dict[Pair, int]:
    """Return the bounds with one more: clock j is ahead of clock i by exactly that."""
    i, j = pair
    return {**bounds, (i, j): min(bounds.get((i, j), difference), difference), (j, i): -difference}

"""Largest differencing (Karmarkar and Karp 1982): weights into parts whose sums are nearly equal."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from operator import itemgetter
from typing import Any


def differencing(weights: Sequence[int], parts: int) -> list[list[int]]:
    """Return the positions of the weights in each of so many parts, the heaviest part first.

    The two partitions of the largest differences between their heaviest and lightest part become one, the heaviest
    part of the one with the lightest of the other, until one is left. Of equal differences the older is first. No part
    is empty where there are as many weights as parts.
    """
    rest = [(0, None)] * (parts - 1)
    heap: list[tuple[int, int, list[tuple[int, Any]]]] = [
        (-weight if parts > 1 else 0, number, [(weight, number), *rest]) for number, weight in enumerate(weights)
    ]
    heapify(heap)
    for number in range(len(weights), 2 * len(weights) - 1):
        first = heappop(heap)[2]
        second = heap[0][2]
        joined = [  # members as trees: lists would be copied at every step
            (a + b, these if those is None else those if these is None else (these, those))
            for (a, these), (b, those) in zip(first, reversed(second), strict=True)
        ]
        joined.sort(key=itemgetter(0), reverse=True)
        heapreplace(heap, (joined[-1][0] - joined[0][0], number, joined))
    return [_members(tree) for _, tree in heap[0][2]]


def _members(tree: Any) -> list[int]:
    """Return the numbers in a tree of pairs, from small to large."""
    found, left = [], [] if tree is None else [tree]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left += node
        else:
            found.append(node)
    return sorted(found)

"""Packings that only have to fit: no bin beyond the cap, and none empty."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate

STEPS = 20_000  # documents that are put down in a search with steps back; the first way down is best fit decreasing
MOST_SEARCHED = 2_000  # documents: of more, first fit leaves next to no room

Filled = list[list[int]]  # the documents of each bin


def first_fit(tokens: Sequence[int], bins: int, cap: int) -> tuple[Filled, list[int]]:
    """Return the bins that each document, in this order, gets into: the first with room; and the documents left over.

    A tree of the most room in each range of bins finds it in a logarithm of their number.
    """
    width = 1 << max(bins - 1, 0).bit_length()
    most = [0] * width + [cap] * bins + [0] * (width - bins)
    for node in range(width - 1, 0, -1):
        most[node] = max(most[2 * node], most[2 * node + 1])
    filled: Filled = [[] for _ in range(bins)]
    left = []
    for document, size in enumerate(tokens):
        if most[1] < size:
            left.append(document)
            continue
        node = 1
        while node < width:
            node = 2 * node + (most[2 * node] < size)
        filled[node - width].append(document)
        most[node] -= size
        while node > 1:
            node //= 2
            most[node] = max(most[2 * node], most[2 * node + 1])
    return filled, left


def within(tokens: Sequence[int], bins: int, cap: int) -> Filled | None:
    """Return documents, from long to short, in so many bins within the cap, none of them empty; None if none is found.

    What is found first is taken: by first fit, else by a search with steps back.
    """
    if len(tokens) < bins or sum(tokens) > bins * cap or tokens[0] > cap:
        return None
    filled, left = first_fit(tokens, bins, cap)
    if not left:
        return none_empty(filled)
    found = _searched(tokens, bins, cap) if len(tokens) <= MOST_SEARCHED else None
    return None if found is None else none_empty(found)


def none_empty(filled: Filled) -> Filled:
    """Let each bin that is empty have the last document of a bin that holds most of them; return the bins."""
    rich = [(-len(members), number) for number, members in enumerate(filled) if len(members) > 1]
    heapify(rich)
    for members in filled:
        if not members:
            count, number = rich[0]
            members.append(filled[number].pop())
            heapreplace(rich, (count + 1, number))
    return filled


def _searched(tokens: Sequence[int], bins: int, cap: int) -> Filled | None:
    """Search with steps back: a document goes to each bin with room, the fullest first, but once to bins equally full.

    A way ends where the room of the bins that still take the shortest document is less than what is left.
    """
    room, placed = [cap] * bins, [-1] * len(tokens)
    rest = [*accumulate(reversed(tokens))][::-1]
    tried: list[list[int]] = []
    for _ in range(STEPS):
        document = len(tried)
        if document == len(tokens):
            return [[d for d, number in enumerate(placed) if number == b] for b in range(bins)]
        size, least = tokens[document], tokens[-1]
        usable = sum(free for free in room if free >= least)
        ways: list[int] = []
        if usable >= rest[document]:
            first = {free: number for number, free in reversed([*enumerate(room)]) if free >= size}
            ways = [first[free] for free in sorted(first, reverse=True)]
        tried.append(ways)
        while not tried[-1]:
            tried.pop()
            if not tried:
                return None
            room[placed[len(tried) - 1]] += tokens[len(tried) - 1]
        document = len(tried) - 1
        placed[document] = tried[-1].pop()
        room[placed[document]] -= tokens[document]
    return None

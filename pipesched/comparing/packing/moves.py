"""Moves that make the slowest rank shorter: documents to a fast rank or for shorter ones of it, or within the rank."""

from __future__ import annotations

from collections.abc import Sequence

from pipesched.comparing.packing.bins import Bins
from pipesched.core.arrays import Ints, np

FASTEST = 3  # ranks that are asked to take something
MOST_GIVEN = 500  # documents of the slowest rank that may leave it


def improve(bins: Bins, steps: int, most: int) -> None:
    """Make moves that shorten the slowest rank, at most so many, each the best of at most `most` of its kind."""
    for _ in range(steps):
        slowest = int(bins.takes.argmax())
        fast = [rank for rank in np.argsort(bins.takes, kind="stable")[:FASTEST].tolist() if rank != slowest]
        if not (
            _give(bins, slowest, fast, most)
            or _shift(bins, slowest, most)
            or any(_trade(bins, slowest, rank, most) for rank in fast)
        ):
            return


def _give(bins: Bins, slow: int, fast: Sequence[int], most: int) -> bool:
    """Move a document from a slow rank to the first of the fast ones where that makes the slower of both shorter."""
    given = bins.documents_of(slow)
    given = _some(given[bins.count[bins.bin_of[given]] > 1], MOST_GIVEN)
    left = _without(bins, slow, given)
    helps = left < bins.takes[slow]
    return bool(helps.any()) and any(_give_to(bins, slow, rank, given[helps], left[helps], most) for rank in fast)


def _give_to(bins: Bins, slow: int, fast: int, given: Ints, left: Ints, most: int) -> bool:
    """Move one of the documents to a fast rank, if that helps; `left` is what the slow one takes without each."""
    m = bins.microbatches
    middle = (bins.takes[slow] + bins.takes[fast]) // 2
    near = np.argsort(np.abs(left - middle), kind="stable")[: max(most // m, 1)]
    chosen, target = np.repeat(near, m), np.tile(np.arange(m), len(near))
    has_room = bins.room[fast * m + target] >= bins.documents.tokens[given[chosen]]
    chosen, target = chosen[has_room], target[has_room]
    if not len(chosen):
        return False
    works, sizes = bins.cases(fast, len(chosen))
    cases = np.arange(len(chosen))
    works[target, cases] += bins.documents.work[given[chosen]]
    sizes[target, cases] += bins.documents.size[given[chosen]]
    taken = bins.taking(works, sizes)
    best = _best(left[chosen], taken)
    if max(left[chosen[best]], taken[best]) >= bins.takes[slow]:
        return False
    bins.put(int(given[chosen[best]]), int(fast * m + target[best]))
    bins.takes[slow], bins.takes[fast] = left[chosen[best]], taken[best]
    return True


def _without(bins: Bins, rank: int, documents: Ints) -> Ints:
    """Return what a rank takes without each of its documents."""
    works, sizes = bins.cases(rank, len(documents))
    cases, rows = np.arange(len(documents)), bins.bin_of[documents] % bins.microbatches
    works[rows, cases] -= bins.documents.work[documents]
    sizes[rows, cases] -= bins.documents.size[documents]
    return bins.taking(works, sizes)


def _some(documents: Ints, most: int) -> Ints:
    """Return at most so many of the documents, from the longest to the shortest in even steps."""
    if len(documents) <= most:
        return documents
    return documents[np.arange(most) * (len(documents) - 1) // max(most - 1, 1)]


def _best(first: Ints, second: Ints) -> int:
    """Return the case in which the larger of two numbers is least, of equals that of the least sum."""
    return int(np.lexsort((first + second, np.maximum(first, second)))[0])


def _trade(bins: Bins, slow: int, fast: int, most: int) -> bool:
    """Exchange a document of a slow rank for a shorter one of a fast rank, if that makes the slower of both shorter."""
    m, work, tokens = bins.microbatches, bins.documents.work, bins.documents.tokens
    given, got = (_some(bins.documents_of(rank), most) for rank in (slow, fast))
    i, j = (pair.ravel() for pair in np.meshgrid(given, got, indexing="ij"))
    source, target = bins.bin_of[i], bins.bin_of[j]
    fits = (work[i] > work[j]) & (bins.room[target] >= tokens[i] - tokens[j])
    i, j, source, target = i[fits], j[fits], source[fits], target[fits]
    part = bins.takes[slow] - bins.takes[fast]
    share = bins.work[bins.of_rank(slow)].sum() * (part / (2 * max(int(bins.takes[slow]), 1)))
    near = np.argsort(np.abs(work[i] - work[j] - share), kind="stable")[:most]
    if not len(near):
        return False
    i, j, source, target = i[near], j[near], source[near], target[near]
    cases, both = np.arange(len(near)), []
    for rank, rows, sign in ((slow, source, -1), (fast, target, 1)):
        works, sizes = bins.cases(rank, len(near))
        works[rows % m, cases] += sign * (work[i] - work[j])
        sizes[rows % m, cases] += sign * (bins.documents.size[i] - bins.documents.size[j])
        both.append(bins.taking(works, sizes))
    best = _best(*both)
    if max(both[0][best], both[1][best]) >= bins.takes[slow]:
        return False
    bins.put(int(i[best]), int(target[best]))
    bins.put(int(j[best]), int(source[best]))
    bins.takes[slow], bins.takes[fast] = both[0][best], both[1][best]
    return True


def _shift(bins: Bins, rank: int, most: int) -> bool:
    """Move a document to another microbatch of its rank, or exchange two microbatches, if that makes it shorter."""
    m, work, size = bins.microbatches, bins.documents.work, bins.documents.size
    moved = bins.documents_of(rank)
    moved = _some(moved[bins.count[bins.bin_of[moved]] > 1], max(most // m, 1))
    chosen, target = np.repeat(moved, m), np.tile(np.arange(m), len(moved))
    source = bins.bin_of[chosen] % m
    fits = (target != source) & (bins.room[rank * m + target] >= bins.documents.tokens[chosen])
    chosen, target, source = chosen[fits], target[fits], source[fits]
    first, second = np.triu_indices(m, 1)
    count = len(chosen)
    works, sizes = bins.cases(rank, count + len(first))
    cases, swaps = np.arange(count), np.arange(count, count + len(first))
    for cells, amounts, held in ((works, work, bins.work), (sizes, size, bins.size)):
        cells[source, cases] -= amounts[chosen]
        cells[target, cases] += amounts[chosen]
        own = held[bins.of_rank(rank)]
        cells[first, swaps], cells[second, swaps] = own[second], own[first]
    takes = bins.taking(works, sizes)
    if not len(takes) or takes.min() >= bins.takes[rank]:
        return False
    best = int(takes.argmin())
    if best < count:
        bins.put(int(chosen[best]), int(rank * m + target[best]))
    else:
        bins.exchange(int(rank * m + first[best - count]), int(rank * m + second[best - count]))
    bins.takes[rank] = takes[best]
    return True

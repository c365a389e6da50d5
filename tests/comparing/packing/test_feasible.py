"""Packings that only have to fit: first fit is that of the plain loop, and what fits is found."""

from __future__ import annotations

from itertools import product

from hypothesis import given, strategies as st

from pipesched.comparing.packing.timing import first_fit, none_empty, within
from tests.packings import GOLDEN

Sizes = st.lists(st.integers(1, 12), min_size=1, max_size=7).map(lambda sizes: sorted(sizes, reverse=True))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(1, 9))
def test_first_fit_by_the_plain_loop(sizes: list[int], bins: int) -> None:
    """Each document is in the first bin that had room for it, or is left over where none had."""
    room, filled, left = [12] * bins, [list[int]() for _ in range(bins)], []
    for document, size in enumerate(sizes):
        with_room = [number for number in range(bins) if room[number] >= size]
        if with_room:
            room[with_room[0]] -= size
            filled[with_room[0]].append(document)
        else:
            left.append(document)
    assert first_fit(sizes, bins, 12) == (filled, left)


@given(Sizes, st.integers(1, 4))
def test_what_fits_is_found(sizes: list[int], bins: int) -> None:
    """Bins within the cap, none empty, are found exactly where some assignment of the documents is one."""
    found = within(sizes, bins, 12)
    possible = False
    for target in product(range(bins), repeat=len(sizes)):
        used = [sum(size for size, number in zip(sizes, target, strict=True) if number == one) for one in range(bins)]
        possible = possible or (min(used) > 0 and max(used) <= 12)
    assert (found is not None) == possible
    if found is not None:
        assert sorted(document for members in found for document in members) == [*range(len(sizes))]
        assert all(members and sum(sizes[document] for document in members) <= 12 for members in found)


def test_steps_back_find_what_first_fit_misses() -> None:
    """5, 4, 3, 3, 3, 2 fill two bins of 10 in one way, which first fit misses."""
    sizes = [5, 4, 3, 3, 3, 2]
    assert first_fit(sizes, 2, 10) == ([[0, 1], [2, 3, 4]], [5])
    assert within(sizes, 2, 10) == [[0, 2, 5], [1, 3, 4]]


def test_the_fullest_bins_give() -> None:
    """An empty bin gets the last document of a bin with most of them."""
    assert none_empty([[0, 1, 2], [], [3, 4], []]) == [[0], [2], [3, 4], [1]]


def test_published_documents() -> None:
    """Four bins of 12 hold the published documents, three do not."""
    assert within(GOLDEN, 4, 12) is not None
    assert within(GOLDEN, 3, 12) is None

"""The search: bins are filled up to their aims within the cap."""

from __future__ import annotations

from hypothesis import given, strategies as st

from pipesched.comparing.packing.search import fill


def test_the_bin_that_lacks_most_is_next() -> None:
    """Documents from long to short go where most is lacking, of equals to the first bin, and not beyond the cap."""
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 99) == [[0, 2, 4], [1, 3]]
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 8) == [[0, 2], [1, 3, 4]]
    assert fill([5, 4, 3, 2, 1], [5, 4, 3, 2, 1], [9, 6], 7) is None


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.lists(st.integers(0, 90), min_size=1, max_size=6))
def test_every_document_is_in_one_bin(sizes: list[int], aims: list[int]) -> None:
    """Nothing is lost, and no bin is above the cap."""
    tokens = sorted(sizes, reverse=True)
    filled = fill(tokens, tokens, aims, 60)
    if filled is not None:
        assert sorted(document for members in filled for document in members) == [*range(len(tokens))]
        assert all(sum(tokens[document] for document in members) <= 60 for members in filled)

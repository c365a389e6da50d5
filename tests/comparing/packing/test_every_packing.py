"""Which packings are all tried, and that ranks are shared out as well as can be."""

from __future__ import annotations

import pytest

from pipesched.comparing.packing.bound import are_few


@pytest.mark.parametrize(
    ("documents", "ranks", "microbatches", "few"),
    [
        (8, 2, 2, True), (9, 2, 2, False), (16, 2, 1, True), (16, 1, 2, True), (17, 1, 2, False), (10, 3, 1, True),
        (11, 1, 3, False), (7, 5, 1, True), (8, 5, 1, False), (6, 3, 2, True), (7, 3, 2, False), (10**6, 1, 1, True),
    ],
)  # fmt: skip
def test_few(documents: int, ranks: int, microbatches: int, few: bool) -> None:
    """All are tried where (D x M)^N is at most 100,000."""
    assert are_few(documents, ranks, microbatches) == few == ((ranks * microbatches) ** min(documents, 99) <= 100_000)

"""How many microbatches are under way at once, whatever the costs."""

from __future__ import annotations

import pytest

from pipesched.estimation.in_flight import most_of_first
from pipesched.pipeline.problem.placement import named_placement


@pytest.mark.parametrize(
    ("algorithm", "stages", "microbatches", "most"),
    [("1f1b", 4, 64, 4), ("1f1b", 4, 3, 3), ("zb-h2", 4, 64, 7), ("naive", 4, 64, None), ("naive", 4, 8, 8)],
)
def test_the_first_stage_keeps(algorithm: str, stages: int, microbatches: int, most: int | None) -> None:
    """A number that more microbatches do not change, or all of a few; none where it grows with them."""
    assert most_of_first(named_placement("linear", 4, stages), microbatches, algorithm) == most

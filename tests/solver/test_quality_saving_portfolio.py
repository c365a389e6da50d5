"""The portfolio with offload and recompute: its parts are no worse than they were."""

from __future__ import annotations

from functools import cache

import pytest

from pipesched.solver.case import Candidate
from tests.quality_cases import best_value, limit_of_saving, saving
from tests.quality_table import Table, golden_test

pytestmark = pytest.mark.slow

FIRST = {"the first three": 3, "the first thirty": 30}
CASES = ("offload", "uneven offload", "recompute", "halves", "loop of halves", "v of halves", "tight offload")
SOURCES = {"warm-ups": "1f1b, warm-ups", "list schedules": "list", "one by one": "one microbatch"}


@cache
def candidates(case: str) -> list[Candidate]:
    """Return all candidates, in their order."""
    return list(saving(case).ruled_candidates())


def reached(part: str, case: str) -> int | None:
    """Return the least makespan of a part."""
    found = candidates(case)
    if part in SOURCES:
        found = [candidate for candidate in found if candidate.source.startswith(SOURCES[part])]
    return best_value(saving(case), found[: FIRST.get(part)])


PARTS = Table(
    reached,
    limit_of_saving,
    variants=("all", *FIRST, *SOURCES),
    cases=CASES,
    golden={
        "all": (66, 1360, 1920, 84, 125, 132, 2250),
        "the first three": (66, 1360, 1920, 84, 125, 134, 2520),
        "the first thirty": (66, 1360, 1920, 84, 125, 132, 2250),
        "warm-ups": (66, 1360, 1920, 84, None, None, 2520),
        "list schedules": (68, 1360, 1920, 87, 140, 147, 2520),
        "one by one": (192, 3040, 5040, 210, 282, 294, 5940),
    },
)

test_each_part_of_the_portfolio_that_saves_memory = golden_test(PARTS, nightly=True)

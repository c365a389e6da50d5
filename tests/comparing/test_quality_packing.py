"""Packings of many documents: no longer than they were, by each of some algorithms, and above their bounds."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import pipesched
from tests.comparing.packings import documents
from tests.quality_table import Table

UNIT = 10**6  # works have six decimals
CASES: dict[str, dict[str, Any]] = {
    "one is as long as the cap": {"median": 1500, "cap": 32768, "ranks": 8},
    "many are long": {"median": 4000, "cap": 32768, "ranks": 4},
    "a small cap": {"median": 1500, "cap": 8192, "ranks": 4},
}


@cache
def packed(algorithm: str, case: str) -> pipesched.Packing:
    """Return the packing of a case by an algorithm on four devices."""
    given = CASES[case]
    problem = pipesched.make_problem(devices=4, microbatches=24, forward=1, backward_input=1, backward_weight=1)
    lengths = documents(7, 256, given["median"], given["cap"])
    return pipesched.pack(
        lengths, ranks=given["ranks"], cap=given["cap"], problem=problem, algorithm=algorithm, attention=0.3
    )


PACKINGS = Table(
    lambda algorithm, case: round(packed(algorithm, case).makespan * UNIT),
    lambda case: round(min(packed(algorithm, case).bound for algorithm in ("1f1b", "zb-h1", "naive")) * UNIT),
    variants=("1f1b", "zb-h1", "naive"),
    cases=tuple(CASES),
    golden={
        "1f1b": (12413503, 32573661, 45281100),
        "zb-h1": (9367630, 29626845, 42433281),
        "naive": (12429897, 37807806, 50531217),
    },
)


@pytest.mark.parametrize(("algorithm", "case"), PACKINGS.entries)
def test_packings(algorithm: str, case: str) -> None:
    PACKINGS.check(algorithm, case)

"""Shares of the budget for each stage: list schedules under them are no worse than they were."""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.solver.case import Candidate
from pipesched.solver.policy import DEFAULT
from pipesched.solver.portfolio import RULES, listed, pools
from tests.quality_cases import best_value, bound_of, keeping
from tests.quality_table import Table, golden_test

SEVERAL_STAGES = ("v", "uneven v", "loop", "uneven loop", "wave", "scattered")


def reached(pause: str, case: str) -> int | None:
    """Return the least makespan of all rules under these shares."""
    known = keeping(case)

    def candidates() -> Iterator[Candidate]:
        choice = next(choice for choice in pools(known) if choice.name == f", {pause}")
        for rule in RULES.values():
            yield from listed(known, pause, choice, rule(known))

    return best_value(known, candidates())


SHARED = Table(
    reached,
    bound_of,
    variants=[f"shares {pause}" for pause in DEFAULT.portfolio.pauses],
    cases=SEVERAL_STAGES,
    golden={
        "shares 0": (58, 226, 69, 329, 206, 1940),
        "shares 2": (58, 228, 69, 329, 206, 2070),
        "shares 10": (59, 228, 76, 355, 207, 2210),
    },
)

test_list_schedules_under_shares = golden_test(SHARED)

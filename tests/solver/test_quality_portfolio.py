"""The portfolio: the named algorithms, the list schedules, and the quick one are no worse than they were."""

from __future__ import annotations

from pipesched.solver.portfolio import PLAIN_RULES, named_candidates, ruled_candidates
from tests.quality_cases import best_value, bound_of, keeping
from tests.quality_problems import PROBLEMS
from tests.quality_table import Table, golden_test


def reached(part: str, case: str) -> int | None:
    """Return the least makespan of a part of the portfolio."""
    known = keeping(case)
    if part == "named":
        return best_value(known, named_candidates(known))
    if part == "quick":
        return best_value(known, known.quick_ruled_candidates())
    sources = tuple(f"list ({rule}," for rule in PLAIN_RULES) if part == "plain" else ("list",)
    return best_value(known, (found for found in ruled_candidates(known) if found.source.startswith(sources)))


PORTFOLIO = Table(
    reached,
    bound_of,
    variants=("named", "ruled", "plain", "quick"),
    cases=tuple(PROBLEMS),
    golden={
        "named": (31, 178, 2690, 59, 227, 69, 367, 221, 1960, 107),
        "ruled": (32, 181, 2690, 58, 226, 69, 318, 206, 1900, 92),
        "plain": (33, 181, 2690, 67, 234, 69, 343, 215, 1960, 94),
        "quick": (33, 181, 2690, 59, 226, 69, 329, 215, 2040, 105),
    },
)

test_each_part_of_the_portfolio = golden_test(PORTFOLIO)

"""Justification: from a list schedule it gets no less far than it did, with its noise and without."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.solver.policy import PortfolioPolicy, SolvePolicy
from pipesched.solver.portfolio import justify, pools
from tests.quality_cases import best_value, bound_of, keeping
from tests.quality_problems import PROBLEMS
from tests.quality_table import Table, golden_test


def reached(seed: str, case: str) -> int | None:
    """Return the makespan after justification of the quick list schedule."""
    known = keeping(case)
    if seed == "without noise":
        known = replace(known, policy=SolvePolicy(portfolio=PortfolioPolicy(fruitless=len(pools(known)))))
    quick = next(known.quick_ruled_candidates())
    better = justify(known, quick.schedule, Limits(seed=int(seed == "seed 1")), Clock())
    return best_value(known, chain([quick], better))


JUSTIFIED = Table(
    reached,
    bound_of,
    variants=("seed 0", "seed 1", "without noise"),
    cases=tuple(PROBLEMS),
    golden={
        "seed 0": (31, 181, 2690, 57, 226, 66, 329, 203, 1890, 92),
        "seed 1": (31, 180, 2690, 57, 226, 66, 325, 203, 1890, 92),
        "without noise": (31, 181, 2690, 57, 226, 66, 329, 203, 1890, 92),
    },
)

test_justification_of_a_list_schedule = golden_test(JUSTIFIED, nightly=True)

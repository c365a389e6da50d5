"""Large neighbourhood search: from a list schedule it gets no less far than it did.

Its windows are small here, so that CP-SAT solves them to optimality: the clock decides nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.solver.neighbourhood import improve
from pipesched.solver.policy import SolvePolicy, WindowPolicy
from tests.quality_cases import keeping
from tests.quality_table import Table, golden_test

pytestmark = pytest.mark.slow

POLICY = SolvePolicy(windows=WindowPolicy(first_size=24, least_size=10, most_size=40, fruitless=12))
SEEDS = (0, 1)


def improved(objective: str, case: str, seed: int) -> int:
    """Return the objective of the last schedule that the search yields."""
    known = replace(keeping(case, objective), policy=POLICY)
    quick = next(known.quick_ruled_candidates())
    best = known.value(quick.schedule)
    for candidate in improve(known, quick.schedule, Limits(600, workers=1, seed=seed), Clock()):
        assert candidate.schedule.fits
        best = known.value(candidate.schedule)
    return best


IMPROVED = Table(
    lambda objective, case: min(improved(objective, case, seed) for seed in SEEDS),
    lambda case: keeping(case, "span").bound().ticks,
    variants=("makespan", "span"),
    cases=("uneven linear", "uneven v", "loop", "wave", "scattered", "two directions"),
    golden={"makespan": (179, 214, 66, 200, 1830, 92), "span": (179, 214, 66, 197, 1830, 87)},
)

test_the_search_improves_a_list_schedule = golden_test(IMPROVED, nightly=True)

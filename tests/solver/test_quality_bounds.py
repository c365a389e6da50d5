"""Lower bounds under a budget are no lower than they were, and no higher than a schedule that is known."""

from __future__ import annotations

from pipesched.solver.portfolio import ruled_candidates
from tests.quality_cases import best_value, keeping, saving
from tests.quality_problems import PROBLEMS, SAVING, TIGHT
from tests.quality_table import Table, golden_test

OBJECTIVES = ("makespan", "span")


def known_value(case: str) -> int:
    """Return the least makespan of a list schedule, which keeps all activations."""
    value = best_value(keeping(case), ruled_candidates(keeping(case)))
    assert value is not None
    return value


KEEPING = Table(
    lambda objective, case: keeping(case, objective).bound().ticks,
    known_value,
    variants=OBJECTIVES,
    cases=(*PROBLEMS, *TIGHT),
    golden={
        "makespan": (30, 170, 2590, 52, 204, 57, 248, 188, 1720, 92, 3030, 168, 2760, 276, 5940, 756),
        "span": (30, 169, 2590, 52, 204, 56, 248, 184, 1630, 86, 2940, 165, 2760, 276, 5940, 756),
    },
    rising=True,
)
SAVED = Table(
    lambda objective, case: saving(case, objective).bound().ticks,
    known_value,
    variants=OBJECTIVES,
    cases=(*SAVING, *TIGHT),
    golden={
        "makespan": (66, 66, 1360, 1920, 72, 111, 132, 1800, 153, 1190, 159, 1890, 418),
        "span": (52, 52, 1120, 1530, 66, 108, 126, 1620, 144, 710, 114, 1380, 336),
    },
    rising=True,
)

test_bounds_where_activations_are_kept = golden_test(KEEPING)
test_bounds_where_memory_may_be_saved = golden_test(SAVED)

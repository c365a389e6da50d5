"""The exact models: the optimum of small cases, which CP-SAT proves, is what it was."""

from __future__ import annotations

from functools import cache

from pipesched.core.cpsat import Limits
from pipesched.pipeline.check.check import checked
from pipesched.solver.case import Case
from pipesched.solver.model import full_model
from plain_model import plain_model
from tests.quality_cases import keeping, saving
from tests.quality_problems import SMALL, SMALL_SAVING
from tests.quality_table import Table, golden_test

MODELS = {"full": full_model, "plain": plain_model}


@cache
def optimum(model: str, objective: str, case: str) -> int:
    """Return the optimum of a case by a model, and check the schedule that attains it."""
    known: Case = saving(case, objective) if case in SMALL_SAVING else keeping(case, objective)
    most = 4 * sum(known.graph.durations) // known.quantum * known.quantum
    built = MODELS[model](known, 0, most) if model in MODELS else known.model(0, most)
    answer = built.solve(Limits(600, workers=1))
    assert answer.status == "optimal"
    assert answer.objective == answer.bound
    schedule = checked(known.replay([start * known.quantum for start in answer.starts]))
    assert schedule.fits
    assert known.value(schedule) == answer.bound * known.quantum
    return known.value(schedule)


def reached(variant: str, case: str) -> int:
    """Return the optimum by a model and an objective."""
    model, _, objective = variant.partition(", ")
    return optimum(model, objective, case)


KEPT = Table(
    reached,
    lambda case: keeping(case, "span").bound().ticks,
    variants=("full, makespan", "full, span", "plain, makespan", "plain, span"),
    cases=tuple(SMALL),
    golden={
        "full, makespan": (21, 58, 72, 39, 280),
        "full, span": (21, 57, 71, 39, 280),
        "plain, makespan": (21, 58, 72, 39, 280),
        "plain, span": (21, 57, 71, 39, 280),
    },
)
SAVED = Table(
    reached,
    lambda case: saving(case, "span").bound().ticks,
    variants=("saving, makespan", "saving, span"),
    cases=tuple(SMALL_SAVING),
    golden={"saving, makespan": (18, 300, 22), "saving, span": (18, 300, 22)},
)

test_optima_where_activations_are_kept = golden_test(KEPT)
test_optima_where_memory_is_saved = golden_test(SAVED)

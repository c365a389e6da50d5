"""The V schedules, each the best of many orders of its blocks, are no worse than they were."""

from __future__ import annotations

from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.schedulers.family import prepare
from pipesched.schedulers.registry import family
from tests.quality_cases import on_v, work_of
from tests.quality_problems import ON_V
from tests.quality_table import Table, golden_test

FAMILIES = ("1f1b-v", "zb-v", "v-half", "v-min")


def reached(variant: str, case: str) -> int:
    """Return the value of a family by an objective."""
    name, _, objective = variant.partition(", ")
    problem = prepare(on_v(case), family(name))
    schedule = schedule_plan(problem, family(name).plan(problem, objective=objective))
    return schedule.span_ticks if objective == "span" else schedule.makespan_ticks


BEST = Table(
    reached,
    lambda case: work_of(on_v(case)),
    variants=[f"{name}, {objective}" for name in FAMILIES for objective in ("span", "makespan")],
    cases=tuple(ON_V),
    golden={
        "1f1b-v, span": (69, 286, 268, 508, 220, 977),
        "1f1b-v, makespan": (69, 286, 268, 508, 220, 977),
        "zb-v, span": (54, 231, 227, 382, 204, 912),
        "zb-v, makespan": (57, 231, 232, 382, 204, 912),
        "v-half, span": (59, 257, 234, 414, 233, 964),
        "v-half, makespan": (59, 257, 238, 414, 233, 964),
        "v-min, span": (65, 305, 235, 514, 233, 970),
        "v-min, makespan": (65, 305, 240, 514, 233, 970),
    },
)

test_each_v_schedule_by_each_objective = golden_test(BEST, nightly=True)

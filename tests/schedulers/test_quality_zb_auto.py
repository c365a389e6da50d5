"""zb-auto is no worse than it was by either objective, with its local search and without."""

from __future__ import annotations

import pytest

from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.schedulers.trials import Effort
from pipesched.schedulers.zero_bubble import EFFORT, zb_auto
from tests.quality_cases import split, work_of
from tests.quality_problems import SPLIT
from tests.quality_table import Table, golden_test

NO_EFFORT = Effort(operations=0, rounds=0, slack=EFFORT.slack)


def reached(objective: str, case: str) -> int:
    """Return the value of the plan."""
    schedule = schedule_plan(split(case), zb_auto(split(case), objective=objective))
    assert schedule.fits
    return schedule.span_ticks if objective == "span" else schedule.makespan_ticks


def of_greedy_alone(objective: str, case: str) -> int:
    """Return the value of the best of the schedules from which the local search begins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipesched.schedulers.zero_bubble.EFFORT", NO_EFFORT)
        return reached(objective, case)


BEST = Table(
    reached,
    lambda case: work_of(split(case)),
    variants=("span", "makespan"),
    cases=tuple(SPLIT),
    golden={"span": (26, 46, 7587, 139, 154, 174, 185), "makespan": (27, 46, 7587, 141, 169, 174, 195)},
)
STARTS = Table(
    of_greedy_alone,
    lambda case: work_of(split(case)),
    variants=("span", "makespan"),
    cases=tuple(SPLIT),
    golden={"span": (26, 47, 7587, 139, 154, 174, 185), "makespan": (27, 47, 7587, 141, 169, 174, 195)},
)

test_zb_auto_by_each_objective = golden_test(BEST)
test_zb_auto_before_its_local_search = golden_test(STARTS)

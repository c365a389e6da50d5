"""Windows of a list schedule, solved to optimality: the whole schedule becomes no less short than it did."""

from __future__ import annotations

from pipesched.core.cpsat import Limits
from pipesched.solver.case import Candidate
from pipesched.solver.neighbourhood import TimeWindow, WindowModel
from tests.quality_cases import best_value, keeping
from tests.quality_problems import PROBLEMS
from tests.quality_table import Table, golden_test

PARTS = {"first quarter": (0, 1), "second quarter": (1, 2), "third quarter": (2, 3), "last quarter": (3, 4)}


def solved(objective: str, part: str, case: str) -> int | None:
    """Return the objective of the whole schedule with that window in its best order."""
    known = keeping(case, objective)
    old = known.replay(next(known.quick_ruled_candidates()).schedule.start_ticks)
    first, last = (old.makespan_ticks * quarter // 4 for quarter in PARTS[part])
    model = WindowModel(known, old, TimeWindow(first, last))
    answer = model.solve(Limits(600, workers=1))
    assert answer.status == "optimal"
    return best_value(known, [Candidate(part, model.schedule(answer.starts, old))])


WINDOWED = Table(
    lambda part, case: solved("makespan", part, case),
    lambda case: keeping(case).bound().ticks,
    variants=tuple(PARTS),
    cases=tuple(PROBLEMS),
    golden={
        "first quarter": (33, 181, 2690, 59, 225, 69, 327, 214, 2010, 105),
        "second quarter": (32, 181, 2690, 59, 225, 68, 316, 210, 2020, 105),
        "third quarter": (33, 179, 2690, 59, 225, 69, 316, 213, 1970, 105),
        "last quarter": (33, 181, 2690, 57, 223, 69, 312, 212, 1980, 104),
    },
)

test_windows_shorten_the_makespan = golden_test(WINDOWED)

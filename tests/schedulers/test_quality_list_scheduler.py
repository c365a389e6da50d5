"""List scheduling of a training step by each priority and each tie is no worse than it was."""

from __future__ import annotations

from pipesched.core.listsched import PRIORITIES, TIES
from pipesched.pipeline.plan.schedule import schedule_plan
from pipesched.schedulers.list_scheduler import list_scheduler
from tests.quality_cases import bound_of, problem_of
from tests.quality_problems import PROBLEMS
from tests.quality_table import Table, golden_test


def reached(rule: str, case: str) -> int:
    """Return the makespan of a list schedule by a priority and a tie."""
    priority, _, tie = rule.partition(", ")
    schedule = schedule_plan(problem_of(case), list_scheduler(problem_of(case), priority=priority, tie=tie))
    assert schedule.fits
    return schedule.makespan_ticks


LISTED = Table(
    reached,
    bound_of,
    variants=[
        *(f"{priority}, dfs" for priority in PRIORITIES),
        *(f"none, {tie}" for tie in TIES if tie not in ("dfs", "lifo")),
    ],
    cases=tuple(PROBLEMS),
    golden={
        "none, dfs": (34, 204, 2690, 80, 245, 69, 367, 221, 1960, 107),
        "asap, dfs": (34, 190, 2800, 90, 298, 121, 421, 242, 2820, 98),
        "alap, dfs": (34, 190, 2800, 90, 270, 121, 419, 242, 2820, 94),
        "mobility, dfs": (37, 181, 2690, 67, 234, 69, 343, 215, 1960, 98),
        "successors, dfs": (33, 181, 2690, 74, 268, 71, 334, 215, 2060, 98),
        "descendants, dfs": (34, 190, 2800, 90, 268, 121, 423, 242, 2820, 94),
        "none, input": (34, 190, 2800, 90, 273, 125, 416, 242, 2820, 94),
        "none, reverse": (34, 204, 2690, 78, 301, 69, 367, 299, 2660, 107),
        "none, fifo": (33, 200, 2730, 77, 305, 123, 417, 229, 2820, 101),
        "none, bfs": (34, 190, 2800, 90, 298, 121, 421, 242, 2820, 94),
        "none, random": (34, 193, 2910, 81, 270, 91, 390, 255, 2400, 101),
        "none, most-descendants": (34, 190, 2800, 90, 268, 121, 423, 242, 2820, 94),
        "none, pairing": (33, 181, 2690, 90, 273, 121, 416, 240, 2820, 94),
    },
)

test_each_priority_and_each_tie = golden_test(LISTED)

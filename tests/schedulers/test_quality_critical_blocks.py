"""The local search on critical blocks gets no less far than it did, from several starts."""

from __future__ import annotations

from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.plan import Plan
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan
from pipesched.schedulers.trials import shorten_path
from pipesched.schedulers.zero_bubble import Switches, greedy_orders
from tests.quality_cases import split, split_trial, work_of
from tests.quality_problems import SPLIT
from tests.quality_table import Table, golden_test

ROUNDS, SLACK = 150, 50


def start_of(name: str, case: str) -> Schedule:
    """Return the schedule from which the search starts."""
    problem, tried = split(case), split_trial(case)
    if name == "greedy":
        switches = Switches([99] * problem.devices, False, 0, 0, 0)
        return tried.timed(greedy_orders(problem, tried.capacities, switches))
    rows = [[tried.index.row(kind, device) for kind in "FIW"] for device in range(problem.devices)]
    return tried.timed([[row[j] for j in range(problem.microbatches) for row in three] for three in rows])


def reached(objective: str, start: str, case: str) -> int:
    """Return the value after so many rounds."""
    problem, tried, schedule = split(case), split_trial(case), start_of(start, case)
    offsets = schedule.first_start_ticks if objective == "span" else [0] * problem.devices
    orders = schedule.plan.orders
    shorter = shorten_path(tried.graph, tried.index, tried.capacities, offsets, orders, ROUNDS, SLACK)
    better = checked(schedule_plan(problem, Plan(tried.index, shorter)))
    assert better.fits
    return better.span_ticks if objective == "span" else better.makespan_ticks


MAKESPANS = Table(
    lambda start, case: reached("makespan", start, case),
    lambda case: work_of(split(case)),
    variants=("greedy", "one by one"),
    cases=tuple(SPLIT),
    golden={"greedy": (27, 46, 8025, 141, 169, 174, 195), "one by one": (27, 46, 16059, 145, 198, 236, 228)},
)
SPANS = Table(
    lambda start, case: reached("span", start, case),
    lambda case: work_of(split(case)),
    variants=("greedy", "one by one"),
    cases=tuple(SPLIT),
    golden={"greedy": (26, 46, 8025, 139, 154, 174, 187), "one by one": (27, 46, 16059, 144, 198, 236, 230)},
)

test_the_local_search_shortens_the_makespan = golden_test(MAKESPANS)
test_the_local_search_shortens_the_span = golden_test(SPANS)

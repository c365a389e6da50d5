"""Every heuristic that applies, under the budget: the families, and list scheduling by many rules under many caps.

Each find is a schedule of the case's own problem, so that it can be compared, improved and handed to CP-SAT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipesched.core.listsched import list_schedule
from pipesched.core.tasks import TaskGraph
from pipesched.errors import ConfigError, InvalidSchedule, NoSchedule
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.family import ANY, Family, prepare
from pipesched.schedulers.registry import all_families
from pipesched.solver.case import Case
from pipesched.solver.placements import in_blocks, refined
from pipesched.solver.rules import RULES
from pipesched.solver.search import Find
from pipesched.solver.shares import shared_out

SMALL = 1_000  # operations up to which every rule of list scheduling is tried with every tie
TIES = ("dfs", "bfs", "fifo")
PLAIN_RULES = ("none", "mobility", "descendants")
PAUSES = (0, 2, 10)  # in durations of the longest operation


def finds(case: Case) -> Iterator[Find]:
    """Schedules of `case` that fit the budget, the cheap ones first."""
    yield from _by_families(case)
    yield from _by_lists(case)


def _by_families(case: Case) -> Iterator[Find]:
    for family in all_families():
        schedule = None if family.placement == ANY else family_schedule(case, family)
        if schedule is not None and schedule.fits:
            yield Find(family.name, schedule)


def family_schedule(case: Case, family: Family) -> Schedule | None:
    """What the family makes of the model on the case's placement; None when it does not apply there.

    An overlapped pair that is shorter than its parts is no sequence of them: such a schedule stays as it is.
    """
    problem = case.problem
    try:
        fused = prepare(replace(problem, placement=None), family)
        if problem.stages % fused.stages or in_blocks(fused.home(), problem.stages) != problem.home():
            return None
        plan = family.plan(fused)
        if plan.pairs and problem.costs.overlap is not None:
            return schedule_plan(fused, plan)
        fine = refined(plan, case.index.kinds, problem.stages)
        return None if fine is None else schedule_plan(problem, fine)
    except (ConfigError, NoSchedule, InvalidSchedule):
        return None


def _by_lists(case: Case) -> Iterator[Find]:
    rooms: list[tuple[str, TaskGraph, Sequence[int | None]]] = [("", case.graph, case.problem.room())]
    home = case.problem.home()
    if case.problem.memory.budget is not None and not home.mirrored and case.problem.stages > case.problem.devices:
        longest = max(case.graph.durations)
        rooms += [(f", shares {pause}", *shared_out(case, pause * longest)) for pause in PAUSES]
    for name, rule in RULES.items():
        keys = rule(case)
        for room, graph, caps in rooms:
            yield from listed(case, f"list ({name}{room})", graph, caps, keys, "input")
    if len(case.graph) <= SMALL:
        for plain in PLAIN_RULES:
            for tie in TIES:
                yield from listed(case, f"list ({plain}, {tie})", case.graph, case.problem.room(), plain, tie)


def listed(
    case: Case, source: str, graph: TaskGraph, caps: Sequence[int | None], priority: str | Sequence[int], tie: str
) -> Iterator[Find]:
    """What list scheduling by these rules makes of a case under these caps, if anything."""
    try:
        picked = list_schedule(graph, priority=priority, tie=tie, caps=caps, owners=case.owners).picked
    except NoSchedule:
        return
    orders: list[list[int]] = [[] for _ in range(case.problem.devices)]
    for task in picked:
        orders[graph.resources[task]].append(task)
    yield Find(source, schedule_plan(case.problem, Plan(case.index, orders)))

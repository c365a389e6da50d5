"""Every heuristic that applies, under the budget: the families, and list scheduling by many rules under many caps.

Each find is a schedule of the case's own problem, so that it can be compared, improved and handed to CP-SAT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

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

LARGE = 10_000  # operations from which one cap for several stages, which may wedge, takes too long
SMALL = 1_000  # operations up to which every rule of list scheduling is tried with every tie
TIES = ("dfs", "bfs", "fifo")
PLAIN_RULES = ("none", "mobility", "descendants")
PAUSES = (0, 2, 10)  # in durations of the longest operation


class Room(NamedTuple):
    """A task graph with its memory pools, and their caps in grains: the budget, or a way to share it out."""

    name: str
    graph: TaskGraph
    caps: Sequence[int | None]


def by_names(case: Case) -> Iterator[Find]:
    """What `run` would make of `case` by any of its algorithms, whether it fits the budget or not."""
    yield from _by_families(case)
    if case.problem.stages == case.problem.devices or len(case.graph) <= LARGE:
        yield from listed(case, "list (none, dfs)", rooms(case)[-1], "none", "dfs")


def by_rules(case: Case) -> Iterator[Find]:
    """List schedules by rules that know the case, under the budget and under shares of it."""
    every = rooms(case)
    for name, rule in RULES.items():
        keys = rule(case)
        for room in every:
            yield from listed(case, f"list ({name}{room.name})", room, keys)
    if len(case.graph) <= SMALL:
        for plain in PLAIN_RULES:
            for tie in TIES:
                yield from listed(case, f"list ({plain}, {tie})", every[-1], plain, tie)


def _by_families(case: Case) -> Iterator[Find]:
    for family in all_families():
        schedule = None if family.placement == ANY else family_schedule(case, family)
        if schedule is not None:
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


def rooms(case: Case) -> list[Room]:
    """Shares of the budget for each stage, where a device has several; then the budget itself."""
    whole = Room("", case.graph, case.problem.room())
    several = case.problem.stages > case.problem.devices and not case.problem.home().mirrored
    if case.problem.memory.budget is None or not several:
        return [whole]
    longest = max(case.graph.durations)
    shares = [Room(f", shares {pause}", *shared_out(case, pause * longest)) for pause in PAUSES]
    return [*shares, whole] if len(case.graph) <= LARGE else shares


def listed(case: Case, source: str, room: Room, priority: str | Sequence[int], tie: str = "input") -> Iterator[Find]:
    """The list schedule of a case by a rule within a room, if there is one."""
    try:
        picked = list_schedule(room.graph, priority=priority, tie=tie, caps=room.caps, owners=case.owners).picked
    except NoSchedule:
        return
    orders: list[list[int]] = [[] for _ in range(case.problem.devices)]
    for task in picked:
        orders[room.graph.resources[task]].append(task)
    yield Find(source, schedule_plan(case.problem, Plan(case.index, orders)))

"""The portfolio with offload and recompute: what fits as it is, and what does not after it was relieved.

The orders come from the families and from list scheduling under looser caps, because an order that holds more
activations than the budget allows is what offload and recompute are for.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipesched.errors import Deadlock
from pipesched.pipeline.bounds import Bound, problem_bounds, work_bounds
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.schedulers.family import ANY
from pipesched.schedulers.registry import all_families
from pipesched.solver.portfolio import family_schedule, finds, listed
from pipesched.solver.relieve import Way, relieved, ways
from pipesched.solver.rules import RULES
from pipesched.solver.search import Find
from pipesched.solver.transfers import SavingCase

LOOSER = (1.5, 2, 3, None)  # caps of list scheduling, in budgets


def saving_bound(case: SavingCase) -> Bound:
    """The best bound on the objective of `case`, rounded up to a multiple of the quantum."""
    bounds = problem_bounds if case.objective == "makespan" else work_bounds
    paired = case.problem.costs.overlap is not None
    best = max(bounds(case.problem, case.full.kinds, paired=paired), key=lambda bound: bound.ticks)
    return best._replace(ticks=-(-best.ticks // case.quantum) * case.quantum)


def saving_finds(case: SavingCase) -> Iterator[Find]:
    """Schedules of `case` that fit the budget."""
    bases = sorted(_bases(case), key=lambda base: case.value(base.schedule))
    for base in bases:
        for way in ways(case.relief):
            yield from _find(case, base, way)
    for find in finds(case):
        adopted = case.adopted(find.schedule)
        if adopted is not None:
            yield Find(find.source, adopted)


def _find(case: SavingCase, base: Find, way: Way) -> Iterator[Find]:
    """The schedule of `base` relieved that way, if it fits."""
    try:
        plan = relieved(base.schedule, case.relief, way)
        schedule = None if plan is None else schedule_plan(case.problem, plan)
    except Deadlock:  # operations of no length
        return
    if schedule is not None and schedule.fits:
        yield Find(f"{base.source} with {way}", schedule)


def _bases(case: SavingCase) -> Iterator[Find]:
    """Orders of `case`, whether they fit or not."""
    yield Find("one microbatch at a time", _one_by_one(case))
    for family in all_families():
        schedule = None if family.placement == ANY else family_schedule(case, family)
        if schedule is not None and not schedule.plan.pairs:
            yield Find(family.name, schedule)
    for name, rule in RULES.items():
        keys = rule(case)
        for factor in LOOSER:
            caps = [None if room is None or factor is None else int(factor * room) for room in case.problem.room()]
            yield from listed(case, f"list ({name})", case.graph, caps, keys, "input")


def _one_by_one(case: SavingCase) -> Schedule:
    """Each microbatch alone, forth and back: if anything fits, this does after it was relieved."""
    index, orders = case.index, [list[int]() for _ in range(case.problem.devices)]
    for microbatch in range(index.microbatches):
        forth = [index.row("F", stage)[microbatch] for stage in range(index.stages)]
        back = [index.row(kind, stage)[microbatch] for stage in range(index.stages)[::-1] for kind in index.kinds[1:]]
        for number in (*forth, *back):
            orders[case.graph.resources[number]].append(number)
    return schedule_plan(case.problem, Plan(index, orders))

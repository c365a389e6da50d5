"""What the costs of a problem do to a makespan: how often they stand on longest paths, and changes of one, exactly.

A change is judged in the same order, and planned again by the same algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.analysis.reasons.explanation import LatencySensitivity, Sensitivity
from pipesched.core.reasons import TimedTasks
from pipesched.core.sensitivity import path_counts
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.costs import Costs
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.outcome import Outcome

OVERLAP = "overlap"
Planner = Callable[[Problem], Outcome]  # makes a schedule of a problem, by the algorithm and the options of another
Row = tuple[int, str]  # a stage, and a kind of operation or OVERLAP


def sensitivities(
    schedule: Schedule, tasks: TimedTasks, path: Sequence[int]
) -> tuple[list[Sensitivity], list[LatencySensitivity]]:
    """Return the sensitivity of the makespan to each cost that the schedule runs, and to each latency.

    `tasks` are those of the schedule at its earliest times; `path` is the critical path on which costs are counted.
    """
    problem = schedule.problem
    boundaries = max(problem.stages - 1, 0)
    kinds = _kinds(schedule)
    rows = sorted({row for order in tasks.orders for task in order for row in kinds(task)})
    column = {row: boundaries + number for number, row in enumerate(rows)}
    found = path_counts(tasks, lambda task: [column[row] for row in kinds(task)], boundaries + len(rows))
    counts = dict.fromkeys(rows, 0)
    for task in path:
        for row in kinds(task):
            counts[row] += 1
    of_kinds = [
        Sensitivity(*row, counts[row], found[column[row]].least if _cost(schedule, row) else 0, found[column[row]].most)
        for row in rows
    ]
    of_latencies = [
        LatencySensitivity(boundary, found[boundary].least if hop else 0, found[boundary].most)
        for boundary, hop in enumerate(problem.least_hops)
    ]
    return of_kinds, of_latencies


def _kinds(schedule: Schedule) -> Callable[[int], Sequence[Row]]:
    """Return a function that names the costs that an entry of an order has: a pair those of its parts, or its own."""
    plan, index = schedule.plan, schedule.plan.index
    has_own = schedule.problem.ticks.overlap is not None

    def row(number: int) -> Row:
        op = index.op(number)
        return op.stage, op.kind

    def rows(task: int) -> Sequence[Row]:
        if task not in plan.pairs:
            return [row(task)]
        return [(index.stage_of(task), OVERLAP)] if has_own else [row(task), row(plan.pairs[task])]

    return rows


def _cost(schedule: Schedule, row: Row) -> int:
    """Return the ticks of a cost."""
    stage, kind = row
    ticks = schedule.problem.ticks
    return ticks.overlap[stage] if kind == OVERLAP and ticks.overlap is not None else ticks.of(kind)[stage]


class WhatIf(NamedTuple):
    """The makespan after a change, in the user's time unit: in the same order, and planned again (None: unknown)."""

    same_order: int | float
    planned_again: int | float | None


def what_if(schedule: Schedule, stage: int, kind: str, factor: Fraction, plan_again: Planner | None = None) -> WhatIf:
    """Return the makespan if one cost of a stage is `factor` times what it is. `kind` is a letter, or "overlap"."""
    problem = schedule.problem
    changed = replace(problem, costs=_changed(problem.costs, stage, kind, factor), layers=None)
    same = schedule_plan(changed, schedule.plan, _lengths(schedule, changed, stage, kind, factor)).makespan
    if plan_again is None:
        return WhatIf(same, None)
    try:
        return WhatIf(same, plan_again(changed).schedule.makespan)
    except (ConfigError, NoSchedule):
        return WhatIf(same, None)


def _lengths(schedule: Schedule, changed: Problem, stage: int, kind: str, factor: Fraction) -> list[int] | None:
    """Return the own lengths of a schedule's operations, those of one kind and stage changed, in ticks of `changed`."""
    if schedule.lengths is None:
        return None
    index, pairs = schedule.plan.index, schedule.plan.pairs
    scale = Fraction(changed.ticks.per_unit, schedule.problem.ticks.per_unit)
    letter = "F" if kind == OVERLAP else kind
    row = set(index.row(letter, stage))
    return [
        int(length * scale * (factor if number in row and (number in pairs) == (kind == OVERLAP) else 1))
        for number, length in enumerate(schedule.lengths)
    ]


def _changed(costs: Costs, stage: int, kind: str, factor: Fraction) -> Costs:
    """Return costs with one of a stage changed; a whole backward changes with both its halves."""
    keys = [OVERLAP] if kind == OVERLAP else [KINDS[kind].cost]
    if keys == ["backward"]:
        keys = ["backward_input", "backward_weight"]
    columns = {}
    for key in keys:
        column = [*map(to_fraction, getattr(costs, key))]
        column[stage] *= factor
        columns[key] = tuple(map(canonical, column))
    return replace(costs, **columns)  # type: ignore[arg-type]

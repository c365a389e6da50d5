"""What a change of one cost does to a makespan: in the same order, and planned again by the same algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.analysis.reasons.cost_counts import OVERLAP
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.costs import Costs
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, to_fraction
from pipesched.pipeline.schedule import Schedule, schedule_plan
from pipesched.results.outcome import Outcome

Planner = Callable[[Problem], Outcome]  # makes a schedule of a problem, by the algorithm and the options of another


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

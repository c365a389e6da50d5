"""What the costs of a problem do to a makespan: how often they stand on longest paths, and changes of one, exactly.

A change is judged in the same order, and planned again by the same algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from pipesched.analysis.reasons.explanation import LatencySensitivity, Sensitivity
from pipesched.analysis.reasons.step_parts import changed_step, numbers_of, row_of_step
from pipesched.core.reasons import TimedTasks
from pipesched.core.sensitivity import path_counts
from pipesched.core.timing import earliest_times
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.costs import Costs, Entry
from pipesched.pipeline.kinds import KINDS, STEP_KINDS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, plain, to_fraction
from pipesched.pipeline.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.pipeline.step_plan import SIDE_KINDS
from pipesched.results.outcome import Outcome

OVERLAP = "overlap"
Planner = Callable[[Problem], Outcome]  # makes a schedule of a problem, by the algorithm and the options of another
Row = tuple[int, str]  # a stage (or an item of side work), and a kind of operation or OVERLAP


def sensitivities(
    schedule: Schedule, tasks: TimedTasks, path: Sequence[int]
) -> tuple[list[Sensitivity], list[LatencySensitivity]]:
    """Return the sensitivity of the makespan to each cost that the schedule runs, and to each latency.

    `tasks` are those of the schedule at its earliest times; `path` is the critical path on which costs are counted.
    """
    problem = schedule.problem
    boundaries = max(problem.stages - 1, 0)
    parts = _parts(schedule)
    found_rows = {row for order in tasks.orders for task in order for row, _ in parts(task)}
    rows = sorted(found_rows, key=lambda row: (row[1] in SIDE_KINDS, row))
    column = {row: boundaries + number for number, row in enumerate(rows)}
    found = path_counts(
        tasks,
        lambda task: [column[row] for row, _ in parts(task)],
        boundaries + len(rows),
        lambda task: [column[row] for row, lasts in parts(task) if lasts],
    )
    counts = dict.fromkeys(rows, 0)
    for task in path:
        for row, _ in parts(task):
            counts[row] += 1
    of_kinds = [Sensitivity(*row, counts[row], *found[column[row]]) for row in rows]
    of_latencies = [
        LatencySensitivity(boundary, found[boundary].least if hop else 0, found[boundary].most)
        for boundary, hop in enumerate(problem.least_hops)
    ]
    return of_kinds, of_latencies


def _parts(schedule: Schedule) -> Callable[[int], Sequence[tuple[Row, bool]]]:
    """Return a function that names the costs that an entry of an order has: a pair those of its parts, or its own.

    Beside each it says whether that is more than nothing.
    """
    model, plan, index = schedule.problem.model, schedule.plan, schedule.plan.index

    def part(number: int, kind: str) -> tuple[Row, bool]:
        stage, table = index.stage_of(number), model.overlap if kind == OVERLAP else model.ticks[KINDS[kind].cost]
        return (stage, kind), table is not None and bool(table[stage, index.owner_of(number)] > 0)

    def parts(task: int) -> Sequence[tuple[Row, bool]]:
        if task >= index.passes:
            return [(row_of_step(index, task), schedule.graph.durations[task] > 0)]
        if task not in plan.pairs:
            return [part(task, index.kind_of(task))]
        both = (task, plan.pairs[task])
        return (
            [part(task, OVERLAP)]
            if model.overlap is not None
            else [part(number, index.kind_of(number)) for number in both]
        )

    return parts


class WhatIf(NamedTuple):
    """The makespan after a change, in the user's time unit: in the same order, and planned again (None: unknown)."""

    same_order: int | float
    planned_again: int | float | None


def what_if(schedule: Schedule, stage: int, kind: str, factor: Fraction, plan_again: Planner | None = None) -> WhatIf:
    """Return the makespan if one cost of a stage is `factor` times what it is.

    `kind` is a letter, or "overlap", or a kind of the step; of side work `stage` is the item.
    """
    problem = replace(schedule.problem, layers=None)
    if kind in STEP_KINDS:
        changed = changed_step(problem, (stage, kind), factor)
    else:
        changed = replace(problem, costs=_changed(problem.costs, stage, kind, factor))
    if problem.has_units:
        same = _each_by_its_own(schedule, stage, kind, factor)
    else:
        same = schedule_plan(changed, schedule.plan, _lengths(schedule, changed, stage, kind, factor)).makespan
    if plan_again is None:
        return WhatIf(same, None)
    try:
        return WhatIf(same, plan_again(changed).schedule.makespan)
    except (ConfigError, NoSchedule):
        return WhatIf(same, None)


def _each_by_its_own(schedule: Schedule, stage: int, kind: str, factor: Fraction) -> int | float:
    """Return the makespan in the same order, once each operation of a kind on a stage takes `factor` times its own."""
    plan, graph, (up, down) = schedule.plan, schedule.graph, factor.as_integer_ratio()
    durations = [ticks * down for ticks in graph.durations]
    for task, ticks in _times_of(schedule, stage, kind):
        durations[task] += ticks * (up - down)
    changed = graph.changed(durations=durations, edges=graph.edges.scaled(down))
    timed = timed_schedule(schedule.problem, plan, earliest_times(changed, plan.machines), changed)
    return plain(Fraction(timed.makespan_ticks, down * schedule.problem.ticks.per_unit))


def _times_of(schedule: Schedule, stage: int, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the entries of orders that have a cost, each with the ticks of it: a pair those of its part, or its own."""
    if kind in STEP_KINDS:
        numbers = numbers_of(schedule.plan.index, (stage, kind))
        yield from ((number, schedule.graph.durations[number]) for number in numbers)
        return
    plan, index, model = schedule.plan, schedule.plan.index, schedule.problem.model
    forward_of = {backward: forward for forward, backward in plan.pairs.items()}
    row = index.row("F" if kind == OVERLAP else kind, stage)
    for number in row:
        is_paired = number in plan.pairs or number in forward_of
        if is_paired and model.overlap is None and not schedule.own_lengths:
            yield forward_of.get(number, number), int(model.ticks[KINDS[kind].cost][stage, index.owner_of(number)])
        elif is_paired == (kind == OVERLAP):
            yield number, schedule.graph.durations[number]


def _lengths(schedule: Schedule, changed: Problem, stage: int, kind: str, factor: Fraction) -> list[int] | None:
    """Return the own lengths of a schedule's operations, those of one kind and stage changed, in ticks of `changed`."""
    if schedule.lengths is None:
        return None
    index, pairs = schedule.plan.index, schedule.plan.pairs
    scale = Fraction(changed.ticks.per_unit, schedule.problem.ticks.per_unit)
    letter = "F" if kind == OVERLAP else kind
    row = {*(numbers_of(index, (stage, kind)) if kind in STEP_KINDS else index.row(letter, stage))}
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
        column = [*getattr(costs, key)]
        column[stage] = _times(column[stage], factor)
        columns[key] = tuple(column)
    return replace(costs, **columns)  # type: ignore[arg-type]


def _times(entry: Entry, factor: Fraction) -> Entry:
    """Return a cost `factor` times as high: one number, or those of each microbatch."""
    if isinstance(entry, tuple):
        return tuple(canonical(to_fraction(one) * factor) for one in entry)
    return canonical(to_fraction(entry) * factor)

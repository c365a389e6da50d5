"""Which costs of a problem stand on the longest paths of a schedule, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipesched.analysis.reasons.explanation import LatencySensitivity, Sensitivity
from pipesched.core.reasons import TimedTasks
from pipesched.core.sensitivity import path_counts
from pipesched.pipeline.schedule import Schedule

OVERLAP = "overlap"
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
        LatencySensitivity(boundary, found[boundary].least if problem.ticks.p2p[boundary] else 0, found[boundary].most)
        for boundary in range(boundaries)
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

"""From a periodic schedule to one of all microbatches: repeat it, then let every operation move up.

What waits only for its period moves into gaps, in the order of the repeated block. Then all operations move as far back
as they can, the last one first, and forwards again (justification, by insertion in place of list scheduling). That
shortens the ramps at the beginning and at the end, where the block leaves devices idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipesched.core.insertion import insert_in_order
from pipesched.core.tasks import reversed_graph
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.case import Case
from pipesched.solver.model import sorted_rows
from pipesched.solver.periodic.operations import BlockOperations
from pipesched.solver.periodic.search import PeriodicSchedule


def unrolled(case: Case, block: BlockOperations, found: PeriodicSchedule) -> Iterator[Schedule]:
    """Yield schedules of all microbatches: the block as it repeats, then ever shorter ones."""
    starts = sorted_rows(case, block.repeated(found.starts, found.period))
    yield case.replay(starts)
    moved = _moved_up(case, starts)
    if moved is None:
        return
    schedule = case.replay(moved)
    yield schedule
    for _ in range(case.policy.periods.rounds):
        again = _moved_back(case, schedule.start_ticks)
        moved = None if again is None else _moved_up(case, again)
        if moved is None:
            return
        shorter = case.replay(moved)
        gain = case.value(schedule) - case.value(shorter)
        schedule = shorter
        yield schedule
        if gain <= case.policy.periods.least_gain * case.value(schedule):
            return


def _moved_up(case: Case, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, in the order of `starts`, as early as there is a place."""
    order = sorted(range(len(starts)), key=lambda task: (starts[task], case.rank[task]))
    inserted = insert_in_order(case.graph, order, case.problem.capacity_grains)
    return None if inserted is None else inserted.starts


def _moved_back(case: Case, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, the last end first, as late as there is a place."""
    durations, last = case.graph.durations, len(starts) - 1
    keys = [-start - time for start, time in zip(starts, durations, strict=True)]
    order = [last - task for task in sorted(range(len(keys)), key=lambda task: (keys[task], -case.rank[task]))]
    inserted = insert_in_order(reversed_graph(case.graph), order, case.problem.capacity_grains)
    if inserted is None:
        return None
    back = [-inserted.starts[last - task] - durations[task] for task in range(len(starts))]
    least = min(back)
    return [start - least for start in back]

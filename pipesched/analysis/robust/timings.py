"""The timings of several schedules under variation, and with each device slow, in parts that an executor runs.

A sample is drawn by the number of its block, and depends on nothing else: so it is the same in whatever part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from pipesched.analysis.robust.replay import Replay
from pipesched.analysis.robust.variation import Variation, block_sizes
from pipesched.core.tasks import Edge
from pipesched.core.timing import earliest_times
from pipesched.executors.opening import lent, workers_of
from pipesched.pipeline.quantities import plain
from pipesched.pipeline.schedule import Schedule, timed_schedule

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import numpy as np
    from numpy.typing import NDArray

SAMPLES_OF_ONE = 200  # of an operation, which take as long as scheduling one
PARTS = 4  # of a schedule's samples for each worker, at most: a part prepares the schedule anew


class Timing(NamedTuple):
    """The makespan of a schedule in each sample, and with each device slow, in the user's time unit."""

    makespans: NDArray[np.float64]
    stragglers: list[int | float]


class _TimedPart(NamedTuple):
    """A part of the work on a schedule: blocks of its samples, or its slow devices."""

    schedule: Schedule
    variation: Variation
    blocks: range | None

    def __str__(self) -> str:
        return f"{len(self.schedule.plan):,} operations"


def timings(schedules: Sequence[Schedule], variation: Variation, executor: Executor | str | None) -> list[Timing]:
    """Return the timing of each schedule."""
    import numpy as np

    operations = sum(len(schedule.plan) for schedule in schedules)
    with lent(executor, operations * variation.samples // SAMPLES_OF_ONE) as pool:
        parts = [[*_parts(schedule, variation, workers_of(pool))] for schedule in schedules]
        results = _results([part for of_one in parts for part in of_one], pool)
        return [Timing(np.concatenate([next(results) for _ in of_one[1:]]), next(results)) for of_one in parts]


def _parts(schedule: Schedule, variation: Variation, workers: int) -> Iterator[_TimedPart]:
    """Yield the parts of the work on a schedule, its slow devices last."""
    blocks = len(block_sizes(variation.samples))
    count = 1 if workers == 1 else min(workers * PARTS, blocks)
    for number in range(count):
        yield _TimedPart(schedule, variation, range(blocks * number // count, blocks * (number + 1) // count))
    yield _TimedPart(schedule, variation, None)


def _results(parts: Sequence[_TimedPart], pool: Executor | None) -> Iterator[Any]:
    if pool is None:
        return map(_result, parts)
    from pipesched.executors.batches import map_batches

    return map_batches(pool, _result, parts)


def _result(part: _TimedPart) -> Any:
    if part.blocks is None:
        return straggler_makespans(part.schedule, part.variation.slowness)
    return Replay(part.schedule).makespans(part.variation, part.blocks)


def straggler_makespans(schedule: Schedule, slowness: Fraction) -> list[int | float]:
    """Return for each device the makespan, in the user's time unit, when its operations take `slowness` times as long.

    Transfers keep their durations, and latencies too. Everything is computed in integers.
    """
    problem, plan, graph = schedule.problem, schedule.plan, schedule.graph
    up, down = slowness.as_integer_ratio()
    even = [ticks * down for ticks in graph.durations]
    edges = [Edge(edge.before, edge.after, edge.lag * down) for edge in graph.edges]
    makespans = []
    for order in plan.orders:
        durations = even.copy()
        for task in order:
            durations[task] = graph.durations[task] * up
        slowed = replace(graph, durations=durations, edges=edges)
        timed = timed_schedule(problem, plan, *earliest_times(slowed, plan.machines), slowed)
        makespans.append(plain(Fraction(timed.makespan_ticks, down * problem.ticks.per_unit)))
    return makespans

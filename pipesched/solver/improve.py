"""Large neighbourhood search: free the operations of a window of time, solve, keep the better order, repeat.

Windows are drawn at random. They grow while CP-SAT solves them to optimality and shrink when it does not.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from random import Random

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.pipeline.schedule import Schedule
from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case
from pipesched.solver.neighbourhood import TimeWindow, WindowModel

SOURCE = "improvement"
FIRST_SIZE, LEAST_SIZE, MOST_SIZE = 120, 30, 1_000  # operations in a window
FRUITLESS = 100  # windows without success after which the search ends
PAUSE_PART = 0.5  # of the windows lie at pauses
LOADING = 0.4  # seconds, about, to load OR-Tools
EFFORT = 0.5  # of CP-SAT on a window, in its deterministic seconds


def improve(case: Case, schedule: Schedule, limits: Limits, clock: Clock) -> Iterator[Candidate]:
    """Yield ever better schedules of a case until many windows in turn gain nothing, or the time is up."""
    random, size, fruitless = Random(limits.seed), float(FIRST_SIZE), 0
    current = best = case.replay(schedule.start_ticks)
    least = min(case.value(schedule), case.value(current))
    began = clock.seconds
    longest = 0.0 if "ortools" in sys.modules else LOADING  # what comes before the search of a window takes, in seconds
    while fruitless < FRUITLESS and clock.left > longest:
        began = clock.seconds
        model = WindowModel(case, current, _window(current, int(size), random))
        longest = max(longest, clock.seconds - began)
        answer = model.solve(limits._replace(seconds=clock.left, gap=0.0, effort=EFFORT))
        fruitless += 1
        if answer.starts:
            current = model.schedule(answer.starts)
            if case.value(current) < least and current.fits:
                best, least, fruitless = current, case.value(current), 0
                yield Candidate(SOURCE, best)
        if answer.interrupted and not clock.is_stopped:
            raise KeyboardInterrupt
        if answer.status == "optimal" and len(model.free) == len(case.graph):
            return
        size = min(size * 1.15, MOST_SIZE) if answer.status == "optimal" else max(size * 0.8, LEAST_SIZE)


def _window(schedule: Schedule, size: int, random: Random) -> TimeWindow:
    """Return a random window of about `size` operations, about every other time at a pause of the busiest device."""
    starts = sorted(schedule.start_ticks)
    last_first = max(len(starts) - size, 0)
    first = random.randint(-size // 2, last_first + size // 2)
    if random.random() < PAUSE_PART and (pauses := _pauses(schedule)):
        first = bisect_left(starts, random.choice(pauses)) - size // 2
    first = min(max(first, 0), last_first)
    end = starts[first + size] if first + size < len(starts) else starts[-1] + 1
    return TimeWindow(starts[first], max(end, starts[first] + 1))


def _pauses(schedule: Schedule) -> list[int]:
    """Return when the pauses of the busiest device begin."""
    device = schedule.busy_ticks.index(max(schedule.busy_ticks))
    slots = zip(schedule.slot_end_ticks[device], schedule.slot_start_ticks[device][1:], strict=False)
    return [end for end, start in slots if start > end]

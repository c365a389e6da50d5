"""Large neighbourhood search: free the operations of a window of time, solve, keep the better order, repeat.

Windows lie anywhere by lot. They grow while CP-SAT solves them to optimality and shrink when it does not.
"""

from __future__ import annotations

from bisect import bisect_left
from random import Random

from pipesched.pipeline.schedule import Schedule
from pipesched.solver.neighbourhood import Window, WindowModel
from pipesched.solver.search import Find, Search

SOURCE = "improvement"
FIRST_SIZE, LEAST_SIZE, MOST_SIZE = 120, 30, 1_000  # operations in a window
FRUITLESS = 100  # windows without success until it is enough
PAUSE_SHARE = 0.5  # of the windows
EFFORT = 0.5  # of CP-SAT on a window, in its deterministic seconds


def improve(search: Search, place: int, seconds: float) -> None:
    """Improve the best schedule of a case until it is settled or the seconds are over. Raises KeyboardInterrupt."""
    case, find = search.cases[place], search.finds[place]
    if find is None or find.schedule.plan.pairs:
        return
    random, until = Random(search.limits.seed), search.seconds + seconds
    size, current, fruitless = float(FIRST_SIZE), case.replay(find.schedule.starts), 0
    while place in search.open and fruitless < FRUITLESS and (left := until - search.seconds) > 0:
        model = WindowModel(case, current, _window(current, int(size), random))
        answer = model.solve(search.limits._replace(seconds=left, gap=0.0, effort=EFFORT))
        fruitless += 1
        if answer.starts:
            current = model.schedule(answer.starts)
            if search.offer(place, Find(SOURCE, current)):
                fruitless = 0
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.status == "optimal" and len(model.free) == len(case.graph):
            return
        size = min(size * 1.15, MOST_SIZE) if answer.status == "optimal" else max(size * 0.8, LEAST_SIZE)


def _window(schedule: Schedule, size: int, random: Random) -> Window:
    """A window of about `size` operations: anywhere, or every other time around a pause of the busiest device."""
    starts = sorted(schedule.starts)
    last_first = max(len(starts) - size, 0)
    first = random.randint(-size // 2, last_first + size // 2)
    if random.random() < PAUSE_SHARE and (pauses := _pauses(schedule)):
        first = bisect_left(starts, random.choice(pauses)) - size // 2
    first = min(max(first, 0), last_first)
    end = starts[first + size] if first + size < len(starts) else starts[-1] + 1
    return Window(starts[first], max(end, starts[first] + 1))


def _pauses(schedule: Schedule) -> list[int]:
    """When the busiest device begins to wait."""
    device = schedule.busy.index(max(schedule.busy))
    slots = zip(schedule.slot_ends[device], schedule.slot_starts[device][1:], strict=False)
    return [end for end, start in slots if start > end]

"""Ways from the selected task to another: along its row, to the next row, from gap to gap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks
from pipesched.explore.board import Board, place_of, rows_of


class Pause(NamedTuple):
    """The whole idle time before a task of a row, of whatever classes; `task` is the last one for that behind it."""

    row: int
    start: int
    end: int
    task: int

    @property
    def length(self) -> int:
        """How long it is."""
        return self.end - self.start


def pauses(tasks: TimedTasks) -> list[Pause]:
    """Return all idle time, by row and time."""
    found = []
    for row, order in enumerate(tasks.orders[: tasks.devices]):
        clock = 0
        for task in order:
            if tasks.starts[task] > clock:
                found.append(Pause(row, clock, tasks.starts[task], task))
            clock = max(clock, tasks.ends[task])
        if order and tasks.makespan > clock:
            found.append(Pause(row, clock, tasks.makespan, order[-1]))
    return found


def by_size(found: Iterable[Pause]) -> list[Pause]:
    """Return the longest pauses first; of equal ones that of the first row, and the earliest there."""
    return sorted(found, key=lambda pause: (-pause.length, pause.row, pause.start))


def along(board: Board, task: int, steps: int) -> int:
    """Return the task so many positions further on in the same row, or the row's first or last one."""
    row, position = place_of(board, task)
    order = board.tasks.orders[row]
    return order[min(max(position + steps, 0), len(order) - 1)]


def across(board: Board, task: int, steps: int) -> int:
    """Return the task nearest in time on the next device that has one, up or down; at the end the task itself.

    From a lane it goes to the device of the lane.
    """
    tasks, rows = board.tasks, rows_of(board)
    row = tasks.machine[task]
    step = 1 if steps > 0 else -1
    other = row + steps if row < len(rows) else board.drawn_with(row)
    other = min(max(other, 0), len(rows) - 1)
    while 0 <= other < len(rows) and not rows[other]:
        other += step
    if not 0 <= other < len(rows) or other == row:
        return task
    return nearest(tasks, rows[other], tasks.starts[task] + tasks.ends[task])


def nearest(tasks: TimedTasks, order: Sequence[int], twice: int) -> int:
    """Return the task of an order whose middle is nearest to half of `twice`, the first of several."""
    middles = [tasks.starts[task] + tasks.ends[task] for task in order]
    place = bisect_left(middles, twice)
    around = range(max(place - 1, 0), min(place + 1, len(order)))
    return order[min(around, key=lambda position: abs(middles[position] - twice))]


def next_pause(board: Board, task: int, current: Pause | None, steps: int) -> Pause | None:
    """Return the next pause in order of rows and time, or the one before; None if there is none."""
    listed = pauses(board.tasks)
    if current is not None and current in listed:
        place = listed.index(current) + steps
    else:
        ends = [(pause.row, pause.end) for pause in listed]
        here = (board.tasks.machine[task], board.tasks.starts[task])
        place = bisect_right(ends, here) if steps > 0 else bisect_left(ends, here) - 1
    return listed[place] if 0 <= place < len(listed) else None


def pause_by_size(board: Board, current: Pause | None, steps: int) -> Pause | None:
    """Return the next smaller pause (of a negative `steps` the next larger); at first the largest."""
    listed = by_size(pauses(board.tasks))
    place = listed.index(current) + steps if current is not None and current in listed else 0
    return listed[place] if 0 <= place < len(listed) else None


def at_time(board: Board, row: int, tick: int) -> int:
    """Return the task of a row that runs at a tick, or NOTHING."""
    tasks = board.tasks
    order = tasks.orders[row] if 0 <= row < len(tasks.orders) else ()
    return next((task for task in order if tasks.starts[task] <= tick < tasks.ends[task]), NOTHING)


def drop_position(board: Board, task: int, tick: float) -> int:
    """Return where a task lands that is dropped at a tick: before the first other slot whose middle is later."""
    tasks = board.tasks
    others = [other for other in tasks.orders[tasks.machine[task]] if other != task]
    later = (place for place, other in enumerate(others) if tasks.starts[other] + tasks.ends[other] > 2 * tick)
    return next(later, len(others))

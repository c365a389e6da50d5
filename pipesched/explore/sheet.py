"""One schedule under edit: the board as it stands, what is undone and redone, and what is selected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks
from pipesched.explore.board import Board, place_of, rows_of

MOST_STEPS = 1_000  # that can be undone


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


class Version(NamedTuple):
    """A schedule between two edits.

    `algorithm` and `parameters` are what made it, `base` its makespan as loaded or planned, `edits` how many edits it
    has since then, `number` tells versions apart.
    """

    board: Board
    algorithm: str
    parameters: tuple[tuple[str, str], ...]
    base: int
    edits: int
    number: int


class EditStep(NamedTuple):
    """A version to go back to, what was selected in it, and what left it: `3B2 to position 4`."""

    version: Version
    selected: str
    said: str


@dataclass
class EditHistory:
    """A schedule with its history. `saved` is the number of the version that a file holds, or that was loaded."""

    version: Version
    name: str = ""
    selected: int = NOTHING
    pause: Pause | None = None
    saved: int = 0
    undone: list[EditStep] = field(default_factory=list)
    done: list[EditStep] = field(default_factory=list)
    last_number: int = 0

    @property
    def board(self) -> Board:
        return self.version.board

    @property
    def is_unsaved(self) -> bool:
        """Whether an edit is in no file."""
        return self.version.number != self.saved

    @property
    def selected_name(self) -> str:
        """The text of the selected task; empty if there is none."""
        return self.board.name(self.selected) if self.selected != NOTHING else ""

    def settle(self, name: str = "") -> None:
        """Select the task of that name, or the first one."""
        found = self.board.find(name) if name else None
        first = next((order[0] for order in rows_of(self.board) if order), NOTHING)
        self.selected = first if found is None else found
        self.pause = None

    def put(self, version: Version, said: str, *, select: str = "", in_place: bool = False) -> None:
        """Take a version as the present one, which `said` led to; `in_place` of the one before, as the same step."""
        self.last_number += 1
        if not in_place:
            self.done.append(EditStep(_light(self.version), self.selected_name, said))
            del self.done[:-MOST_STEPS]
        self.undone.clear()
        self.version = version._replace(number=self.last_number)
        self.settle(select)

    def go(self, back: list[EditStep], forth: list[EditStep]) -> str | None:
        """Take the last step of `back` again, which goes to `forth`; return what it was, None if there is none."""
        if not back:
            return None
        step = back.pop()
        forth.append(EditStep(_light(self.version), self.selected_name, step.said))
        self.version = step.version
        self.settle(step.selected)
        return step.said

    def copy(self, name: str) -> EditHistory:
        """Return a sheet of the same version, without its history."""
        kept = EditHistory(_light(self.version), name, saved=self.saved, last_number=self.last_number)
        kept.settle(self.selected_name)
        return kept


def _light(version: Version) -> Version:
    return version._replace(board=version.board.light())


def loaded(board: Board, algorithm: str, parameters: tuple[tuple[str, str], ...] = ()) -> Version:
    """Return the version of a board as it was loaded or planned."""
    return Version(board, algorithm, parameters, board.amounts.makespan, 0, 0)


def edited(version: Version, board: Board) -> Version:
    """Return the version after one more edit."""
    return version._replace(board=board, edits=version.edits + 1)

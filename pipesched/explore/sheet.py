"""One schedule under edit: the board, what is undone and redone, what is selected, and what is said of it.

`EditHistory` holds the versions of a board; boards never change: an edit makes another one. Functions before it tell of
places, pauses and why a task may not stand somewhere, those behind it of titles and details.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, Arc, Idle, TimedTasks, moved
from pipesched.errors import InvalidSchedule
from pipesched.explore.board import LIVE, PlaceLimits, limits_of
from pipesched.explore.pipeline_board import PipelineBoard
from pipesched.explore.unit_board import UnitBoard
from pipesched.render.palette import IDLE_MARKS

Board = PipelineBoard | UnitBoard
MOST_STEPS = 1_000  # that can be undone


class Place(NamedTuple):
    """Where a task stands: its row, and its position in the order of that."""

    row: int
    position: int


def place_of(board: Board, task: int) -> Place:
    """Return where a task stands."""
    row = board.tasks.machine[task]
    return Place(row, board.tasks.orders[row].index(task))


def rows_of(board: Board) -> Sequence[Sequence[int]]:
    """Return the orders of the devices, without those of lanes."""
    return board.tasks.orders[: board.tasks.devices]


def legal(board: Board, task: int) -> PlaceLimits:
    """Return where a task may stand."""
    return board.narrowed(task, limits_of(*board.limits, task))


def refusal(board: Board, task: int, position: int, known: PlaceLimits | None = None) -> str:
    """Say why a task may not stand at a position; empty if it may. `known` are its limits, if they are known."""
    fixed = board.why_fixed(task)
    if fixed:
        return fixed
    row = board.tasks.machine[task]
    size = len(board.tasks.orders[row])
    if not 0 <= position < size:
        return f"{board.row_name(row)} has positions 0 to {size - 1}"
    limits = known or legal(board, task)
    if limits.allow(position):
        return ""
    wide = limits_of(*board.limits, task)
    if wide.allow(position):  # nothing that waits is in the way
        try:
            board.reordered(row, moved(board.tasks.orders[row], place_of(board, task).position, position))
        except InvalidSchedule as error:
            return str(error)
        return ""
    data = limits_of(*board.limits, task, by_data=True)  # the plainer reason, where the position is too far for it
    reasons = wide if data.allow(position) else data
    return waits_for(board, reasons.behind if position < wide.first else reasons.before)


def waits_for(board: Board, chain: Sequence[int]) -> str:
    """Say that the last of a chain of tasks waits for its first."""
    return f"{board.name(chain[-1])} waits for {board.name(chain[0])}{board.through(chain)}"


class Pause(NamedTuple):
    """The whole idle time before a task of a row, of whatever classes; `task` is the last one for that behind it."""

    row: int
    start: int
    end: int
    task: int

    @property
    def length(self) -> int:
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


def across(board: Board, task: int, steps: int) -> int:
    """Return the task nearest in time on the next device that has one (from a lane: on its own), or the task itself."""
    tasks, rows = board.tasks, rows_of(board)
    row = tasks.machine[task]
    nearest = min(max(row + steps if row < len(rows) else board.drawn_with(row), 0), len(rows) - 1)
    others = range(nearest, len(rows)) if steps > 0 else range(nearest, -1, -1)
    other = next((one for one in others if rows[one]), row)
    if other == row:
        return task
    order, twice = rows[other], tasks.starts[task] + tasks.ends[task]  # the middle, times two
    middles = [tasks.starts[one] + tasks.ends[one] for one in order]
    place = bisect_left(middles, twice)
    around = range(max(place - 1, 0), min(place + 1, len(order)))
    return order[min(around, key=lambda position: abs(middles[position] - twice))]


def next_pause(board: Board, task: int, current: Pause | None, steps: int, *, sized: bool) -> Pause | None:
    """Return the next pause in order of rows and time, or the one before; None if there is none.

    With `sized` the next smaller one (of a negative `steps` the next larger), at first the largest.
    """
    found = pauses(board.tasks)
    listed, place = by_size(found) if sized else found, 0
    if current is not None and current in listed:
        place = listed.index(current) + steps
    elif not sized:
        ends = [(pause.row, pause.end) for pause in listed]
        here = (board.tasks.machine[task], board.tasks.starts[task])
        place = bisect_right(ends, here) if steps > 0 else bisect_left(ends, here) - 1
    return listed[place] if 0 <= place < len(listed) else None


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


EditStep = tuple[Version, str, str]  # to go back to, what was selected in it, and what left it: `3B2 to position 4`


@dataclass
class EditHistory:
    """A schedule with its history. `saved` is the number of the version that a file holds, or that was loaded."""

    version: Version
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
        return self.version.number != self.saved

    @property
    def selected_name(self) -> str:
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
            self.done.append((_light(self.version), self.selected_name, said))
            del self.done[:-MOST_STEPS]
        self.undone.clear()
        self.version = version._replace(number=self.last_number)
        self.settle(select)

    def go(self, back: list[EditStep], forth: list[EditStep]) -> str | None:
        """Take the last step of `back` again, which goes to `forth`; return what it was, None if there is none."""
        if not back:
            return None
        version, selected, said = back.pop()
        forth.append((_light(self.version), self.selected_name, said))
        self.version = version
        self.settle(selected)
        return said

    def copy(self) -> EditHistory:
        kept = EditHistory(_light(self.version), saved=self.saved, last_number=self.last_number)
        kept.settle(self.selected_name)
        return kept


def _light(version: Version) -> Version:
    """Return a version without what was computed from its board."""
    return version._replace(board=replace(version.board))


def loaded(board: Board, algorithm: str, parameters: tuple[tuple[str, str], ...] = ()) -> Version:
    """Return the version of a board as it was loaded or planned."""
    return Version(board, algorithm, parameters, board.amounts.makespan, 0, 0)


def edited(version: Version, board: Board) -> Version:
    """Return the version after one more edit."""
    return version._replace(board=board, edits=version.edits + 1)


MOST_INPUTS = 4


def change(board: Board, ticks: int) -> str:
    """Return a difference of times: +5, -5, or 0."""
    return f"{'+' if ticks > 0 else '-' if ticks < 0 else ''}{board.number(abs(ticks))}"


def title(version: Version, *, unsaved: bool) -> list[str]:
    """Return the parts of the title of a schedule."""
    amounts, board = version.board.amounts, version.board
    grown = amounts.makespan - version.base
    gain = f" ({change(board, grown)})" if version.edits and version.base else ""
    parts = [version.algorithm, amounts.sizes, f"makespan {board.number(amounts.makespan)}{gain}"]
    parts += [f"bound here {board.number(amounts.bound)}", f"bubble {amounts.bubble:.1%}"]
    if amounts.memory:
        parts.append(amounts.memory + (" over" if amounts.over else ""))
    if board.missing:
        parts.append(f"{board.missing} to place")
    elif unsaved:
        parts.append("edited")
    return parts


def details(board: Board, task: int) -> Iterator[tuple[str, str]]:
    """Yield lines on the selected task: what each is about, and its text."""
    if task == NOTHING:
        yield "", "nothing is placed yet"
        return
    tasks = board.tasks
    row, position = place_of(board, task)
    when = f"{board.number(tasks.starts[task])}-{board.number(tasks.ends[task])}"
    held = held_back_by(tasks, task)
    late = tasks.starts[task] - (0 if held is None else tasks.ends[held.before] + held.lag)
    critical = "w says the slack"
    if len(tasks.durations) <= LIVE:
        critical = "critical" if not tasks.slack[task] else f"slack {board.number(tasks.slack[task])}"
    more = f"  late by {board.number(late)}" if late else ""
    yield board.name(task), f"{board.row_name(row)} position {position}  {when}  {critical}{more}"
    texts, arcs = [], sorted(tasks.arcs(task), key=lambda arc: (arc != held, -tasks.ends[arc.before] - arc.lag))
    for arc in arcs[:MOST_INPUTS]:
        what = "" if arc.is_input else " (order)" if arc.before == tasks.previous[task] else " (wait edge)"
        there = board.number(tasks.ends[arc.before] + arc.lag)
        texts.append(f"{board.name(arc.before)}{what} at {there}{' binds' * (arc == held)}")
    texts += [f"{len(arcs) - MOST_INPUTS} more"] * (len(arcs) > MOST_INPUTS)
    yield "waits for", ", ".join(texts) or "nothing"
    yield "may stand at", _moves(board, task)
    yield "gap before", _gap_before(board, task)
    costs = board.what_costs_do(task)
    if costs:
        yield "cost", costs


def held_back_by(tasks: TimedTasks, task: int) -> Arc | None:
    """Return the arc that holds a task back, as `TimedTasks.tight` says it of all, without looking at others."""
    arcs = [*tasks.arcs(task)]
    allowed = max((tasks.ends[arc.before] + arc.lag for arc in arcs), default=0)
    if not allowed:
        return None
    reaching = [arc for arc in arcs if tasks.ends[arc.before] + arc.lag == allowed]
    return min(reaching, key=lambda arc: (not arc.is_input, -arc.lag, tasks.ranks[arc.before]))


def _moves(board: Board, task: int) -> str:
    fixed = board.why_fixed(task)
    if fixed:
        return fixed
    limits, place = legal(board, task), place_of(board, task)
    several = f"positions {limits.first} to {limits.last}"
    text = several if limits.first < limits.last else f"position {limits.first} alone"
    for key, position in (("<", place.position - 1), (">", place.position + 1)):
        if len(board.tasks.durations) <= LIVE and limits.allow(position):
            text += f"   {key} {makespan_after(board, task, position)}"
    return text


def makespan_after(board: Board, task: int, position: int) -> str:
    """Return the makespan after a legal move, with what it gains."""
    row, start = place_of(board, task)
    try:
        after = board.reordered(row, moved(board.tasks.orders[row], start, position)).tasks.makespan
    except InvalidSchedule:
        return "cannot run"
    return f"{board.number(after)} ({change(board, after - board.tasks.makespan)})"


def _gap_before(board: Board, task: int) -> str:
    """Say how long the row idles before a task, of which class, and why."""
    if len(board.tasks.durations) > LIVE:
        return "w says why"
    texts = []
    for gap in board.gaps:
        if gap.waiting == task:
            if gap.idle is not Idle.ORDER:
                why = board.gap_words(gap)
            elif legal(board, gap.culprit).allow(position := place_of(board, task).position):
                after = makespan_after(board, gap.culprit, position)
                why = f"{board.name(gap.culprit)} could run; before {board.name(task)}: {after}"
            else:
                why = f"{board.name(gap.culprit)} could run, but not before {board.name(task)}"
            texts.append(f"{board.number(gap.end - gap.start)} {IDLE_MARKS[gap.idle].meaning}: {why}")
    return "; ".join(texts) or "none"


def pause_reasons(board: Board, pause: Pause) -> tuple[str, str]:
    """Return how much of a pause is of which class, most first: `wait 10, order 5`; and why, for its longest part."""
    parts = [gap for gap in board.gaps if gap.device == pause.row and pause.start <= gap.start < pause.end]
    totals = Counter[Idle]()
    for gap in parts:
        totals[gap.idle] += gap.end - gap.start
    text = ", ".join(f"{IDLE_MARKS[idle].meaning} {board.number(ticks)}" for idle, ticks in totals.most_common())
    longest = max(parts, key=lambda gap: gap.end - gap.start, default=None)
    return text, "" if longest is None else board.gap_words(longest)

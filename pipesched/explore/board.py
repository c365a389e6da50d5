"""What is edited: tasks in the orders of machines, with times and names, whoever runs them.

Where one task may stand is said as `core.reasons.legal_places` says it of many: with the reasons, without a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Protocol

from pipesched.core.reasons import NOTHING, Gap, TimedTasks, moved
from pipesched.errors import InvalidSchedule

Onward = Callable[[int], Iterator[int]]


class PlaceLimits(NamedTuple):
    """The first and the last position of a task, and the chains of tasks that set them.

    `behind` leads from the last task of its machine that reaches it to the task itself, `before` from the task to the
    first that it reaches. Both are empty where nothing of its machine is in the way.
    """

    first: int
    last: int
    behind: Sequence[int] = ()
    before: Sequence[int] = ()

    def allow(self, position: int) -> bool:
        """Return whether the task may stand there."""
        return self.first <= position <= self.last


def limits_of(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int, *, by_data: bool = False) -> PlaceLimits:
    """Return where a task may stand, whatever memory says: behind what reaches it, before what it reaches.

    So far as data alone says it (`by_data`), or by the orders of the other machines too.
    """
    following = {} if by_data else {tasks.previous[after]: after for order in tasks.orders for after in order[1:]}

    def earlier(other: int) -> Iterator[int]:
        return (arc.before for arc in (tasks.inputs[other] if by_data else tasks.arcs(other)))

    def later(other: int) -> Iterator[int]:
        yield from users[other]
        if other in following:
            yield following[other]

    sources = [*(arc.before for arc in tasks.inputs[task]), *tasks.waits[task]]
    behind = _nearest(task, sources, earlier, tasks, lambda other: (-tasks.starts[other], -tasks.ends[other]))[::-1]
    before = _nearest(task, users[task], later, tasks, lambda other: (tasks.ends[other], tasks.starts[other]))
    order = tasks.orders[tasks.machine[task]]
    first = order.index(behind[0]) + 1 if behind else 0
    last = order.index(before[-1]) - 1 if before else len(order) - 1
    return PlaceLimits(first, last, behind, before)


def _nearest(
    task: int, direct: Sequence[int], onward: Onward, tasks: TimedTasks, distance: Callable[[int], tuple[int, int]]
) -> list[int]:
    """Return the chain from a task to the nearest one of its machine that it is joined to; empty if there is none.

    Tasks are visited by their distance in time. Of those of the machine the nearest is the first that is met, unless
    tasks of no length share its instant: these are all looked at. Of several ways the one nearest in time is taken.
    """
    machine = tasks.machine[task]
    begin = [other for other in direct if tasks.machine[other] != NOTHING]
    came_from = dict.fromkeys(begin, task)
    heap = [(distance(other), other) for other in begin]
    heapify(heap)
    positions = {other: place for place, other in enumerate(tasks.orders[machine])}
    done: set[int] = set()
    found, own = NOTHING, positions[task]
    while heap:
        how_far, other = heappop(heap)
        done.add(other)
        if found != NOTHING and how_far[0] > distance(found)[0]:
            break
        if tasks.machine[other] == machine:
            if found == NOTHING or abs(positions[other] - own) < abs(positions[found] - own):
                found = other
            continue
        for further in onward(other):
            if further in done or tasks.machine[further] == NOTHING:
                continue
            known = further in came_from
            came_from[further] = other
            if not known:
                heappush(heap, (distance(further), further))
    if found == NOTHING:
        return []
    chain = [found]
    while chain[-1] != task:
        chain.append(came_from[chain[-1]])
    return chain[::-1]


LIVE = 20_000  # tasks up to which everything is timed again at every key


class Amounts(NamedTuple):
    """What the title of a schedule says; `over` names rows that are over their budget."""

    sizes: str
    makespan: int
    bound: int
    bubble: float
    memory: str
    over: Sequence[str]


class Board(Protocol):
    """Tasks in the orders of machines: a pipeline's operations on devices, or operations on functional units.

    Boards never change: an edit makes another one. What has a body here is so on most boards.
    """

    @property
    def first(self) -> int:
        """The tick of the schedule that is time 0 of the tasks."""
        return 0

    @property
    def tasks(self) -> TimedTasks:
        """The tasks with their times."""

    @property
    def users(self) -> Sequence[Sequence[int]]:
        """What waits for each task, but for the orders of machines."""

    @property
    def limits(self) -> tuple[TimedTasks, Sequence[Sequence[int]]]:
        """The tasks, and what waits for each, with no more waits than hold whatever the orders: where tasks may go."""
        return self.tasks, self.users

    @property
    def amounts(self) -> Amounts:
        """The measures."""

    @property
    def gaps(self) -> Sequence[Gap]:
        """All idle time of the devices by class and culprit."""

    @property
    def is_late(self) -> bool:
        """Whether some task starts later than it could."""

    @property
    def missing(self) -> int:
        """How many tasks are still in no order."""

    def name(self, task: int) -> str:
        """Return the text of a task."""

    def find(self, text: str) -> int | None:
        """Return the task of a text, if the orders hold it."""

    def row_name(self, row: int) -> str:
        """Name a device or a unit."""

    def drawn_with(self, row: int) -> int:
        """Return the device or unit below which a row is drawn: of a lane the last of its devices."""
        return row

    def why_fixed(self, task: int) -> str:
        """Say why a task cannot be moved at all; empty if it can."""
        return ""

    def narrowed(self, task: int, limits: PlaceLimits) -> PlaceLimits:
        """Return the limits of a task without positions that are refused for more than what waits for what."""
        return limits

    def reordered(self, row: int, order: Sequence[int]) -> Board:
        """Return the board with another order of one row, at its earliest times. Raises InvalidSchedule."""

    def gap_words(self, gap: Gap) -> str:
        """Say why a row idles."""

    def through(self, chain: Sequence[int]) -> str:
        """Say how the first of a chain reaches its last."""

    def what_costs_do(self, task: int) -> str:
        """Say what a change of the cost of a task does to the makespan; empty where that is not known."""
        return ""

    def number(self, ticks: int) -> str:
        """Return a time for people, in the user's unit."""

    def emptied(self) -> Board:
        """Return the board of the same tasks with none in an order."""

    def homes(self, task: int) -> Sequence[int]:
        """Return the rows on which a task may run."""

    def home_name(self, task: int) -> str:
        """Name them in a word of at most four letters, where that is possible: `d3`, `mul`."""

    def why_not_on(self, task: int, row: int) -> str:
        """Say why a task cannot run on a row that is none of its homes."""

    def likely_after(self, task: int) -> int:
        """Return what is often placed behind a task: the same of the next microbatch; NOTHING if nothing is."""
        return NOTHING

    def code(self) -> str:
        """Return what is placed as a line of Python."""

    def light(self) -> Board:
        """Return the same board without what was computed from it."""

    def save(self, path: str, name: str, *, force: bool) -> str:
        """Write a file in the format of its suffix, check it, and say so. Raises ConfigError and InvalidSchedule."""


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
    data = limits_of(
        *board.limits, task, by_data=True
    )  # the plainer reason, if the position is too far for that already
    reasons = wide if data.allow(position) else data
    return waits_for(board, reasons.behind if position < wide.first else reasons.before)


def waits_for(board: Board, chain: Sequence[int]) -> str:
    """Say that the last of a chain of tasks waits for its first."""
    return f"{board.name(chain[-1])} waits for {board.name(chain[0])}{board.through(chain)}"


SECONDS = 60.0  # of a solve, unless it is stopped
Tell = Callable[[str], None]


class Choice(NamedTuple):
    """An algorithm, and what to know of it."""

    name: str
    note: str


class FormField(NamedTuple):
    """A parameter: its name, its label, and its value as text."""

    name: str
    label: str
    value: str


class Planned(NamedTuple):
    """A board, the name of what planned it, and what to say of it."""

    board: Board
    algorithm: str
    note: str = ""


class Move(NamedTuple):
    """A task to another position of its row."""

    task: int
    position: int

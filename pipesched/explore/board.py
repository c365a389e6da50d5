"""Where a task of a board may stand, what a board measures, and what planners take and return.

`limits_of` says where one task may stand as `core.reasons.legal_places` says it of many: with reasons, without a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks

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

    board: Any
    algorithm: str
    note: str = ""

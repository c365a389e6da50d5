"""Where one task may stand in the order of its machine, and which tasks keep it from point elsewhere.

As `core.order_moves.legal_places` says it of many tasks, but for one, with the reasons, and without a table of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks


class PlaceLimits(NamedTuple):
    """The first and the last position of a task, and the chains of tasks that set them.

    `behind` leads from the last task of its machine that reaches it to the task itself, `before` from the task to the
    first that it reaches; both are empty where nothing of its machine is in the way.
    """

    first: int
    last: int
    behind: Sequence[int] = ()
    before: Sequence[int] = ()

    def allow(self, position: int) -> bool:
        """Return whether the task may stand there."""
        return self.first <= position <= self.last


class Followers:
    """What follows each task: the reverse of all that tasks wait for. Made once for each order."""

    def __init__(self, tasks: TimedTasks, users: Sequence[Sequence[int]]) -> None:
        self._users = users
        self._next: dict[int, int] = {after: before for before, after in _in_turn(tasks)}

    def of(self, task: int) -> Iterator[int]:
        """Yield the tasks that wait for one directly."""
        yield from self._users[task]
        if task in self._next:
            yield self._next[task]


def _in_turn(tasks: TimedTasks) -> Iterator[tuple[int, int]]:
    """Yield (after, before) for neighbours in orders."""
    return ((after, tasks.previous[after]) for order in tasks.orders for after in order[1:])


def users_of(tasks: TimedTasks) -> list[list[int]]:
    """Return what waits for each task, but for the orders of machines."""
    users: list[list[int]] = [[] for _ in tasks.durations]
    for task, arcs in enumerate(tasks.inputs):
        for before in (*(arc.before for arc in arcs), *tasks.waits[task]):
            users[before].append(task)
    return users


def limits_of(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int) -> PlaceLimits:
    """Return where a task may stand: behind what reaches it, before what it reaches, whatever memory says.

    `users` are those of `users_of`; tasks in no order wait for nobody here.
    """
    machine = tasks.machine[task]
    order = tasks.orders[machine]
    followers = Followers(tasks, users)
    behind = _behind(tasks, task, lambda u: (arc.before for arc in tasks.arcs(u)))
    before = _before(tasks, users, task, followers.of)
    first = order.index(behind[0]) + 1 if behind else 0
    last = order.index(before[-1]) - 1 if before else len(order) - 1
    return PlaceLimits(first, last, behind, before)


def by_data(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int) -> PlaceLimits:
    """Return the same as far as data alone says it, whatever the orders of the other machines."""
    order = tasks.orders[tasks.machine[task]]
    behind = _behind(tasks, task, lambda u: (arc.before for arc in tasks.inputs[u]))
    before = _before(tasks, users, task, lambda u: iter(users[u]))
    first = order.index(behind[0]) + 1 if behind else 0
    last = order.index(before[-1]) - 1 if before else len(order) - 1
    return PlaceLimits(first, last, behind, before)


Onward = Callable[[int], Iterator[int]]


def _behind(tasks: TimedTasks, task: int, onward: Onward) -> list[int]:
    """Return the chain from the last task of the machine that reaches a task to the task."""
    sources = [arc.before for arc in tasks.inputs[task]] + [*tasks.waits[task]]
    placed = [before for before in sources if tasks.machine[before] != NOTHING]
    return _nearest(task, placed, onward, tasks, lambda u: (-tasks.starts[u], -tasks.ends[u]))[::-1]


def _before(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int, onward: Onward) -> list[int]:
    """Return the chain from a task to the first of the machine that it reaches."""
    after = [user for user in users[task] if tasks.machine[user] != NOTHING]
    return _nearest(task, after, onward, tasks, lambda u: (tasks.ends[u], tasks.starts[u]))


def _nearest(
    task: int,
    begin: Sequence[int],
    onward: Onward,
    tasks: TimedTasks,
    distance: Callable[[int], tuple[int, int]],
) -> list[int]:
    """Return the chain from a task to the nearest one of its machine that it is joined to; empty if there is none.

    Tasks are visited by their distance in time. Of those of the machine the nearest is the first that is met, unless
    tasks of no length share its instant: these are all looked at. Of several ways the one nearest in time is taken.
    """
    machine = tasks.machine[task]
    came_from = dict.fromkeys(begin, task)
    heap: list[tuple[tuple[int, int], int]] = []
    for other in begin:
        heappush(heap, (distance(other), other))
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
    return _way(came_from, found, task) if found != NOTHING else []


def _way(came_from: Mapping[int, int], found: int, task: int) -> list[int]:
    """Return the chain from a task to what was found."""
    chain = [found]
    while chain[-1] != task:
        chain.append(came_from[chain[-1]])
    return chain[::-1]

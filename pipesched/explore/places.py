"""Where one task may stand in the order of its machine, and which tasks keep it from standing elsewhere.

As `core.order_moves.legal_places` says it of many tasks, but for one, with the reasons, and without a table of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

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
        """Return whether the task may stand there."""
        return self.first <= position <= self.last


def limits_of(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int) -> PlaceLimits:
    """Return where a task may stand: behind what reaches it, before what it reaches, whatever memory says.

    `users` are those of `users_of`; tasks in no order wait for nobody here.
    """
    following = {tasks.previous[after]: after for order in tasks.orders for after in order[1:]}

    def later(other: int) -> Iterator[int]:
        yield from users[other]
        if other in following:
            yield following[other]

    return _limits(tasks, users, task, lambda other: (arc.before for arc in tasks.arcs(other)), later)


def by_data(tasks: TimedTasks, users: Sequence[Sequence[int]], task: int) -> PlaceLimits:
    """Return the same as far as data alone says it, whatever the orders of the other machines."""
    inputs = tasks.inputs
    return _limits(
        tasks, users, task, lambda other: (arc.before for arc in inputs[other]), lambda other: iter(users[other])
    )


def _limits(
    tasks: TimedTasks, users: Sequence[Sequence[int]], task: int, earlier: Onward, later: Onward
) -> PlaceLimits:
    """Return the limits by what others wait for (`earlier`), and by what waits for them (`later`)."""
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

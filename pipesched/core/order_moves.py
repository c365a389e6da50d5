"""Single changes of an order: one task of a machine earlier or later, and what that does to the makespan.

Where a task may go follows from who reaches it and whom it reaches, whatever memory says. Only a task that stands on
every longest path, and is held back or holds back by the order of its machine, can shorten the schedule by moving.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipesched.core.reasons import NOTHING, TimedTasks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Places(NamedTuple):
    """The positions at which a task may stand in the order of its machine, the first and the last."""

    first: int
    last: int


def users_of(tasks: TimedTasks) -> list[list[int]]:
    """Return what waits for each task, but for the orders of machines."""
    users: list[list[int]] = [[] for _ in tasks.durations]
    for task, arcs in enumerate(tasks.inputs):
        for before in (*(arc.before for arc in arcs), *tasks.waits[task]):
            users[before].append(task)
    return users


def legal_places(tasks: TimedTasks, chosen: Sequence[int]) -> list[Places]:
    """Return where each of the chosen tasks may stand: behind what reaches it, before what it reaches."""
    pairs, users = zip(tasks.inputs, tasks.waits, strict=True), users_of(tasks)
    sources = [[*(arc.before for arc in inputs), *waits] for inputs, waits in pairs]
    reaching = _reaching(tasks, _positions(tasks), tasks.topological, sources)
    reached = _reaching(tasks, _positions(tasks, -1), tasks.topological[::-1], users)
    places = []
    for task in chosen:
        machine = tasks.machine[task]
        first = max((int(reaching[other, machine]) for other in sources[task]), default=NOTHING) + 1
        behind = max((int(reached[other, machine]) for other in users[task]), default=NOTHING)
        places.append(Places(first, len(tasks.orders[machine]) - 2 - behind))
    return places


def _positions(tasks: TimedTasks, step: int = 1) -> list[int]:
    """Return the position of each task in its order; with `step` -1 counted from the end."""
    positions = [NOTHING] * len(tasks.durations)
    for order in tasks.orders:
        for position, task in enumerate(order[::step]):
            positions[task] = position
    return positions


def _reaching(
    tasks: TimedTasks, positions: Sequence[int], order: Sequence[int], sources: Sequence[Sequence[int]]
) -> NDArray[np.int32]:
    """Return the last position on each machine from which each task is reached, its own included.

    `order` has every task behind what reaches it, `positions` rise in that direction.
    """
    import numpy as np

    machines = len(tasks.orders)
    latest = np.full((len(tasks.durations), machines), NOTHING, np.int32)
    newest = [NOTHING] * machines
    for task in order:
        row, machine = latest[task], tasks.machine[task]
        if newest[machine] != NOTHING:
            row[:] = latest[newest[machine]]
        for before in sources[task]:
            np.maximum(row, latest[before], out=row)
        row[machine] = positions[task]
        newest[machine] = task
    return latest


def movable(tasks: TimedTasks) -> list[int]:
    """Return the tasks of devices whose move alone may shorten the schedule, in order of the critical path.

    Each stands on every longest path, and the critical path enters or leaves it by the order of its device: any other
    move leaves a longest path whole.
    """
    on_all = _on_every_longest_path(tasks)
    path = tasks.critical_path
    found = []
    for position, task in enumerate(path):
        arcs = [tasks.tight[other] for other in path[position : position + 2]]
        by_order = any(arc is not None and not arc.is_input for arc in arcs)
        if by_order and task in on_all and tasks.machine[task] < tasks.devices:
            found.append(task)
    return found


def _on_every_longest_path(tasks: TimedTasks) -> set[int]:
    """Return the tasks on every longest path: those that no arc between critical tasks passes by.

    Critical tasks are numbered so that arcs go upwards; a path that has no stop at a number jumps over it.
    """
    critical = [task for task in tasks.topological if not tasks.slack[task]]
    number = {task: count for count, task in enumerate(critical)}
    jumps = [0] * (len(critical) + 2)

    def jump(before: int, after: int) -> None:
        jumps[before + 1] += 1
        jumps[after] -= 1

    for task in critical:
        if not tasks.allowed[task]:
            jump(-1, number[task])
        if tasks.ends[task] == tasks.makespan and tasks.may_end(task):
            jump(number[task], len(critical))
        for arc in tasks.arcs(task):
            if arc.before in number and tasks.ends[arc.before] + arc.lag == tasks.allowed[task]:
                jump(number[arc.before], number[task])
    found, over = set(), 0
    for task, change in zip(critical, jumps, strict=False):
        over += change
        if not over:
            found.add(task)
    return found


def moved(order: Sequence[int], start: int, to: int) -> list[int]:
    """Return an order with the entry at one position at another one."""
    rest = [*order[:start], *order[start + 1 :]]
    return [*rest[:to], order[start], *rest[to:]]


def candidate_moves(tasks: TimedTasks, limits: TimedTasks | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield (task, from, to) for each move that may shorten the schedule, the shortest distances first.

    Of two moves that give the same order (neighbours that change places) the first is yielded. `limits` are the same
    tasks with the arcs alone that stay as they are when one moves; default: all do.
    """
    chosen = movable(tasks)
    positions = _positions(tasks)
    found = [
        (abs(to - positions[task]), on_path, task, positions[task], to)
        for on_path, (task, places) in enumerate(zip(chosen, legal_places(limits or tasks, chosen), strict=True))
        for to in range(places.first, places.last + 1)
        if to != positions[task]
    ]
    seen: set[tuple[int, int, int]] = set()
    for distance, _, task, start, to in sorted(found):
        machine = tasks.machine[task]
        exchange = (machine, min(start, to), distance)
        if distance == 1 and exchange in seen:
            continue
        seen.add(exchange)
        yield task, start, to

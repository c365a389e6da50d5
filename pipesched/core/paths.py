"""Longest paths through a task graph, as if every resource had units for all tasks at once."""

from __future__ import annotations

from collections.abc import Iterable

from pipesched.core.arrays import Ints, Kernels, column, in_range, lists, np
from pipesched.core.clock import look
from pipesched.core.tasks import TaskGraph, WaitTable
from pipesched.errors import InvalidSchedule

UNREACHED = -1


def topological_order(graph: TaskGraph) -> list[int]:
    """Return the tasks in an order in which each comes after all that it waits for.

    Raises InvalidSchedule for a cycle.
    """
    return lists(_arranged(graph)[0])


def levels(graph: TaskGraph) -> Ints:
    """Return how many tasks are before each in the longest chain that leads to it."""
    return _arranged(graph)[1]


def _arranged(graph: TaskGraph) -> tuple[Ints, Ints]:
    """Return `topological_order` and `levels`, as arrays."""
    look()
    kernels, follows = Kernels(), graph.followers
    left = kernels.give(np.diff(graph.waits.first))
    height, tasks = kernels.blank(len(graph)), kernels.blank(len(graph))
    done = kernels.run.arrange(kernels.give(follows.first), kernels.give(follows.task), left, height, tasks)
    if done < len(graph):
        stuck = np.flatnonzero(column(left))
        raise InvalidSchedule(f"the precedences of tasks {stuck[:8].tolist()} form a cycle")
    return column(tasks), column(height)


def heads(graph: TaskGraph, releases: Iterable[int] = ()) -> list[int]:
    """Return the earliest start (ASAP) of each task in ticks, by its longest path of predecessors.

    `releases` is when each task may start at all, UNREACHED for one that only others release (default: at once).
    """
    return _lengthened(graph, column(releases), graph.followers)


def tails(graph: TaskGraph, ends: Iterable[int] = ()) -> list[int]:
    """Return the ticks that must pass between the end of each task and the end of the schedule (longest path).

    `ends` is what passes after each task that may be the last one, UNREACHED for others (default: its delivery).
    """
    begun = column(ends)
    return _lengthened(graph, begun if len(begun) else graph.delivery, graph.waits)


def _lengthened(graph: TaskGraph, begun: Ints, arrows: WaitTable) -> list[int]:
    """Return the ticks before each task, at first `begun`, as the longest paths along `arrows` make them."""
    order = _arranged(graph)[0]
    look()
    lengths = in_range(begun, int(begun.max())) if len(begun) else np.zeros(len(graph), dtype=np.int64)
    kernels = Kernels(graph.duration, arrows.lag, lengths)
    found = kernels.give(lengths.copy())
    columns = (order if arrows is graph.followers else order[::-1], arrows.first, arrows.task, arrows.lag)
    kernels.run.lengthen(*map(kernels.give, (*columns, graph.duration)), found)
    return lists(found)

"""What one tick more or less of a cost does to the makespan, with the orders fixed: exact one-sided derivatives.

A cost counts as often as its tasks, or its lags, stand on a longest path. One tick less gains the least number over all
longest paths, one tick more costs the largest. Times must be the earliest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipesched.core.reasons import NOTHING, Arc, TimedTasks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int32]


class CostRange(NamedTuple):
    """How often a cost stands on a longest path: at least, and at most."""

    least: int
    most: int


class _Bounds(NamedTuple):
    """The least and the largest counts of each column on longest paths to a task."""

    least: Counts
    most: Counts


def path_counts(
    tasks: TimedTasks,
    columns: Callable[[int], Sequence[int]],
    count: int,
    lasting: Callable[[int], Sequence[int]] | None = None,
) -> list[CostRange]:
    """Return for each of `count` columns how often it stands on a longest path.

    `columns` gives the columns in which a task counts; an arc and a delivery count in that of their tag. Tasks of no
    length at time 0 count towards the largest number alone: they would take time if they cost some. `lasting` gives the
    columns in which a task counts towards the least number (default: all): what costs nothing cannot cost less.
    """
    import numpy as np

    critical = [not slack for slack in tasks.slack]
    order = [task for task in tasks.topological if critical[task]]
    held = Counter(arc.before for task in order for arc in _tight_arcs(tasks, task, critical))
    known: dict[int, _Bounds] = {}
    ending: list[_Bounds] = []
    for task in order:
        arcs = [*_tight_arcs(tasks, task, critical)]
        found = _joined([_passed(known[arc.before], arc.tag) for arc in arcs], not tasks.allowed[task], count)
        own = columns(task)
        for column in own:
            found.most[column] += 1
        for column in own if lasting is None else lasting(task):
            found.least[column] += 1
        known[task] = found
        if tasks.outs[task] == tasks.makespan and tasks.may_end(task):
            ending.append(_passed(found, tasks.delivery_tags[task] if tasks.delivery_tags else NOTHING))
        for arc in arcs:
            held[arc.before] -= 1
            if not held[arc.before]:
                del known[arc.before]
    if not ending:
        return [CostRange(0, 0)] * count
    least = np.minimum.reduce([bounds.least for bounds in ending])
    most = np.maximum.reduce([bounds.most for bounds in ending])
    return [CostRange(int(low), int(high)) for low, high in zip(least, most, strict=True)]


def _tight_arcs(tasks: TimedTasks, task: int, critical: Sequence[bool]) -> list[Arc]:
    """Return the arcs of longest paths into a critical task."""
    allowed, ends = tasks.allowed[task], tasks.ends
    return [arc for arc in tasks.arcs(task) if critical[arc.before] and ends[arc.before] + arc.lag == allowed]


def _passed(bounds: _Bounds, tag: int) -> _Bounds:
    """Return the counts at the end of an arc or a delivery with this tag."""
    if tag == NOTHING:
        return bounds
    least, most = bounds.least.copy(), bounds.most.copy()
    least[tag] += 1
    most[tag] += 1
    return _Bounds(least, most)


def _joined(arriving: Sequence[_Bounds], is_first: bool, count: int) -> _Bounds:
    """Return the counts of all ways to a task; one that `is_first` may also begin a path."""
    import numpy as np

    nothing = np.zeros(count, np.int32)
    if not arriving:
        return _Bounds(nothing, nothing.copy())
    least, most = arriving[0].least.copy(), arriving[0].most.copy()
    for bounds in arriving[1:]:
        np.minimum(least, bounds.least, out=least)
        np.maximum(most, bounds.most, out=most)
    return _Bounds(nothing if is_first else least, most)

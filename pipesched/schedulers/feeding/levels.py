"""The slots of a plan in levels, to time many cases of them at once: other lengths, the same order on each device.

Each slot waits for slots of earlier levels alone, so that a level is a few steps on arrays in which a column is a case.
Numbers are whole, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pipesched.core.clock import look
from pipesched.pipeline.plan import Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[Any]  # of 64 bits, or of Python's own ints where those would not hold the numbers

NOTHING = -1  # what slots wait for that wait for less than others
ORDER = -1  # the precedence of a slot behind the one before it on its machine


class SlotLevels:
    """The slots of a plan, of its devices and its lanes, in rows.

    `tasks[r]` is the slot of row r: the number of its operation, of a pair that of the forward; `row_of` is its
    inverse. Row r waits for the rows `before[c][r]` of all columns c; where it waits for fewer, the row after the last
    one stands there, which ends at 0. `arrows[c][r]` is the number of the precedence that this wait comes from, ORDER
    for the order of a machine.
    """

    def __init__(self, plan: Plan, precedences: Sequence[tuple[int, int]]) -> None:
        """Arrange a plan in which the first operation of each of `precedences` ends before the second one starts.

        Those of operations that stand nowhere in the plan are left out, and those that the order of a machine implies.
        The plan must run: its orders and the precedences hold no cycle.
        """
        import numpy as np

        waits = _waits(plan, precedences)
        self.tasks, heights = _by_height(waits)
        self.row_of = {task: row for row, task in enumerate(self.tasks)}
        width, none = max(map(len, waits.values()), default=0), len(self.tasks)
        rows = {**self.row_of, NOTHING: none}
        table = [[*waits[task], *[(NOTHING, ORDER)] * (width - len(waits[task]))] for task in self.tasks]
        self.before = [np.array([rows[wait[column][0]] for wait in table], np.intp) for column in range(width)]
        self.arrows = [np.array([wait[column][1] for wait in table], np.intp) for column in range(width)]
        self._steps = []
        for begin, end in pairwise(_changes(heights)):
            parts = [(column, before[begin:end]) for column, before in enumerate(self.before)]
            self._steps.append((slice(begin, end), [part for part in parts if (part[1] != none).any()]))
        self._widest = max((rows.stop - rows.start for rows, _ in self._steps), default=0)

    def __len__(self) -> int:
        return len(self.tasks)

    def ends(self, lengths: Whole, delays: Sequence[Whole | None] = ()) -> Whole:
        """Return when each row ends in each case, with one row more that is 0, in the place of `lengths`.

        `lengths` has a row for each of ours and one more, which is 0, and a column for each case; `delays[c]` is how
        long after the ends of `before[c]` our rows start at the earliest (None: at once, in every case).
        """
        import numpy as np

        latest, other = (np.empty((self._widest, lengths.shape[1]), lengths.dtype) for _ in range(2))
        for rows, columns in self._steps:
            look()
            size = rows.stop - rows.start
            for number, (column, before) in enumerate(columns):
                ready = (other if number else latest)[:size]
                np.take(lengths, before, axis=0, out=ready, mode="clip")
                delay = delays[column] if delays else None
                if delay is not None:
                    ready += delay[rows]
                if number:
                    np.maximum(latest[:size], ready, out=latest[:size])
            if columns:
                lengths[rows] += latest[:size]
        return lengths


Waits = dict[int, list[tuple[int, int]]]  # of each slot: what it waits for, and by which precedence


def _waits(plan: Plan, precedences: Iterable[tuple[int, int]]) -> Waits:
    machine, position = dict[int, int](), dict[int, int]()
    waits: Waits = {}
    for number, order in enumerate(plan.machines):
        look()
        for entry, task in enumerate(order):
            machine[task], position[task] = number, entry
            waits[task] = [(order[entry - 1], ORDER)] if entry else []
    slot = {**{task: task for task in machine}, **{backward: forward for forward, backward in plan.pairs.items()}}
    for number, (before, after) in enumerate(precedences):
        first, second = slot.get(before), slot.get(after)
        if first is None or second is None:
            continue
        if machine[first] != machine[second] or position[first] > position[second]:
            waits[second].append((first, number))
    return waits


def _by_height(waits: Waits) -> tuple[list[int], list[int]]:
    """Return the slots by their heights, which is the most waits on a way to each, and the heights."""
    left = {task: len(known) for task, known in waits.items()}
    followers: dict[int, list[int]] = {task: [] for task in waits}
    for task, known in waits.items():
        for before, _ in known:
            followers[before].append(task)
    height = dict.fromkeys(waits, 0)
    ready = [task for task, count in left.items() if not count]
    for task in ready:  # grows while it is walked
        for follower in followers[task]:
            height[follower] = max(height[follower], height[task] + 1)
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    tasks = sorted(ready, key=height.__getitem__)
    return tasks, [height[task] for task in tasks]


def _changes(heights: Sequence[int]) -> list[int]:
    """Return where another height begins, and the end."""
    inside = [row for row, (one, other) in enumerate(pairwise(heights), 1) if one != other]
    return [0, *inside, len(heights)] if heights else [0]

"""Cuts where every device has its stages in one run, most often a single one: exact, for any lists.

A stage costs no less with more items, so within a cost and the memory the ends that it may have from a given begin are
all those up to a furthest one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pipesched.pipeline.cutting.task import CutTask, Ends, least_cost

MOST_PAIRS = 1_000_000  # of items, for which the most even of the best cuts is looked for


class StageRun(NamedTuple):
    """The stages of one holder, side by side: how many there are, and the memory of items in them."""

    holder: int
    stages: int
    held: Sequence[int]


def runs_of(task: CutTask) -> list[StageRun] | None:
    """Return the run of each holder, in forward order; None where some holder has several."""
    runs, stage = [], 0
    for holder, group in groupby(task.holders):
        count = len([*group])
        runs.append(StageRun(holder, count, task.held(stage) if task.room is not None else ()))
        stage += count
    return runs if len(runs) == len(task.weights) else None


def cut_runs(task: CutTask, runs: Sequence[StageRun]) -> Ends | None:
    """Return the best cut, and of such cuts one of the most even; None if none is within memory."""
    search = _RunSearch(task, runs)
    best = least_cost(task, search.any_within)
    if best is None:
        return None
    return search.evenest(task.cost(best)) if task.items**2 <= MOST_PAIRS else best


class _RunSearch:
    """Where runs may end."""

    def __init__(self, task: CutTask, runs: Sequence[StageRun]) -> None:
        self.task, self.runs = task, runs
        self.begins, behind = [], 0
        for run in runs:
            left = task.stages - behind
            self.begins.append(range(behind, task.items - left + 1) if behind else range(1))
            behind += run.stages
        every = [self._within(run.held, None if task.room is None else task.room[run.holder]) for run in runs]
        self.room = every

    def _within(self, sums: Sequence[int], most: int | None) -> list[int]:
        """Return the furthest end from each begin with which the items of a run have no more than `most`."""
        if most is None:
            return [self.task.items] * (self.task.items + 1)
        return [bisect_right(sums, begin + most) - 1 for begin in sums]

    def _reach(self, cost: int | None) -> list[list[int]]:
        """Return the furthest end of each run from each begin."""
        limits = self.task.limits(cost)
        by_limit = {limit: self._within(self.task.work, limit) for limit in {*limits}}
        pairs = zip(self.runs, self.room, strict=True)
        return [[*map(min, zip(by_limit[limits[run.holder]], room, strict=True))] for run, room in pairs]

    def _open(self, reach: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return for each run and item the last begin up to it from which the rest can be cut; -1 for none."""
        items = self.task.items
        opened = [[-1] * items + [items]]
        for run, begins, furthest in zip(reversed(self.runs), reversed(self.begins), reversed(reach), strict=True):
            behind, found = opened[-1], [-1] * (items + 1)
            for begin in begins:
                if behind[furthest[begin]] >= begin + run.stages:
                    found[begin] = begin
            last = -1
            for item, begin in enumerate(found):
                last = found[item] = max(last, begin)
            opened.append(found)
        return opened[::-1]

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost, with the longest runs first."""
        reach = self._reach(cost)
        opened = self._open(reach)
        if opened[0][0] < 0:
            return None
        ends, begin = [], 0
        for run, furthest, behind in zip(self.runs, reach, opened[1:], strict=True):
            end = behind[furthest[begin]]
            ends += _parts(begin, end, run.stages)
            begin = end
        return ends

    def evenest(self, cost: int) -> Ends:
        """Return the cut within a cost with the least sum of squares of the items of holders, of such with more behind.

        Behind, less is in flight: most schedules hold the most microbatches on the first device.
        """
        reach = self._reach(cost)
        best: dict[int, tuple[int, int]] = {self.task.items: (0, 0)}
        chosen = []
        for run, begins, furthest in zip(reversed(self.runs), reversed(self.begins), reversed(reach), strict=True):
            found = {}
            for begin in begins:
                choices = range(begin + run.stages, furthest[begin] + 1)
                costs = [((end - begin) ** 2 + best[end][0], end) for end in choices if end in best]
                if costs:
                    found[begin] = min(costs)
            best = found
            chosen.append(found)
        ends: list[int] = []
        begin = 0
        for run, found in zip(self.runs, reversed(chosen), strict=True):
            end = found[begin][1]
            ends += _parts(begin, end, run.stages)
            begin = end
        return ends


def _parts(begin: int, end: int, count: int) -> list[int]:
    """Return the ends of so many stages of equal numbers of items; where these cannot be, the first have one more."""
    each, more = divmod(end - begin, count)
    return [begin + (part + 1) * each + min(part + 1, more) for part in range(count)]

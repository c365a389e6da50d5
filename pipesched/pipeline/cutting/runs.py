"""Cuts where every device has its stages in one run, most often a single one: exact, for any lists.

A stage costs no less with more items, so within a cost and the memory the ends that it may have from a given begin are
all those up to a furthest one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    """Where runs may end. Each is looked at only from the begins that the runs before and behind it leave."""

    def __init__(self, task: CutTask, runs: Sequence[StageRun]) -> None:
        self.task, self.runs = task, runs
        self.begins, behind = [], 0
        for run in runs:
            left = task.stages - behind
            self.begins.append(range(behind, task.items - left + 1) if behind else range(1))
            behind += run.stages

    def _limits(self, run: StageRun, cost: int | None) -> list[tuple[Sequence[int], int]]:
        """Return what a run may have within a cost: sums of items, and the most of each."""
        work = (self.task.work, self.task.limits(cost)[run.holder])
        return [work] if self.task.room is None else [work, (run.held, self.task.room[run.holder])]

    def _windows(self, cost: int | None) -> list[range]:
        """Return the begins of each run from which those before it, and those behind it, may reach."""
        firsts, begin = [], self.task.items
        for run, begins in zip(reversed(self.runs), reversed(self.begins), strict=True):
            begin = max(bisect_left(sums, sums[begin] - most) for sums, most in self._limits(run, cost))
            begin = max(begin, begins.start)
            firsts.append(begin)
        windows, last = [], 0
        for run, begins, first in zip(self.runs, self.begins, reversed(firsts), strict=True):
            last = min(last, begins.stop - 1)
            windows.append(range(first, last + 1))
            last = _furthest(last, self._limits(run, cost))
        return windows

    def _open(self, cost: int | None) -> list[dict[int, int]]:
        """Return for each run its furthest end from each begin from which the rest can be cut."""
        opened: list[dict[int, int]] = []
        possible = [self.task.items]  # begins of the run behind
        for run, window in zip(reversed(self.runs), reversed(self._windows(cost)), strict=True):
            limits, found = self._limits(run, cost), {}
            for begin in window:
                place = bisect_right(possible, _furthest(begin, limits))
                if place and possible[place - 1] >= begin + run.stages:
                    found[begin] = possible[place - 1]
            opened.append(found)
            possible = [*found]
        return opened[::-1]

    def any_within(self, cost: int | None) -> Ends | None:
        """Return a cut within a cost, with the longest runs first."""
        opened = self._open(cost)
        if 0 not in opened[0]:
            return None
        ends: list[int] = []
        begin = 0
        for run, furthest in zip(self.runs, opened, strict=True):
            ends += _parts(begin, furthest[begin], run.stages)
            begin = furthest[begin]
        return ends

    def evenest(self, cost: int) -> Ends:
        """Return the cut within a cost with the least sum of squares of the items of holders, of such with more behind.

        Behind, less is in flight: most schedules hold the most microbatches on the first device.
        """
        best: dict[int, tuple[int, int]] = {self.task.items: (0, 0)}
        chosen = []
        for run, furthest in zip(reversed(self.runs), reversed(self._open(cost)), strict=True):
            found = {}
            for begin, last in furthest.items():
                choices = (end for end in range(begin + run.stages, last + 1) if end in best)
                found[begin] = min(((end - begin) ** 2 + best[end][0], end) for end in choices)
            best = found
            chosen.append(found)
        ends: list[int] = []
        begin = 0
        for run, found in zip(self.runs, reversed(chosen), strict=True):
            end = found[begin][1]
            ends += _parts(begin, end, run.stages)
            begin = end
        return ends


def _furthest(begin: int, limits: Sequence[tuple[Sequence[int], int]]) -> int:
    """Return the furthest end from a begin, with no more of any sums than the most of these."""
    return min(bisect_right(sums, sums[begin] + most) - 1 for sums, most in limits)


def _parts(begin: int, end: int, count: int) -> list[int]:
    """Return the ends of so many stages of equal numbers of items; where these cannot be, the first have one more."""
    each, more = divmod(end - begin, count)
    return [begin + (part + 1) * each + min(part + 1, more) for part in range(count)]

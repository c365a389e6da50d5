"""The longest ways to and from the operations of units: row by row, since units of other microbatches do not meet."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from pipesched.core.clock import look
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.step_ends import step_ends

Times = list[int]  # of the units of a row


class UnitWays:
    """Heads and tails of the operations of `index`, in ticks: those of the task graph, as if devices were never busy.

    `durations` are theirs, by number. `index` has F alone, F and B, or F, I and W.
    """

    def __init__(self, problem: Problem, index: OpIndex, durations: Sequence[int]) -> None:
        self.index, self.durations, self.step = index, durations, step_ends(problem)
        self.there, self.back = problem.unit_ticks.hops, problem.unit_ticks.hops_back
        self._firsts = range(0, index.units, index.slices)

    def heads(self) -> list[int]:
        """Return the earliest start of each operation."""
        ready, last = [0] * self.index.units, self.index.stages - 1
        starts: dict[tuple[str, int], Times] = {}
        for stage in range(last + 1):
            starts["F", stage] = self._after_slices("F", stage, _no_less(ready, self.step.released[stage]))
            ready = self._sent(starts["F", stage], "F", stage, self.there[stage] if stage < last else None)
        for kind in self._gradients:
            for stage in range(last, -1, -1):
                starts[kind, stage] = self._after_slices(kind, stage, ready)
                ready = self._sent(starts[kind, stage], kind, stage, self.back[stage - 1] if stage else None)
                if "W" in self.index.letters:
                    starts["W", stage] = self._sent(starts[kind, stage], kind, stage, None)
        return self.index.spread(lambda kind, stage: starts[kind, stage])

    def tails(self) -> list[int]:
        """Return what must pass between the end of each operation and the end of the schedule."""
        nothing, last = [0] * self.index.units, self.index.stages - 1
        after = {("W", stage): _no_less(nothing, self.step.behind_last[stage]) for stage in range(last + 1)}
        behind = nothing
        for kind in self._gradients:
            for stage in range(last + 1):
                behind = _no_less(behind, self.step.behind_gradient[stage])
                if "W" in self.index.letters:
                    behind = [*map(max, behind, self._sent(after["W", stage], "W", stage, None))]
                else:
                    behind = _no_less(behind, self.step.behind_last[stage])
                after[kind, stage] = self._before_slices(kind, stage, behind)
                behind = self._sent(after[kind, stage], kind, stage, self.back[stage] if stage < last else None)
        for stage in range(last, -1, -1):
            after["F", stage] = self._before_slices("F", stage, behind)
            behind = self._sent(after["F", stage], "F", stage, self.there[stage - 1] if stage else None)
        return self.index.spread(lambda kind, stage: after[kind, stage])

    @property
    def _gradients(self) -> list[str]:
        return self.index.gradients

    def _lasts(self, kind: str, stage: int) -> Sequence[int]:
        row = self.index.row(kind, stage)
        return self.durations[row.start : row.stop]

    def _sent(self, times: Times, kind: str, stage: int, hops: Sequence[int] | None) -> Times:
        """Return times behind the operations of a row, with the latencies of a boundary."""
        look()
        ends = map(add, times, self._lasts(kind, stage))
        return [*ends] if hops is None else [*map(add, ends, hops)]

    def _after_slices(self, kind: str, stage: int, ready: Times) -> Times:
        """Return the starts of a row that is `ready`, behind the slices that come before (of backwards later ones)."""
        step = 1 if kind == "F" else -1
        return self._one_by_one(kind, stage, ready, step)

    def _before_slices(self, kind: str, stage: int, behind: Times) -> Times:
        """Return the tails of a row with `behind` after it, before the slices that follow."""
        step = -1 if kind == "F" else 1
        return self._one_by_one(kind, stage, behind, step)

    def _one_by_one(self, kind: str, stage: int, times: Times, step: int) -> Times:
        """Return the times of a row, each no less than that of the slice before it (by `step`) and what that lasts."""
        count, lasts = self.index.slices, self._lasts(kind, stage)
        if count == 1:
            return times
        times = [*times]
        for first in self._firsts:
            units = range(first, first + count)[::step]
            before = units[0]
            for unit in units[1:]:
                earliest = times[before] + lasts[before]
                if times[unit] < earliest:
                    times[unit] = earliest
                before = unit
        return times


def _no_less(times: Times, least: int) -> Times:
    """Return times of which none is less than `least`."""
    return [max(time, least) for time in times] if least else times

"""The longest ways to and from the operations of units, as if devices were never busy: whole tables at once."""

from __future__ import annotations

from typing import NamedTuple

from pipesched.core.arrays import Ints, column, np
from pipesched.core.clock import look
from pipesched.pipeline.step_ends import StepEnds


class UnitWays(NamedTuple):
    """The passes of some units, of which heads and tails are those of the task graph.

    `lasts` are their ticks by kind, stage and unit: of F alone, F and B, or F, I and W. `there` and `back` are the
    latencies of boundaries by unit, `slices` of which make a microbatch.
    """

    lasts: Ints
    there: Ints
    back: Ints
    slices: int
    step: StepEnds

    def heads(self) -> Ints:
        """Return the earliest start of each operation."""
        forward, *backward = self.lasts
        starts = [self._behind(self._least(self.step.released), forward, self.there)]
        if backward:
            least = np.zeros_like(forward)
            least[-1] = starts[0][-1] + forward[-1]
            starts.append(self._ahead(least, backward[0], self.back))
        if len(backward) > 1:
            starts.append(starts[1] + backward[0])
        return np.stack(starts)

    def tails(self) -> Ints:
        """Return what must pass between the end of each operation and the end of the schedule."""
        forward, *backward = self.lasts
        least, after = np.zeros_like(forward), []
        if backward:
            behind = last = self._least(self.step.behind_last)
            if len(backward) > 1:
                behind, after = last + backward[1], [last]
            behind = np.maximum(behind, self._least(self.step.behind_gradient))
            after.insert(0, self._behind(behind, backward[0], self.back))
            least[-1] = after[0][-1] + backward[0][-1]
        return np.stack([self._ahead(least, forward, self.there), *after])

    def paths(self) -> Ints:
        """Return the ticks from the start of F to the end of B or I, by stage and unit.

        The way leads through the later slices on the same stage, and those of the last one on the stages behind.
        """
        both = self._by_microbatch(self.lasts[0] + self.lasts[1])
        last = both[:, :, -1].copy()
        last[:-1] += self._by_microbatch(self.there + self.back)[:, :, -1]
        ways = both.copy()
        ways[:, :, -1] = last[::-1].cumsum(axis=0)[::-1]
        found: Ints = ways[:, :, ::-1].cumsum(axis=2)[:, :, ::-1].reshape(self.lasts[0].shape)
        return found

    def _least(self, ticks: object) -> Ints:
        """Return ticks of stages as a table."""
        table: Ints = np.zeros_like(self.lasts[0]) + column(ticks)[:, None]  # type: ignore[arg-type]
        return table

    def _by_microbatch(self, table: Ints) -> Ints:
        stages, units = table.shape
        parts: Ints = table.reshape(stages, units // self.slices, self.slices)
        return parts

    def _ahead(self, least: Ints, lasts: Ints, hops: Ints) -> Ints:
        """Return `_behind` from the last stage to the first one, and from the last slice to the first one."""
        found: Ints = self._behind(*(table[::-1, ::-1] for table in (least, lasts, hops)))[::-1, ::-1]
        return found

    def _behind(self, least: Ints, lasts: Ints, hops: Ints) -> Ints:
        """Return times of which none is less than `least`, nor than what ends the stage or the slice before.

        From a stage to the next one `hops` come between.
        """
        times, lasts = (self._by_microbatch(table) for table in (least.copy(), lasts))
        sums = np.zeros_like(times)
        np.cumsum(lasts[:-1] + self._by_microbatch(hops), axis=0, out=sums[1:])
        for part in range(self.slices):
            look()
            if part:
                times[:, :, part] = np.maximum(times[:, :, part], times[:, :, part - 1] + lasts[:, :, part - 1])
            own, until = times[:, :, part], sums[:, :, part]
            times[:, :, part] = np.maximum.accumulate(own - until, axis=0) + until
        found: Ints = times.reshape(least.shape)
        return found

"""What bounds count of a problem whose microbatches differ, are cut into slices, or only run forwards: all units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, compress, product
from math import gcd
from operator import sub

from pipesched.core.bounds import Job, JobColumns
from pipesched.pipeline.feeding import differs
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.one_for_all import OneForAll, joined
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.residences import held
from pipesched.pipeline.stays import DeviceStays, StayChunk
from pipesched.pipeline.unit_ways import UnitWays
from pipesched.pipeline.units import FORWARD_ONLY

MOST_CHUNKS = 100  # of a device: bounds by stays look at each with each


class EachForItself(OneForAll):
    """The operations of all units of a problem.

    Where microbatches that go one way are alike, the slices of the first stand for those of `alike` microbatches.
    """

    def _index(self, kinds: str) -> OpIndex:
        problem = self.problem
        ways = problem.directions(problem.microbatches)
        self.ways = [way for way in ways for _ in range(len(way.microbatches) * problem.slices.count)]
        self.alike = 1 if len(ways) > 1 or differs(problem) else problem.microbatches
        return OpIndex(kinds, problem.stages, problem.microbatches, problem.slices.count)

    @cached_property
    def durations(self) -> Sequence[int]:
        lasts = self.problem.unit_ticks.lasts
        return self.index.spread(lambda kind, stage: lasts[KINDS[kind].cost][stage])

    @property
    def quantum(self) -> int:
        ticks = self.problem.unit_ticks
        rows = {id(row): row for row in chain(ticks.hops, ticks.hops_back, *ticks.lasts.values())}
        return gcd(*(gcd(*row[: self._units]) for row in rows.values()), *self._step_costs()) or 1

    @property
    def _units(self) -> int:
        """How many units are looked at, the first ones."""
        return self.index.units // self.alike

    def _by_unit(self, key: str) -> list[Sequence[int]]:
        return [*zip(*self.problem.unit_ticks.lasts[key], strict=True)]

    @cached_property
    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        before, after = self._ends_of_some
        return self._of_all(before), self._of_all(after)

    def _of_all(self, ends: list[int]) -> list[int]:
        """Return the values of all units, from those of the units that are looked at."""
        if self.alike == 1:
            return ends
        count = self._units
        return [*chain.from_iterable(ends[at : at + count] * self.alike for at in range(0, len(ends), count))]

    @cached_property
    def _ends_of_some(self) -> tuple[list[int], list[int]]:
        """The heads and the tails of the units that are looked at."""
        index = self.index._replace(microbatches=self.index.microbatches // self.alike)
        ways = UnitWays(self.problem, index, index.spread(self._row))
        return ways.heads(), ways.tails()

    def jobs(self) -> Sequence[JobColumns]:
        """Return for each device its operations with heads and tails."""
        columns: list[tuple[list[int], list[int], list[int]]] = [([], [], []) for _ in range(self.problem.devices)]
        (before, after), count = self._ends_of_some, self._units
        ways = self.problem.directions(self.problem.microbatches // self.alike)
        for number, (kind, stage) in enumerate(product(self.index.letters, range(self.index.stages))):
            work, own = self._row(kind, stage, self.work), slice(number * count, (number + 1) * count)
            for way in ways:
                part = self.index.in_units(way.microbatches)
                mine = columns[way.devices[stage]]
                mine[0].extend(before[own][part])
                mine[1].extend(work[part] if self.alike == 1 else [time * self.alike for time in work[part]])
                mine[2].extend(after[own][part])
        for columns_of_one, more in zip(columns, self.step.slots, strict=True):
            for column, values in zip(columns_of_one, zip(*more, strict=True), strict=False):
                column.extend(values)
        return [JobColumns(*mine) for mine in columns]

    def _work_of(self, stage: int) -> int:
        return sum(self.work[number] for kind in self.index.letters for number in self.index.row(kind, stage))

    def stretch(self, jobs: Sequence[Job]) -> Job:
        """Return the least head, all work and the least tail, with or without what nothing follows: the larger sum."""
        if not isinstance(jobs, JobColumns):
            return super().stretch(jobs)
        columns = (jobs.heads, jobs.works, jobs.tails)
        parts = [columns, tuple([*compress(column, jobs.tails)] for column in columns)]
        stretches = (Job(min(heads), sum(works), min(tails)) for heads, works, tails in parts if works)
        return max(stretches, key=sum)

    @property
    def among_others(self) -> int:
        """What the longest way of a unit takes, with what every other unit adds to it.

        Two units that go the same way run the same operations on the same devices. Another unit is ahead of this one
        at its first operation, or behind it at its last one, or overtakes it between two. In each case some operation
        of it runs before, after or between those of this one, and takes its time from the same device as all others
        that do so there. So each adds its shortest operation, and the latencies are the least of all units.
        """
        if self.paired and self.problem.ticks.overlap is not None:
            return 0
        stages, ticks, best = range(self.index.stages), self.problem.unit_ticks, 0
        rows = [self._row(kind, stage) for kind in ("F", *self.index.gradients) for stage in stages]
        hops = [row[: self._units] for row in (*ticks.hops, *(ticks.hops_back if self.index.gradients else ()))]
        shortest = [*map(min, *rows)] if len(rows) > 1 else rows[0]
        longest = [*map(sub, map(sum, zip(*rows, strict=True)), shortest)]
        ways = [way.devices for way in self.ways[: self._units]]
        for devices in {*ways}:
            here = [way == devices for way in ways]
            latencies = sum(min(compress(row, here)) for row in hops)
            least = sum(compress(shortest, here)) * self.alike
            best = max(best, max(compress(longest, here)) + least + latencies)
        return best

    def windows(self, *, alone: bool = False) -> list[DeviceStays]:
        return [] if self.problem.mode == FORWARD_ONLY else super().windows(alone=alone)

    def _chunks(self, device: int) -> Iterable[StayChunk]:
        """Yield the activations on a device, equal ones together; the least of each stage where that is too many.

        Numbers of what is recomputed or offloaded are about whole stages.
        """
        by_stage: list[list[StayChunk]] = []
        for stage in self.placement.stages_on(device):
            units = [unit for unit, way in enumerate(self.ways[: self._units]) if way.devices[stage] == device]
            by_stage.append(
                [self._chunk(stage, unit, self.paths[stage][unit], held(self.problem, stage, unit)) for unit in units]
            )
        counts = Counter(chain(*by_stage))
        if len(counts) <= MOST_CHUNKS and not any(self.allowed):
            return [chunk._replace(microbatches=count * self.alike) for chunk, count in counts.items()]
        return [joined(chunks)._replace(microbatches=len(chunks) * self.alike) for chunks in by_stage if chunks]

    def _savings(self, stage: int, number: int) -> tuple[int, int, int]:
        lasts = self.problem.unit_ticks.lasts
        recompute, offload, reload = (
            lasts[key][stage][number] if key in lasts else 0 for key in ("recompute", "offload", "reload")
        )
        return recompute, offload, reload

    @cached_property
    def paths(self) -> list[list[int]]:
        """The ticks from the start of F to the end of B or I of each unit, by stage.

        The way leads through the later slices on the same stage, and those of the last one on the stages behind.
        """
        index, ticks, count = self.index, self.problem.unit_ticks, self.index.slices
        rows: list[list[int]] = []
        beyond = [0] * self._units
        for stage in reversed(range(index.stages)):
            ahead, back = (self._row(kind, stage) for kind in ("F", index.gradient))
            if stage + 1 < index.stages:
                hops = (row[stage][: self._units] for row in (ticks.hops, ticks.hops_back))
                beyond = [way + there + home for way, there, home in zip(rows[-1], *hops, strict=True)]
            row = [one + way + other for one, way, other in zip(ahead, beyond, back, strict=True)]
            for unit in reversed(range(self._units)):
                if unit % count < count - 1:
                    row[unit] = ahead[unit] + row[unit + 1] + back[unit]
            rows.append(row)
        return rows[::-1]

    def _row(self, kind: str, stage: int, lasts: Sequence[int] | None = None) -> Sequence[int]:
        """Return how long the operations of a row last on ways, or by other durations: of units that are looked at."""
        first = self.index.row(kind, stage).start
        return (self.path if lasts is None else lasts)[first : first + self._units]

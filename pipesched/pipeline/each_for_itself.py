"""What bounds count of a problem whose microbatches differ, are cut into slices, or only run forwards: all units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

from pipesched.core.bounds import Job
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.one_for_all import OneForAll, joined
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.residences import held
from pipesched.pipeline.stays import DeviceStays, StayChunk
from pipesched.pipeline.unit_ways import UnitWays
from pipesched.pipeline.units import FORWARD_ONLY

MOST_CHUNKS = 100  # of a device: bounds by stays look at each with each


class EachForItself(OneForAll):
    """The operations of all units of a problem."""

    def _index(self, kinds: str) -> OpIndex:
        problem = self.problem
        ways = problem.directions(problem.microbatches)
        self.ways = [way for way in ways for _ in range(len(way.microbatches) * problem.slices.count)]
        return OpIndex(kinds, problem.stages, problem.microbatches, problem.slices.count)

    @cached_property
    def durations(self) -> Sequence[int]:
        lasts = self.problem.unit_ticks.lasts
        return self.index.spread(lambda kind, stage: lasts[KINDS[kind].cost][stage])

    def _other_costs(self) -> Iterator[int]:
        ticks = self.problem.unit_ticks
        rows = {id(row): row for row in chain(ticks.hops, ticks.hops_back, *ticks.lasts.values())}
        yield from chain(*rows.values())

    def _by_unit(self, key: str) -> list[Sequence[int]]:
        return [*zip(*self.problem.unit_ticks.lasts[key], strict=True)]

    @cached_property
    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        ways = UnitWays(self.problem, self.index, self.path)
        return ways.heads(), ways.tails()

    def jobs(self) -> list[list[Job]]:
        """Return for each device its operations with heads and tails."""
        jobs: list[list[Job]] = [[] for _ in range(self.problem.devices)]
        before, after = self.ends
        for kind in self.index.letters:
            for stage, row in enumerate(self.index.rows(kind)):
                for way in self.problem.directions(self.problem.microbatches):
                    part = row[self.index.in_units(way.microbatches)]
                    columns = (column[part.start : part.stop] for column in (before, self.work, after))
                    jobs[way.devices[stage]] += map(Job._make, zip(*columns, strict=True))
        return jobs

    def stretch(self, jobs: Sequence[Job]) -> Job:
        """Return the least head, all work and the least tail, with or without what nothing follows: the larger sum."""
        parts = [jobs, [job for job in jobs if job.tail]]
        return max((_stretch(part) for part in parts if part), key=sum)

    @property
    def among_others(self) -> int:
        """What the longest way of a unit takes, with what every other unit adds to it.

        Two units that go the same way run the same operations on the same devices. Another unit is ahead of this one
        at its first operation, or behind it at its last one, or falls back between two of them. In each case some
        operation of it runs before, after or between those of this one, and takes its time from the same device as
        all others that do so there. So each adds its shortest operation, and the latencies are the least of all units.
        """
        if self.paired and self.problem.ticks.overlap is not None:
            return 0
        stages, ticks, best = range(self.index.stages), self.problem.unit_ticks, 0
        rows = [self._row("F", stage) for stage in stages]
        rows += [self._row(kind, stage) for kind in self.index.gradients for stage in reversed(stages)]
        hops = [*ticks.hops, *(ticks.hops_back if self.index.gradients else ())]
        operations, latencies = [*zip(*rows, strict=True)], [*zip(*hops, strict=True)] or [()] * self.index.units
        for devices in {way.devices for way in self.ways}:
            units = [unit for unit, way in enumerate(self.ways) if way.devices == devices]
            least = sum(min(operations[unit]) for unit in units)
            longest = max(sum(operations[unit]) - min(operations[unit]) for unit in units)
            best = max(best, longest + least + sum(map(min, zip(*(latencies[unit] for unit in units), strict=True))))
        return best

    def windows(self, *, alone: bool = False) -> list[DeviceStays]:
        return [] if self.problem.mode == FORWARD_ONLY else super().windows(alone=alone)

    def _chunks(self, device: int) -> Iterable[StayChunk]:
        """Yield the activations on a device, equal ones together; the least of each stage where that is too many.

        Numbers of what is recomputed or offloaded are about whole stages.
        """
        by_stage: list[list[StayChunk]] = []
        for stage in self.placement.stages_on(device):
            units = [unit for unit, way in enumerate(self.ways) if way.devices[stage] == device]
            by_stage.append(
                [self._chunk(stage, unit, self._paths[stage][unit], held(self.problem, stage, unit)) for unit in units]
            )
        counts = Counter(chain(*by_stage))
        if len(counts) <= MOST_CHUNKS and not any(self.allowed):
            return [chunk._replace(microbatches=count) for chunk, count in counts.items()]
        return [joined(chunks)._replace(microbatches=len(chunks)) for chunks in by_stage if chunks]

    def _savings(self, stage: int, number: int) -> tuple[int, int, int]:
        lasts = self.problem.unit_ticks.lasts
        recompute, offload, reload = (
            lasts[key][stage][number] if key in lasts else 0 for key in ("recompute", "offload", "reload")
        )
        return recompute, offload, reload

    @cached_property
    def _paths(self) -> list[list[int]]:
        """The ticks from the start of F to the end of B or I of each unit, by stage.

        The way leads through the later slices on the same stage, and those of the last one on the stages behind.
        """
        index, ticks, count = self.index, self.problem.unit_ticks, self.index.slices
        rows: list[list[int]] = []
        beyond = [0] * index.units
        for stage in reversed(range(index.stages)):
            ahead, back = (self._row(kind, stage) for kind in ("F", index.gradient))
            if stage + 1 < index.stages:
                hops = zip(ticks.hops[stage], ticks.hops_back[stage], strict=True)
                beyond = [way + there + home for way, (there, home) in zip(rows[-1], hops, strict=True)]
            row = [one + way + other for one, way, other in zip(ahead, beyond, back, strict=True)]
            for unit in reversed(range(index.units)):
                if unit % count < count - 1:
                    row[unit] = ahead[unit] + row[unit + 1] + back[unit]
            rows.append(row)
        return rows[::-1]

    def _row(self, kind: str, stage: int) -> Sequence[int]:
        row = self.index.row(kind, stage)
        return self.path[row.start : row.stop]


def _stretch(jobs: Sequence[Job]) -> Job:
    return Job(min(job.head for job in jobs), sum(job.work for job in jobs), min(job.tail for job in jobs))

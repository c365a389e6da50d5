"""What bounds count of a problem whose microbatches are alike: the operations of one, which stands for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import gcd

from pipesched.checks import shown
from pipesched.core.bounds import Job, longest_stretch
from pipesched.core.paths import heads, longest_path, tails
from pipesched.pipeline.kinds import Allowed, computation_letters
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, in_units, plain, rounded
from pipesched.pipeline.residences import Held, held
from pipesched.pipeline.stays import DeviceStays, StayChunk
from pipesched.pipeline.step_ends import step_ends, step_times
from pipesched.pipeline.step_jobs import StagePasses, StepJobs
from pipesched.pipeline.units import FORWARD_ONLY


class OneForAll:
    """The operations of one microbatch of each direction of a problem, for schedules of the kinds `letters`.

    `durations` are theirs in ticks, by the numbers of `index`; `work` is what each counts at least on its device,
    `path` what it lasts at least on the way of others. `ways` are the directions of these microbatches.
    """

    def __init__(self, problem: Problem, letters: str, *, paired: bool) -> None:
        self.allowed, self.paired = Allowed.of(letters), paired
        if not problem.has_units:  # equal microbatches: which of them go the second way changes nothing
            problem = replace(problem, placement=problem.settled_placement.by_number)
        self.problem, self.placement = problem, problem.settled_placement
        self._has_whole = "B" in letters
        # A full B among split ones is I and W without a pause, so a bound for I and W holds for it too.
        self.index = self._index("F" if problem.mode == FORWARD_ONLY else computation_letters("I" in letters))
        self.work = self.path = self.durations
        if "B" in letters and "I" in letters:
            self.work = self.path = self._no_longer_than_whole()
        if paired and problem.ticks.overlap is not None:
            self.work, self.path = self._shortened_by_pairs()

    def _index(self, kinds: str) -> OpIndex:
        self.ways = self.problem.directions(self.problem.microbatches)
        index = OpIndex(kinds, self.problem.stages, len(self.ways))
        self._graph = lower(self._of_one(len(self.ways)), index)
        return index

    def _of_one(self, microbatches: int) -> Problem:
        """Return the problem with so many microbatches, on the same scale, without side work, which counts apart."""
        problem = self.problem
        if problem.side:
            costs = replace(problem.costs, resolution=problem.ticks.per_unit)
            problem = replace(problem, side=(), costs=costs)
        return replace(problem, microbatches=microbatches)

    @property
    def durations(self) -> Sequence[int]:
        """What the operations last."""
        return self._graph.durations

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all costs that occur, in ticks (1 when nothing takes time)."""
        return gcd(*self.durations, *self._other_costs(), *self._step_costs()) or 1

    def _step_costs(self) -> Iterable[int]:
        return step_times(self.problem) if self.problem.has_step else ()

    def _other_costs(self) -> Iterator[int]:
        yield from self._graph.edges.lag.tolist()
        for *_, ticks in self.ways:
            yield from ticks.recompute if self.allowed.recompute else ()
            yield from (*(ticks.offload or ()), *(ticks.reload or ())) if self.allowed.offload else ()
            yield from (*(ticks.overlap or ()), *ticks.backward)

    def _no_longer_than_whole(self) -> list[int]:
        """Return durations in which I and W are no longer than B, which is rounded once where a speed divides it."""
        durations = [*self.durations]
        for stage, (number, whole) in product(range(self.index.stages), enumerate(self._by_unit("backward"))):
            rest = whole[stage] - durations[self.index.row("I", stage)[number]]
            weight = self.index.row("W", stage)[number]
            durations[weight] = min(durations[weight], rest)
        return durations

    def _shortened_by_pairs(self) -> tuple[list[int], list[int]]:
        """Return durations that hold in pairs too, for work and for paths.

        A backward counts at most the shortest pair, a forward's work what its pair lasts beyond the longest backward,
        so the two never count more than their pair.
        """
        longest, pairs = max(map(max, self._by_unit("backward"))), self._by_unit("overlap")
        shortest = min(map(min, pairs))
        work, path = list(self.work), list(self.path)
        for number, lasts in enumerate(pairs):
            for stage, pair in enumerate(lasts):
                forward = self.index.row("F", stage)[number]
                path[forward] = min(path[forward], pair)
                work[forward] = max(0, min(work[forward], pair - longest))
                left = shortest
                for kind in self.index.letters.replace("F", ""):
                    backward = self.index.row(kind, stage)[number]
                    path[backward] = work[backward] = min(path[backward], left)
                    left -= path[backward]
        return work, path

    def _by_unit(self, key: str) -> list[Sequence[int]]:
        """Return what the full backward or a pair lasts, by stage, of each microbatch that has operations here."""
        return [getattr(way.ticks, key) for way in self.ways]

    def in_words(self, device: int, stretch: Job) -> str:
        """Return the bound by the work of a device in words: what comes before its work, the work, what follows."""
        scale = self.problem.ticks.per_unit
        head, work, tail = (shown(self._in_units(ticks, scale)) for ticks in stretch)
        parts = [f"work {work}"]
        if stretch[0]:
            parts.insert(0, f"first input after {head}")
        if stretch[2]:
            end = "last forward ends" if self.problem.mode == FORWARD_ONLY else "last gradient is home"
            parts.append(f"then {tail} until the {'step ends' if self.problem.has_step else end}")
        return f"device {device}: {', '.join(parts)}"

    def _in_units(self, ticks: int, scale: int) -> int | float:
        """Return ticks as users read them: what was divided by a speed with as many digits as a duration has."""
        if self.problem.speed is None:
            return in_units(ticks, scale)
        return plain(canonical(rounded(Fraction(ticks, scale))))

    @cached_property
    def ends(self) -> tuple[Sequence[int], Sequence[int]]:
        """The heads and the tails of the operations, in ticks; a step's gathers, reductions .. lengthen them."""
        graph = self._graph.changed(durations=self.path)
        if not self.problem.has_step:
            return heads(graph), tails(graph)
        step, index = step_ends(self.problem), self.index
        releases, ends = [0] * index.size, [0] * index.size
        for stage in range(index.stages):
            for number in index.row("F", stage):
                releases[number] = step.released[stage]
            for kind, after in ((index.gradient, step.behind_gradient), (index.last, step.behind_last)):
                for number in index.row(kind, stage):
                    ends[number] = max(ends[number], after[stage])
        return heads(graph, releases), tails(graph, ends)

    @property
    def longest(self) -> int:
        """The longest chain of operations of a microbatch, in ticks."""
        return max(map(sum, zip(*self.ends, self.path, strict=True)))

    def jobs(self) -> Sequence[Sequence[Job]]:
        """Return for each device its operations with heads and tails; one stands for those of all microbatches."""
        jobs: list[list[Job]] = [[] for _ in range(self.problem.devices)]
        for number, (head, time, tail) in enumerate(zip(self.ends[0], self.work, self.ends[1], strict=True)):
            way = self.ways[self.index.owner_of(number)]
            work = len(way.microbatches) * time
            jobs[way.devices[self.index.stage_of(number)]].append(Job(head, work, tail))
        return [[*mine, *more] for mine, more in zip(jobs, self.step.slots, strict=True)]

    @cached_property
    def step(self) -> StepJobs:
        """The work of the step beside the passes."""
        passes = [self._passes(stage) for stage in range(self.index.stages)] if self.problem.has_step else []
        return StepJobs(self.problem, passes)

    def _passes(self, stage: int) -> StagePasses:
        """Return what the step needs to know of the passes of a stage."""
        index, (before, after), path = self.index, self.ends, self.path
        forwards, lasts = index.row("F", stage), index.row(index.letters[-1], stage)
        gradients = index.row(index.gradient, stage) if index.gradients else forwards
        beyond = [path[number] + after[number] for number in forwards]
        return StagePasses(
            head=min(before[number] for number in forwards),
            work=self._work_of(stage),
            first_end=min(before[number] + path[number] for number in lasts),
            tail=min(after[number] for number in lasts),
            after_first=max(beyond),
            gradient=min(before[number] + path[number] for number in gradients),
            before_use=min(beyond),
        )

    def _work_of(self, stage: int) -> int:
        """Return what all passes of a stage take on its device, at least."""
        rows = [self.index.row(kind, stage) for kind in self.index.letters]
        return sum(
            len(way.microbatches) * self.work[row[number]] for row in rows for number, way in enumerate(self.ways)
        )

    @property
    def among_others(self) -> int:
        """What the longest way of a unit takes, with what every other unit adds to it; 0 where that is not told."""
        return 0

    def stretch(self, jobs: Sequence[Job]) -> Job:
        """Return the head, the work and the tail of which the best bound by the work of a device is the sum."""
        return longest_stretch(jobs)

    def windows(self, *, alone: bool = False) -> list[DeviceStays]:
        """Return what each device with a limit may keep, offload and recompute."""
        return [
            DeviceStays(device, tuple(self._chunks(device)), limit, self.allowed, alone, self.paired)
            for device, limit in enumerate(self.problem.capacity_grains)
            if limit
        ]

    def _chunks(self, device: int) -> Iterable[StayChunk]:
        """Yield the stages of a device, with the least times that they take."""
        graph, index = self._graph.changed(durations=self.path), self.index
        for stage in self.placement.stages_on(device):
            own = [number for number, way in enumerate(self.ways) if way.devices[stage] == device]
            chunks = []
            for number in own or [0]:
                path = longest_path(graph, index.row("F", stage)[number], index.row(index.gradient, stage)[number])
                chunks.append(self._chunk(stage, number, path, held(self.problem, stage, 0)))
            yield joined(chunks)._replace(microbatches=sum(len(self.ways[number].microbatches) for number in own))

    def _chunk(self, stage: int, number: int, path: int, sizes: Held) -> StayChunk:
        """Return what one of the microbatches that have operations here takes on a stage."""
        before, after = self.ends
        forward, gradient, last = (
            self.index.row(kind, stage)[number] for kind in ("F", self.index.gradient, self.index.last)
        )
        is_split = last != gradient
        retained = sizes.retained if is_split else 0
        if self._has_whole:  # a full B catches no gradients, and holds no more than the activation to its end
            retained = min(retained, sizes.activation)
        recompute, offload, reload = self._savings(stage, number)
        return StayChunk(
            stage=stage,
            microbatches=1,
            head=before[forward],
            tail=after[gradient],
            last_tail=after[last],
            path=path,
            forward=self.path[forward],
            gradient=self.path[gradient],
            weight=self.path[last] if is_split else 0,
            recompute=recompute,
            offload=offload,
            reload=reload,
            size=sizes.activation,
            checkpointed=sizes.checkpointed,
            retained=retained,
            largest=max(sizes.activation, retained),
        )

    def _savings(self, stage: int, number: int) -> tuple[int, int, int]:
        """Return what R, O and L last."""
        nothing, ticks = (0,) * self.problem.stages, self.ways[number].ticks
        return ticks.recompute[stage], (ticks.offload or nothing)[stage], (ticks.reload or nothing)[stage]


def joined(chunks: Sequence[StayChunk]) -> StayChunk:
    """Return the least of chunks of the same stage in everything but `largest`."""
    least = StayChunk(*map(min, zip(*chunks, strict=True)))
    return least._replace(largest=max(chunk.largest for chunk in chunks))

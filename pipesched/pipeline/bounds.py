"""Lower bounds on the makespan of a problem, for its placement and for the way a plan splits the backward.

Where all microbatches are alike, and without memory in the way, the paths of one microbatch give the heads and tails of
all, and each operation of it stands for M jobs of equal head and tail. Where they differ each stands for itself, and no
bound counts a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from math import gcd

from pipesched.checks import require_label, require_whole, shown
from pipesched.core.bounds import Job, critical_path, jackson_preemptive, longest_stretch
from pipesched.core.integers import round_up
from pipesched.core.paths import heads, longest_path, tails
from pipesched.core.tasks import TaskGraph
from pipesched.display import Displayable
from pipesched.pipeline.kinds import Allowed, computation_letters
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import canonical, in_units, plain, rounded
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.shortest_stays import sharing_lanes, shortest
from pipesched.pipeline.stays import DeviceStays, StayChunk
from pipesched.pipeline.units import FORWARD_ONLY


@dataclass(frozen=True)
class Bound(Displayable):
    """A lower bound: no schedule is shorter than `ticks`, of which `per_unit` are one of the user's time units.

    `reason` says which bound it is, and for which device.
    """

    ticks: int
    reason: str
    per_unit: int = 1

    def __post_init__(self) -> None:
        require_whole(self.ticks, "ticks")
        require_label(self.reason, "reason")
        require_whole(self.per_unit, "per_unit", least=1)

    def __repr__(self) -> str:
        return f"Bound({self.value}, {self.reason!r})"

    @property
    def value(self) -> int | float:
        """The bound in the user's time unit."""
        return in_units(self.ticks, self.per_unit)

    def rounded_up(self, quantum: int) -> Bound:
        """Return the same bound, raised to a multiple of `quantum` ticks."""
        return replace(self, ticks=round_up(self.ticks, quantum))


def highest(bounds: Iterator[Bound], quantum: int) -> Bound:
    """Return the largest of the bounds, rounded up to a multiple of `quantum` ticks."""
    return max(bounds, key=lambda bound: bound.ticks).rounded_up(quantum)


def lower_bound(schedule: Schedule) -> Bound:
    """Return the best bound on the makespan that applies to `schedule`.

    It holds for the placement and the kinds of operations of the schedule. Bounds that count the budget apply only to a
    schedule that fits it. Every makespan is a sum of costs, so the bound is rounded up to a multiple of their greatest
    common divisor. Where operations have lengths of their own, it is one for those lengths.
    """
    if schedule.own_lengths:
        return replace(highest(_own_bounds(schedule), 1), per_unit=schedule.problem.ticks.per_unit)
    single = _Single(schedule.problem, schedule.plan.index.letters, paired=bool(schedule.plan.pairs))
    best = highest(_bounds(single, within_budget=schedule.fits), single.quantum)
    return replace(best, per_unit=schedule.problem.ticks.per_unit)


def _own_bounds(schedule: Schedule) -> Iterator[Bound]:
    """Yield bounds on the makespan of every order in which each operation lasts as long as in this schedule."""
    graph, plan = schedule.graph, schedule.plan
    yield Bound(critical_path(graph), "critical path of one microbatch")
    before, after = heads(graph), tails(graph)
    for device, order in enumerate(plan.orders):
        jobs = [Job(before[task], graph.durations[task], after[task]) for task in order]
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}")


def problem_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield bounds on the makespan of every schedule of these kinds within the budget.

    `paired`: F and B may overlap.
    """
    return _bounds(_Single(problem, letters, paired), within_budget=True)


def work_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield the least work of each device: no span is shorter."""
    for device, jobs in enumerate(_Single(problem, letters, paired).jobs()):
        yield Bound(sum(job.work for job in jobs), f"work of device {device}")


def alone_bounds(problem: Problem, letters: str, *, paired: bool, least: int) -> Iterator[Bound]:
    """Yield bounds on the span by what the budget lets a device keep, offload and recompute.

    `least` ticks are known to be a bound.
    """
    single = _Single(problem, letters, paired)
    return stay_bounds(single.windows(alone=True), problem, least, single.quantum)


def windows(problem: Problem, letters: str, *, alone: bool) -> list[DeviceStays]:
    """Return what each device may keep, offload and recompute, for schedules of these kinds without pairs.

    With `alone` lengths are those of a device's own time (see Window).
    """
    return _Single(problem, letters, paired=False).windows(alone=alone)


def stay_bounds(views: Sequence[DeviceStays], problem: Problem, least: int, quantum: int) -> Iterator[Bound]:
    """Yield bounds above `least` ticks by the stays of activations on each device, in multiples of `quantum`."""
    for group in sharing_lanes(views, problem):
        least, known = shortest(group, least, quantum), least
        if least > known:
            yield Bound(least, _stays_in_words(group))


def _stays_in_words(group: Sequence[DeviceStays]) -> str:
    """Say what bounds a group of devices."""
    names = " and ".join(str(window.device) for window in group)
    what = "residences and lanes" if group[0].allowed.offload else "residences"
    return f"{what} of device{'s' if len(group) > 1 else ''} {names} under the budget"


def _bounds(single: _Single, *, within_budget: bool) -> Iterator[Bound]:
    """Yield every bound; those by stays begin where the others end."""
    best, views = 0, list[DeviceStays]()
    for bound in _simple_bounds(single):
        best = max(best, bound.ticks)
        yield bound
    for window in single.windows() if within_budget else ():
        views.append(window)
        bound = Bound(window.area_bound(), f"memory area of device {window.device}")
        best = max(best, bound.ticks)
        yield bound
    yield from stay_bounds(views, single.problem, best, single.quantum)


def _simple_bounds(single: _Single) -> Iterator[Bound]:
    yield Bound(critical_path(single.path_graph), "critical path of one microbatch")
    for device, jobs in enumerate(single.jobs()):
        stretch = _plain_stretch(jobs) if single.problem.has_units else longest_stretch(jobs)
        yield Bound(sum(stretch), single.in_words(device, stretch))
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}")


def _plain_stretch(jobs: Sequence[Job]) -> Job:
    """Return the least head, all work and the least tail of jobs, which is found in one pass over many of them."""
    return Job(min(job.head for job in jobs), sum(job.work for job in jobs), min(job.tail for job in jobs))


class _Single:
    """One microbatch of each direction of a problem, which stands for all of it: the task graph of its operations.

    Where microbatches differ, all units of the problem, each for itself.
    """

    def __init__(self, problem: Problem, letters: str, paired: bool) -> None:
        self.allowed, self.paired = Allowed.of(letters), paired
        if not problem.has_units:  # equal microbatches: which of them go the second way changes nothing
            problem = replace(problem, placement=problem.settled_placement.by_number)
        self.problem, self.placement = problem, problem.settled_placement
        ways = problem.directions(problem.microbatches)
        units = range(problem.slices.count * problem.microbatches)
        self.ways = ways
        if problem.has_units:
            self.ways = [way for way in ways for _ in units[problem.units.part(way.microbatches)]]
        self._grains = problem.grains
        if "B" in letters:  # a full B catches no gradients, and holds no more than the activation to its end
            retained = tuple(map(min, self._grains.activation, self._grains.retained))
            self._grains = self._grains._replace(retained=retained)
        # A full B among split ones is I and W without a pause, so a bound for I and W holds for it too.
        kinds = "F" if problem.mode == FORWARD_ONLY else computation_letters("I" in letters)
        if problem.has_units:
            self.index = OpIndex(kinds, problem.stages, problem.microbatches, problem.slices.count)
        else:
            problem = replace(problem, microbatches=len(self.ways))
            self.index = OpIndex(kinds, problem.stages, len(self.ways))
        self.work_graph = lower(problem, self.index)
        self.durations = self.work_graph.durations
        if "B" in letters and "I" in letters:
            self.work_graph = replace(self.work_graph, durations=self._no_longer_than_whole())
        self.path_graph = self.work_graph
        if paired and problem.ticks.overlap is not None:
            self.work_graph, self.path_graph = self._shortened_by_pairs()

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all costs that occur, in ticks (1 when nothing takes time)."""
        lags = (edge.lag for edge in self.work_graph.edges)
        others = list[int]()
        if self.problem.has_units:
            return gcd(*self.durations, *lags, *chain(*chain(*self.problem.unit_ticks.lasts.values()))) or 1
        for *_, ticks in self.ways:
            others += ticks.recompute if self.allowed.recompute else ()
            others += (*(ticks.offload or ()), *(ticks.reload or ())) if self.allowed.offload else ()
            others += (*(ticks.overlap or ()), *ticks.backward)
        return gcd(*self.durations, *lags, *others) or 1

    def _no_longer_than_whole(self) -> list[int]:
        """Return durations in which I and W are no longer than B, which is rounded once where a speed divides it."""
        durations = [*self.durations]
        for stage, (number, whole) in product(range(self.index.stages), enumerate(self._by_unit("backward"))):
            rest = whole[stage] - durations[self.index.row("I", stage)[number]]
            weight = self.index.row("W", stage)[number]
            durations[weight] = min(durations[weight], rest)
        return durations

    def _shortened_by_pairs(self) -> tuple[TaskGraph, TaskGraph]:
        """Return the graph with durations that hold in pairs too, for work and for paths.

        A backward counts at most the shortest pair, a forward's work what its pair lasts beyond the longest backward,
        so the two never count more than their pair.
        """
        longest, pairs = max(map(max, self._by_unit("backward"))), self._by_unit("overlap")
        shortest = min(map(min, pairs))
        work, path = list(self.work_graph.durations), list(self.work_graph.durations)
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
        return replace(self.work_graph, durations=work), replace(self.work_graph, durations=path)

    def _by_unit(self, key: str) -> list[Sequence[int]]:
        """Return what the full backward or a pair lasts, by stage, of each microbatch that the graph has."""
        if self.problem.has_units:
            return [*zip(*self.problem.unit_ticks.lasts[key], strict=True)]
        return [getattr(way.ticks, key) for way in self.ways]

    def in_words(self, device: int, stretch: Job) -> str:
        """Return the bound by the work of a device in words: what comes before its work, the work, what follows."""
        scale = self.problem.ticks.per_unit
        head, work, tail = (shown(self._in_units(ticks, scale)) for ticks in stretch)
        parts = [f"work {work}"]
        if stretch[0]:
            parts.insert(0, f"first input after {head}")
        if stretch[2]:
            end = "forward ends" if self.problem.mode == FORWARD_ONLY else "gradient is home"
            parts.append(f"then {tail} until the last {end}")
        return f"device {device}: {', '.join(parts)}"

    def _in_units(self, ticks: int, scale: int) -> int | float:
        """Return ticks as users read them: what was divided by a speed with as many digits as a duration has."""
        if self.problem.speed is None:
            return in_units(ticks, scale)
        return plain(canonical(rounded(Fraction(ticks, scale))))

    def jobs(self) -> list[list[Job]]:
        """Return for each device its operations with heads and tails; one of a stage stands for all microbatches."""
        before, after = heads(self.path_graph), tails(self.path_graph)
        jobs: list[list[Job]] = [[] for _ in range(self.problem.devices)]
        for number, (head, tail) in enumerate(zip(before, after, strict=True)):
            way = self.ways[self.index.owner_of(number)]
            time = (1 if self.problem.has_units else len(way.microbatches)) * self.work_graph.durations[number]
            jobs[way.devices[self.index.stage_of(number)]].append(Job(head, time, tail))
        return jobs

    def windows(self, *, alone: bool = False) -> list[DeviceStays]:
        """Return what each device with a limit may keep, offload and recompute."""
        limits = [] if self.problem.has_units else self.problem.capacity_grains
        return [
            DeviceStays(device, tuple(self._chunks(device)), limit, self.allowed, alone, self.paired)
            for device, limit in enumerate(limits)
            if limit
        ]

    def _chunks(self, device: int) -> Iterator[StayChunk]:
        """Yield the stages of a device, with the least times that they take."""
        graph, index, grains = self.path_graph, self.index, self._grains
        before, after = self._ends
        nothing = (0,) * self.problem.stages
        for stage in self.placement.stages_on(device):
            own = [number for number, way in enumerate(self.ways) if way.devices[stage] == device]
            count = sum(len(self.ways[number].microbatches) for number in own)
            rows = (index.row(kind, stage) for kind in ("F", index.gradient, index.last))
            first, gradients, lasts = ([row[number] for number in own or [0]] for row in rows)
            forward, gradient, last = first[0], gradients[0], lasts[0]
            ticks, is_split = self.ways[own[0] if own else 0].ticks, last != gradient
            yield StayChunk(
                stage=stage,
                microbatches=count,
                head=min(before[task] for task in first),
                tail=min(after[task] for task in gradients),
                last_tail=min(after[task] for task in lasts),
                path=min(longest_path(graph, *ends) for ends in zip(first, gradients, strict=True)),
                forward=graph.durations[forward],
                gradient=graph.durations[gradient],
                weight=graph.durations[last] if is_split else 0,
                recompute=ticks.recompute[stage],
                offload=(ticks.offload or nothing)[stage],
                reload=(ticks.reload or nothing)[stage],
                size=grains.activation[stage],
                checkpointed=grains.checkpointed[stage],
                retained=grains.retained[stage] if is_split else 0,
            )

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        return heads(self.path_graph), tails(self.path_graph)

"""Lower bounds on the makespan of a problem, for its placement and for the way a plan splits the backward.

`lower_bound` is that of a schedule, `problem_bounds` are those of all schedules within the budget. Both ask
`PassBounds` for the jobs of each device: the head of a job must come before it, its tail behind it.

Where all M microbatches are alike, and without memory in the way, the paths of one give the heads and tails of all, and
each operation of it stands for M jobs of equal head and tail. Where they differ each stands for itself. `StepJobs` adds
the work of a step beside its passes: jobs of devices, of network lanes, of any of several devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, product
from math import gcd
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pipesched.checks import require_label, require_whole, shown
from pipesched.core.arrays import Ints, ceil_div, column, in_range, np, once, total
from pipesched.core.bounds import Job, critical_path, head_work_tail, jackson_preemptive, longest_stretch
from pipesched.core.clock import check_deadline
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails
from pipesched.display import Displayable
from pipesched.pipeline.plan.schedule import Schedule
from pipesched.pipeline.plan.step_plan import gathers, reduces, tied_stages
from pipesched.pipeline.problem.kinds import KINDS, MemorySavings
from pipesched.pipeline.problem.problem import Problem, letters_of
from pipesched.pipeline.problem.quantities import in_units, plain, rounded
from pipesched.pipeline.problem.units import FORWARD_ONLY

if TYPE_CHECKING:
    from pipesched.pipeline.bounds.memory import DeviceResidencies


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


def lower_bound(schedule: Schedule) -> Bound:
    """Return the best bound on the makespan that applies to `schedule`.

    It holds for the placement and the kinds of operations of the schedule. Bounds that count the budget apply only to a
    schedule that fits it. Every makespan is a sum of costs, so the bound is rounded up to a multiple of their greatest
    common divisor. Where operations have lengths of their own, it is one for those lengths.
    """
    if schedule.own_lengths:
        graph, count, bounds = schedule.graph, schedule.plan.index.passes, list[Bound]()
        if count < len(graph):  # passes are its first tasks: what a step adds waits as its plan says
            edges = graph.edges.where((graph.edges.before < count) & (graph.edges.after < count))
            graph = TaskGraph(graph.duration[:count], graph.resource[:count], graph.unit_counts, edges)
        before, after = heads(graph), tails(graph)
        for device, order in enumerate(schedule.plan.orders):
            jobs = [Job(before[task], graph.durations[task], after[task]) for task in order if task < count]
            bounds.append(Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}"))
        path = Bound(critical_path(graph), "critical path of one microbatch")
        best = max((path, *bounds), key=attrgetter("ticks"))
        return replace(best, per_unit=schedule.problem.ticks.per_unit)
    single = PassBounds(schedule.problem, schedule.plan.index.letters, paired=bool(schedule.plan.pairs))
    ticks, reason = max(_bounds(single), key=itemgetter(0))
    if schedule.problem.memory.budget is not None and schedule.fits:
        limited = ((bound.ticks, bound.reason) for bound in budget_bounds(single, ticks))
        ticks, reason = max(((ticks, reason), *limited), key=itemgetter(0))
    said, quantum = reason if isinstance(reason, str) else reason(), single.quantum
    return Bound(-(-ticks // quantum) * quantum, said, schedule.problem.ticks.per_unit)


def problem_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield bounds on the makespan of all schedules of these kinds within the budget; `paired`: F and B may overlap."""
    single, best = PassBounds(problem, letters, paired=paired), 0
    for ticks, reason in _bounds(single):
        best = max(best, ticks)
        yield Bound(ticks, reason if isinstance(reason, str) else reason())
    if problem.memory.budget is not None:
        yield from budget_bounds(single, best)


def work_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield the least work of each device: no span is shorter."""
    single = PassBounds(problem, letters, paired=paired)
    for device, jobs in enumerate(single.jobs()):
        yield Bound(total(jobs.works), f"work of device {device}")
    for device, lane in enumerate(single.step.lanes if problem.has_step else ()):
        yield Bound(sum(job.work for job in lane), f"work of the network of device {device}")


def budget_bounds(single: PassBounds, least: int, *, alone: bool = False) -> Iterator[Bound]:
    """Yield bounds by what the budget lets each device keep: areas of memory, then those by stays above `least` ticks.

    The latter are multiples of the quantum. With `alone` they are on the span, and there are none by areas.
    """
    views, quantum = single.windows(alone=alone), single.quantum
    for window in () if alone else views:
        area = Bound(window.area_bound(), f"memory area of device {window.device}")
        least = max(least, area.ticks)
        yield area
    if views:
        from pipesched.pipeline.bounds.memory import shortest
    for window in views:
        least, known = shortest(window, least, quantum), least
        if least > known:
            what = "residences and lanes" if window.allowed.offload else "residences"
            yield Bound(least, f"{what} of device {window.device} under the budget")


Unsaid = tuple[int, str | Callable[[], str]]  # ticks, and the reason or how to say it
MOST_UNLIKE = 8_000  # jobs of a device, for bounds that take longer than its schedule
MOST_SHARED = 1_000  # the same, where devices share side work


def _bounds(single: PassBounds) -> Iterator[Unsaid]:
    """Yield the bounds that count no budget."""
    is_plain, every = single.model.is_plain, [*single.jobs()] if single.problem.has_step else []
    ways = zip(single.heads, single.path, single.tails, strict=True)
    yield max(int((head + path + tail).max()) for head, path, tail in ways), "critical path of one microbatch"
    if not is_plain and not (single.paired and single.model.overlap is not None):
        yield single.among_others(), "the longest way of a microbatch among all others"
    for device, jobs in enumerate(every or single.jobs()):
        stretch = longest_stretch(jobs.listed()) if is_plain else jobs.whole_stretch()
        yield sum(stretch), partial(single.in_words, device, stretch)
        if not is_plain and len(jobs.works) <= MOST_UNLIKE:  # of units that are alike, it is as long
            yield jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}"
    if not single.problem.has_step:
        return
    # by network lanes, and by side work that several devices share: they have all its time at least
    for device, lane in enumerate(single.step.lanes):
        yield jackson_preemptive(lane), f"Jackson's preemptive schedule of the network of device {device}"
    for devices, shared in single.step.groups():
        own = [every[device] for device in devices]
        whole = sum(total(jobs.works) for jobs in own) + sum(job.work for job in shared)
        names = ", ".join(map(str, devices))
        yield ceil_div(whole, len(devices)), f"all work of devices {names}, with the side work that they share"
        if all(len(jobs.works) <= MOST_SHARED for jobs in own):
            length = head_work_tail([*chain(*(jobs.listed() for jobs in own)), *shared], len(devices))
            yield length, f"work of devices {names}, with the side work that they share"


MOST_CELLS = 1 << 16  # of a table at a time, which stay near the processor
MOST_CHUNKS = 100  # of a device: bounds by stays look at each with each


class PassBounds:
    """The operations of the units (microbatches, or slices of them) of a problem, in schedules of the kinds `letters`.

    Of microbatches that are alike and go one way, the units of the first stand for all: `counts` says for how many.
    `work` is what operations count at least on their device, `path` what they last at least on the way of others: by
    kind, stage and unit. A full B among split ones is I and W without a pause, each as short as either way lets it be.
    So a bound for these holds for it too.
    """

    def __init__(self, problem: Problem, letters: str, *, paired: bool) -> None:
        self.problem, self.model, self.allowed, self.paired = problem, problem.model, MemorySavings.of(letters), paired
        self.kinds = letters_of(problem.mode, split="I" in letters)
        self._has_whole = "B" in letters
        units, self.counts = self.model.unlike
        self.units = slice(None) if len(units) == self.model.units else units  # all of them: views of tables
        tables = [self.model.there, self.model.back, *(self.model.ticks[KINDS[kind].cost] for kind in self.kinds)]
        columns = [table[:, self.units] for table in tables]
        # no time is above `most`, by which `in_range` chooses machine words or Python's numbers
        most = sum(map(total, columns)) * int(self.counts.max())
        self.ends, self._step_times = NO_STEP, list[int]()
        if problem.has_step:
            self.ends, self._step_times = step_ends(problem), [*step_times(problem)]
        most += (sum(self._step_times) + self.model.around) * problem.microbatches
        self.there, self.back, *lasts = (in_range(table, most) for table in columns)
        self.path = np.array(lasts)
        if self._has_whole and "I" in letters:  # up to the gradient, and in all, the less of both ways
            whole = self.model.ticks["backward"][:, self.units]
            self.path[1] = np.minimum(self.path[1], whole)
            self.path[2] = np.minimum(self.path[2], whole - self.path[1])
        self.work = self.path
        if paired and self.model.overlap is not None:  # a forward's work is what its pair lasts beyond a backward
            pairs, longest = self.model.overlap[:, self.units], self.model.ticks["backward"][:, self.units].max()
            self.work, left = self.path.copy(), pairs.min()
            self.path[0] = np.minimum(self.path[0], pairs)
            self.work[0] = np.maximum(np.minimum(self.work[0], pairs - longest), 0)
            for kind in range(1, len(self.kinds)):  # B, or I and W: together no longer than the shortest pair
                self.path[kind] = self.work[kind] = np.minimum(self.path[kind], left)
                left = left - self.path[kind]
        slices, (_, stages, count) = self.model.slices, self.path.shape
        self._shape, self._width = (-1, count // slices, slices), MOST_CELLS // (stages * slices) + 1
        self.heads, self.tails = (np.zeros(self.path.shape, self.path.dtype) for _ in range(2))
        # Heads go along the stages with F, then back with B or I: on the last stage these begin once F ends.
        # Tails go the other way: those of B or I begin with what is `behind` their stage, that of F behind these.
        forward, *backward = self.path
        self.heads[0], behind, behind_gradient, *_ = (column(ticks)[:, None] for ticks in self.ends)
        self._raise(self.heads[0], forward, self.there)
        if backward:
            self.heads[1, -1] = self.heads[0, -1] + forward[-1]
            self._raise(self.heads[1], backward[0], self.back, -1)
            if len(backward) > 1:
                np.add(self.heads[1], backward[0], out=self.heads[2])
                self.tails[2], behind = behind, behind + backward[1]
            self.tails[1] = np.maximum(behind, behind_gradient)
            self._raise(self.tails[1], backward[0], self.back)
            self.tails[0, -1] = self.tails[1, -1] + backward[0][-1]
        self._raise(self.tails[0], forward, self.there, -1)
        if self.model.rounds > 1:  # each unit, all of forwards, begins so much later than the first one
            both = forward.sum(axis=0) + self.there.sum(axis=0) + self.model.around
            self.heads[0] += both.cumsum() - both
            self.tails[0] += (both.cumsum() - both)[::-1]

    @property
    def quantum(self) -> int:
        """The greatest common divisor of all costs that occur, in ticks or 1. Bounds are rounded up to it."""
        ticks, overlap = self.model.ticks, self.model.overlap
        costs = {*ticks}
        if self.model.is_plain:
            costs = {KINDS[kind].cost for kind in (*self.kinds, "B", *self.allowed.letters)}
        tables = [self.there, self.back, *(ticks[cost][:, self.units] for cost in costs)]
        tables += [] if overlap is None else [overlap[:, self.units]]
        found = self.model.around if self.model.rounds > 1 else 0
        for table in sorted(tables, key=lambda table: table.dtype == object):
            values = once(table).ravel()  # of which only those that change the divisor are looked at alone
            while len(values := values[values % found != 0] if found else values[values != 0]):
                found = gcd(found, int(values[0]))
        return gcd(found, *self._step_times) or 1

    def in_words(self, device: int, stretch: Job) -> str:
        """Return the bound by the work of a device in words: what comes before its work, the work, what follows."""
        times = [Fraction(ticks, self.problem.ticks.per_unit) for ticks in stretch]
        if self.problem.speed is not None:  # what was divided by a speed has as many digits as a duration
            times = [*map(rounded, times)]
        head, work, tail = (shown(plain(time)) for time in times)
        parts = [f"work {work}"]
        if stretch[0]:
            parts.insert(0, f"first input after {head}")
        if stretch[2]:
            end = "last forward ends" if self.problem.mode == FORWARD_ONLY else "last gradient is home"
            parts.append(f"then {tail} until the {'step ends' if self.problem.has_step else end}")
        return f"device {device}: {', '.join(parts)}"

    def _raise(self, times: Ints, lasts: Ints, hops: Ints, step: int = 1) -> None:
        """Make times[s] no less than times[s-1] + lasts[s-1] + hops[s-1] along stages; along slices without hops.

        As prefix sums: max over stages up to s of (time - sum), plus sum[s]. `step` -1 goes from the last to the first.
        """
        tables = [table[::step, ::step].reshape(self._shape) for table in (times, lasts, hops)]
        for first in range(0, self._shape[1], self._width):
            check_deadline()
            times, lasts, hops = (table[:, first : first + self._width] for table in tables)
            sums = np.zeros(times.shape, times.dtype)
            np.cumsum(lasts[:-1] + hops, axis=0, out=sums[1:])
            for part in range(self.model.slices):
                own, until = times[:, :, part], sums[:, :, part]
                if part:
                    np.maximum(own, times[:, :, part - 1] + lasts[:, :, part - 1], out=own)
                own[:] = np.maximum.accumulate(own - until, axis=0) + until

    def jobs(self) -> Iterator[DeviceJobs]:
        """Yield for each device its operations with heads and tails; one stands for those of all that are alike."""
        where = once(self.model.where[:, self.units]).ravel()
        order = np.argsort(where, kind="stable")
        ends = np.cumsum(np.bincount(where, minlength=self.problem.devices))[:-1]
        work = self.work * self.counts if self.counts.max() > 1 else self.work
        tables = [table.reshape(len(self.kinds), len(where), -1) for table in (self.heads, work, self.tails)]
        for device, own in enumerate(np.split(order, ends)):
            found = DeviceJobs(*[table.take(own, axis=1).ravel() for table in tables])
            yield found.with_more(self.step.slots[device]) if self.problem.has_step else found

    @cached_property
    def step(self) -> StepJobs:
        """The work of the step beside the passes, of a problem that has one."""
        return StepJobs(self)

    def among_others(self) -> int:
        """Return what the longest way of a unit takes, with what every other unit adds to it (as in a flow shop).

        Two units that go the same way run the same operations on the same devices. Another unit is ahead of this one
        at its first operation, or behind it at its last one, or overtakes it between two. So some operation of it
        runs before, after or between those of this one. It takes its time from the same device as all others that
        do so there. So each adds its shortest operation, and the latencies are the least of all units.
        """
        shortest = self.path[:2].min(axis=(0, 1))
        longest = self.path[:2].sum(axis=(0, 1)) - shortest
        where, best = once(self.model.where[:, self.units]), 0
        for devices in {way.devices: None for way in self.model.ways}:
            here = np.broadcast_to((where == np.array(devices)[:, None]).all(axis=0), shortest.shape)
            hops = (table[: len(once(table)), here].min(axis=1) for table in (self.there, self.back)[: len(self.kinds)])
            least = sum(int(np.broadcast_to(row, len(self.there)).sum()) for row in hops)
            others = int((shortest * self.counts)[here].sum()) + least
            best = max(best, int(longest[here].max()) + others)
        return best

    def windows(self, *, alone: bool = False) -> list[DeviceResidencies]:
        """Return what each device with a limit may keep, offload and recompute."""
        if self.problem.mode == FORWARD_ONLY or not any(self.problem.capacity_grains):
            return []
        from pipesched.pipeline.bounds.memory import DeviceResidencies, ResidencyChunk

        stays, capacities = self._stays(), self.problem.capacity_grains
        found = list[DeviceResidencies]()
        for device, limit in enumerate(capacities):
            if not limit:
                continue
            # equal activations together; the least of each stage where that is too many
            stages = self.problem.settled_placement.stages_on(device)
            rows = ((stage, self.model.where[stage, self.units] == device) for stage in stages)
            by_stage = [(stage, stays[stage, here].tolist(), self.counts[here].tolist())
                        for stage, here in rows if here.any()]  # fmt: skip
            merged = ((stage, sum(counts), [*zip(*own, strict=True)]) for stage, own, counts in by_stage)
            chunks = tuple(ResidencyChunk(stage, count, *map(min, columns))._replace(largest=max(columns[-1]))
                           for stage, count, columns in merged)  # fmt: skip
            if not (self.model.is_plain or any(self.allowed)):  # what is recomputed or offloaded is about whole stages
                unlike = Counter[ResidencyChunk]()
                for stage, own, counts in by_stage:
                    for stay, count in zip(own, counts, strict=True):
                        unlike[ResidencyChunk(stage, 0, *stay)] += count
                if len(unlike) <= MOST_CHUNKS:
                    chunks = tuple(chunk._replace(microbatches=count) for chunk, count in unlike.items())
            found.append(DeviceResidencies(device, chunks, limit, self.allowed, alone, self.paired))
        return found

    def _stays(self) -> Ints:
        """Return by stage and unit the fields of ResidencyChunk from `head` to `largest`, as the last axis."""
        (forward, gradient, *_), lasts, is_split = self.path, self.tails, "W" in self.kinds
        size, checkpointed, retained = (
            self.model.sizes[name][:, self.units] for name in ("activation", "checkpointed", "retained")
        )
        nothing = np.zeros_like(forward)
        if not is_split:
            retained = nothing
        elif self._has_whole:  # a full B catches no gradients, and holds no more than the activation to its end
            retained = np.minimum(retained, size)
        # from F to the end of B or I, the way leads through the later slices on the same stage, and those of the last
        # one on the stages behind
        ways = (forward + gradient).reshape(self._shape)
        last = ways[:, :, -1].copy()
        last[:-1] += (self.there + self.back).reshape(self._shape)[:, :, -1]
        ways[:, :, -1] = last[::-1].cumsum(axis=0)[::-1]
        paths = ways[:, :, ::-1].cumsum(axis=2)[:, :, ::-1].reshape(forward.shape)
        saving = [self.model.ticks[cost][:, self.units] for cost in ("recompute", "offload", "reload")]
        fields = [
            self.heads[0], lasts[1], lasts[-1], paths, forward, gradient,  # head, tail, last_tail, path, ..
            self.path[2] if is_split else nothing, *saving, size, checkpointed, retained, np.maximum(size, retained),
        ]  # fmt: skip
        return np.stack(fields, axis=-1)


class DeviceJobs(NamedTuple):
    """Jobs of a device, of which some may stand for several: their heads, their work and their tails in ticks."""

    heads: Ints
    works: Ints
    tails: Ints

    def with_more(self, jobs: Sequence[Job]) -> DeviceJobs:
        more = [*map(column, zip(*jobs, strict=True))] or [column(())] * 3
        return DeviceJobs(*map(np.append, self, more))

    def listed(self) -> list[Job]:
        return [*map(Job, *(values.tolist() for values in self))]

    def whole_stretch(self) -> Job:
        """Return least head, all work, least tail, perhaps without what nothing follows: quick for unlike jobs."""
        behind = self.tails > 0
        parts = [self, *([DeviceJobs(*(values[behind] for values in self))] if behind.any() else [])]
        return max((Job(int(one.heads.min()), total(one.works), int(one.tails.min())) for one in parts), key=sum)


class StepEnds(NamedTuple):
    """The least ticks that a step has before and behind the passes of each stage."""

    released: Sequence[int]  # before its first F
    behind_last: Sequence[int]  # behind each of its B or W
    behind_gradient: Sequence[int]  # behind each of its input gradients
    reduced: Sequence[int] = ()  # behind its reduction
    updated: Sequence[int] = ()  # behind the reduction of all its gradients, tied ones included


NO_STEP = StepEnds((0,), (0,), (0,))


def step_ends(problem: Problem) -> StepEnds:
    """Return what the step of a problem adds.

    Before the first F of a stage all stages of its device up to it are gathered, one after another, and side work into
    it has run. Behind the last B or W come its reduction, that of tied gradients, and optimizers: its own or, where
    gradients are clipped by their norm, those of any device.
    """
    count = problem.stages
    ticks, ends, there = problem.step_ticks, tied_stages(problem), problem.settled_placement.devices
    own = ticks.optimizer
    updated = [max(own[one] for one in ends) if stage in ends else own[stage] for stage in range(count)]
    if problem.clip:
        by_device = [sum(own[stage] for stage in range(count) if there[stage] == device) for device in {*there}]
        updated = [max(by_device)] * count
    reduced = [after + (ticks.tied if stage in ends else 0) for stage, after in enumerate(updated)]
    behind = [time + after for time, after in zip(ticks.reduce, reduced, strict=True)]
    released, gradients, gathered = [0] * count, [0] * count, dict.fromkeys(there, 0)
    for stage, device in enumerate(there):
        gathered[device] += ticks.gather[stage]
        released[stage] = gathered[device]
    for number, item in enumerate(problem.side):
        lags = [0 if device == there[item.into] else ticks.side_p2p[number] for device in item.devices]
        before, after = (  # the least of any microbatch
            min(time + lag for row in side_ticks(problem, number, key) for time, lag in zip(row, lags, strict=True))
            for key in ("forward", "backward")
        )
        released[item.into] = max(released[item.into], before)
        if item.backward is not None:
            gradients[item.into] = max(gradients[item.into], after)
    return StepEnds(released, behind, gradients, reduced, updated)


def side_ticks(problem: Problem, number: int, key: str) -> list[list[int]]:
    """Return what an item's "forward" or "backward" lasts on each of its devices, of each microbatch that differs."""
    item, lasts = problem.side[number], problem.step_ticks.side_lasts
    times = getattr(item, key)
    microbatches = range(problem.microbatches if times is not None and len(times) > 1 else 1)
    return [[lasts(key, number, microbatch, device) for device in item.devices] for microbatch in microbatches]


def step_times(problem: Problem) -> Iterator[int]:
    """Yield all durations and latencies of a step that occur, in ticks."""
    ticks = problem.step_ticks
    yield from (*ticks.gather, *ticks.reduce, *ticks.optimizer, ticks.tied, *ticks.side_p2p)
    for number, key in product(range(len(problem.side)), ("forward", "backward")):
        yield from chain.from_iterable(side_ticks(problem, number, key))


class StepJobs:
    """The jobs of a step, by what is known of the passes of its stages."""

    def __init__(self, single: PassBounds) -> None:
        self.problem = problem = single.problem
        self._there = problem.settled_placement.devices
        self.slots: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.lanes: list[list[Job]] = [[] for _ in range(problem.devices)]
        self.shared: dict[tuple[int, ...], list[Job]] = {}  # side work that any of several devices may do
        ticks, begin, follow, ends = problem.step_ticks, single.heads, single.tails, single.heads + single.path
        work = (single.work * single.counts).sum(axis=2).sum(axis=0)
        done = (begin[0].min(axis=1) + work).tolist()  # of each stage: when all its passes can have ended
        first_ends, each = ends[-1].min(axis=1).tolist(), problem.sharding.reduces_each
        self._gathers(single, work.tolist())
        # reductions follow all passes of their stage, or those of their microbatch; tied ones all others
        for stage, device in enumerate(self._there if reduces(problem) else ()):
            head, count = (first_ends[stage], problem.microbatches) if each else (done[stage], 1)
            self.lanes[device].append(Job(head, ticks.reduce[stage] * count, single.ends.reduced[stage]))
        reduced, tied = [one + more for one, more in zip(done, ticks.reduce, strict=True)], tied_stages(problem)
        for stage in tied:
            behind = max(single.ends.updated[one] for one in tied)
            self.lanes[self._there[stage]].append(Job(max(reduced[one] for one in tied), ticks.tied, behind))
        if tied:
            reduced[0] = reduced[-1] = max(reduced[0], reduced[-1]) + ticks.tied
        # optimizers follow the gradients of their stage, of tied stages both, or where they are clipped all
        for stage, device in enumerate(() if problem.costs.optimizer is None else self._there):
            head = max(reduced) if problem.clip else reduced[stage]
            self.slots[device].append(Job(head, ticks.optimizer[stage], 0))
        gradients = ends[min(1, len(ends) - 1)].min(axis=1).tolist()
        self._side(gradients, (single.path[0] + follow[0]).min(axis=1).tolist())

    def _gathers(self, single: PassBounds, work: Sequence[int]) -> None:
        """Add the gather that all passes of a stage follow and, where each F frees the stage, those behind the first F.

        Each further F needs one, and the backward behind the last F; the device does nothing meanwhile. An F in a pair
        with a backward of its stage does not free it. So among pairs only the first F, which is in none, surely does.
        """
        problem, paired = self.problem, single.paired
        units = 1 if paired else problem.microbatches * problem.slices.count - (problem.mode == FORWARD_ONLY)
        heads, tails = (table.min(axis=1).tolist() for table in (single.heads[0], single.tails[-1]))
        behind_first = (single.path[0] + single.tails[0]).max(axis=1).tolist()
        for stage, device in enumerate(self._there if gathers(problem) else ()):
            tail = max(work[stage] + tails[stage], behind_first[stage])
            self.lanes[device].append(Job(0, problem.step_ticks.gather[stage], tail))
            if problem.sharding.gathers_each and units:
                again = Job(heads[stage], units * problem.step_ticks.gather[stage], tails[stage])
                self.lanes[device].append(again)
                self.slots[device].append(again)

    def _side(self, gradients: Sequence[int], behind_use: Sequence[int]) -> None:
        """Count side work of a single device there; all other is shared."""
        for number, item in enumerate(self.problem.side):
            lag = 0 if self._there[item.into] in item.devices else self.problem.step_ticks.side_p2p[number]
            rows = [side_ticks(self.problem, number, key) for key in ("forward", "backward")]
            forward, backward = (sum(map(min, row)) * (self.problem.microbatches // len(row)) for row in rows)
            jobs = [Job(0, forward, lag + behind_use[item.into])]
            if item.backward is not None:
                jobs.append(Job(gradients[item.into] + lag, backward, 0))
            if len(item.devices) == 1:
                self.slots[item.devices[0]] += jobs
            else:
                self.shared.setdefault(tuple(sorted(item.devices)), []).extend(jobs)

    def groups(self) -> Iterator[tuple[tuple[int, ...], list[Job]]]:
        """Yield each set of devices that share side work, with all of it that none beside them may do."""
        for devices in sorted({tuple(sorted({*one, *other})) for one in self.shared for other in self.shared}):
            rows = (jobs for own, jobs in self.shared.items() if {*own} <= {*devices})
            yield devices, [*chain.from_iterable(rows)]

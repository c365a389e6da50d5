"""Lower bounds on the makespan of a problem, for its placement and for the way a plan splits the backward.

Where all microbatches are alike, and without memory in the way, the paths of one microbatch give the heads and tails of
all, and each operation of it stands for M jobs of equal head and tail. Where they differ each stands for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import itemgetter

from pipesched.checks import require_label, require_whole
from pipesched.core.arrays import ceil_div, round_up
from pipesched.core.bounds import Job, critical_path, head_work_tail, jackson_preemptive, longest_stretch
from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import heads, tails
from pipesched.display import Displayable
from pipesched.pipeline.pass_bounds import PassBounds
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.pipeline.stays import DeviceStays, sharing_lanes, shortest

MOST_UNLIKE = 8_000  # jobs of a device, for bounds that take longer than its schedule
MOST_SHARED = 1_000  # the same, where devices share side work

Unsaid = tuple[int, str | Callable[[], str]]  # ticks, and the reason or how to say it


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
    single = PassBounds(schedule.problem, schedule.plan.index.letters, paired=bool(schedule.plan.pairs))
    best = _said(max(_bounds(single, within_budget=schedule.fits), key=itemgetter(0)))
    return replace(best.rounded_up(single.quantum), per_unit=schedule.problem.ticks.per_unit)


def _own_bounds(schedule: Schedule) -> Iterator[Bound]:
    """Yield bounds on the makespan of every order in which each operation lasts as long as in this schedule."""
    plan, count = schedule.plan, schedule.plan.index.passes
    graph = schedule.graph
    if count < len(graph):  # passes are its first tasks: what a step adds waits as its plan says
        edges = graph.edges.where((graph.edges.before < count) & (graph.edges.after < count))
        graph = TaskGraph(graph.duration[:count], graph.resource[:count], graph.unit_counts, edges)
    yield Bound(critical_path(graph), "critical path of one microbatch")
    before, after = heads(graph), tails(graph)
    for device, order in enumerate(plan.orders):
        jobs = [Job(before[task], graph.durations[task], after[task]) for task in order if task < count]
        yield Bound(jackson_preemptive(jobs), f"Jackson's preemptive schedule of device {device}")


def problem_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield bounds on the makespan of every schedule of these kinds within the budget.

    `paired`: F and B may overlap.
    """
    return map(_said, _bounds(PassBounds(problem, letters, paired=paired), within_budget=True))


def work_bounds(problem: Problem, letters: str, *, paired: bool) -> Iterator[Bound]:
    """Yield the least work of each device: no span is shorter."""
    single = PassBounds(problem, letters, paired=paired)
    for device, jobs in enumerate(single.jobs()):
        yield Bound(jobs.work, f"work of device {device}")
    for device, lane in enumerate(single.step.lanes):
        yield Bound(sum(job.work for job in lane), f"work of the network of device {device}")


def alone_bounds(problem: Problem, letters: str, *, paired: bool, least: int) -> Iterator[Bound]:
    """Yield bounds on the span by what the budget lets a device keep, offload and recompute.

    `least` ticks are known to be a bound.
    """
    single = PassBounds(problem, letters, paired=paired)
    return stay_bounds(single.windows(alone=True), problem, least, single.quantum)


def stay_bounds(views: Sequence[DeviceStays], problem: Problem, least: int, quantum: int) -> Iterator[Bound]:
    """Yield bounds above `least` ticks by the stays of activations on each device, in multiples of `quantum`."""
    for group in sharing_lanes(views, problem):
        least, known = shortest(group, least, quantum), least
        if least > known:
            names = " and ".join(str(window.device) for window in group)
            what = "residences and lanes" if group[0].allowed.offload else "residences"
            yield Bound(least, f"{what} of device{'s' if len(group) > 1 else ''} {names} under the budget")


def _said(found: Unsaid) -> Bound:
    ticks, reason = found
    return Bound(ticks, reason if isinstance(reason, str) else reason())


def _bounds(single: PassBounds, *, within_budget: bool) -> Iterator[Unsaid]:
    """Yield every bound; those by stays begin where the others end."""
    best, views = 0, list[DeviceStays]()
    for ticks, reason in _simple_bounds(single):
        best = max(best, ticks)
        yield ticks, reason
    for window in single.windows() if within_budget else ():
        views.append(window)
        ticks = window.area_bound()
        best = max(best, ticks)
        yield ticks, f"memory area of device {window.device}"
    for bound in stay_bounds(views, single.problem, best, single.quantum):
        yield bound.ticks, bound.reason


def _simple_bounds(single: PassBounds) -> Iterator[Unsaid]:
    yield single.longest, "critical path of one microbatch"
    yield single.among_others, "the longest way of a microbatch among all others"
    for device, jobs in enumerate(single.jobs()):
        stretch = longest_stretch(jobs.listed()) if single.model.is_plain else jobs.whole_stretch()
        yield sum(stretch), partial(single.in_words, device, stretch)
        if not single.model.is_plain and jobs.size <= MOST_UNLIKE:  # of units that are alike, it is as long
            yield jackson_preemptive(jobs.fewer()), f"Jackson's preemptive schedule of device {device}"
    yield from _step_bounds(single)


def _step_bounds(single: PassBounds) -> Iterator[Unsaid]:
    """Yield bounds by network lanes, and by side work that several devices share: they have all its time at least."""
    for device, lane in enumerate(single.step.lanes):
        yield jackson_preemptive(lane), f"Jackson's preemptive schedule of the network of device {device}"
    every = single.jobs() if single.step.shared else ()
    for devices, shared in single.step.groups():
        own = [every[device] for device in devices]
        whole = sum(jobs.work for jobs in own) + sum(job.work for job in shared)
        names = ", ".join(map(str, devices))
        yield ceil_div(whole, len(devices)), f"all work of devices {names}, with the side work that they share"
        if all(jobs.size <= MOST_SHARED for jobs in own):
            length = head_work_tail([*chain(*(jobs.listed() for jobs in own)), *shared], len(devices))
            yield length, f"work of devices {names}, with the side work that they share"

"""What is known about why a schedule is as long as it is. Numbers are in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from pipesched.checks import shown
from pipesched.core.reasons import LATE_PARTS, NOTHING, Gap, Idle, TimedTasks, classes
from pipesched.display import HasPage
from pipesched.errors import ConfigError
from pipesched.pipeline.bounds import Bound
from pipesched.pipeline.check import checked
from pipesched.pipeline.ops import Pair, Slot
from pipesched.pipeline.quantities import in_units, plain, to_fraction
from pipesched.pipeline.schedule import Schedule
from pipesched.results.covered import Claim
from pipesched.results.outcome import Outcome
from pipesched.results.timed_moves import OrderMove, timed_tasks

LEAST_TOLD = 1e-9  # of the makespan: less idle time counts as none


def given_schedule(schedule: object) -> Schedule:
    """Return the schedule that is asked about, after checks. Raises ConfigError and InvalidSchedule."""
    subject = schedule.schedule if isinstance(schedule, Outcome) else schedule
    if not isinstance(subject, Schedule):
        raise ConfigError(f"must be a Schedule or an Outcome, not {shown(schedule)}", "schedule")
    return checked(subject)


class IdleGap(NamedTuple):
    """Idle time of one class: of a device, from `start` to `end`.

    `culprit` is the slot or transfer that makes it, `waiting` the next slot of the device, None behind its last. Where
    it is the message to the culprit that took long, `sender` is the device that sent it. `more` is how much later than
    planned it was there, from when its device needed it. A culprit that queues stands `behind` another end of a
    message, or a slot, which the device issues so many `places` earlier and whose sender runs until `until`.
    """

    device: int
    start: int | float
    end: int | float
    idle: Idle
    culprit: Slot
    waiting: Slot | None
    sender: int | None = None
    more: int | float = 0
    behind: Slot | None = None
    places: int = 0
    until: int | float = 0

    @property
    def length(self) -> int | float:
        """How long it is."""
        return self.end - self.start


def idle_gap(schedule: Schedule, tasks: TimedTasks, gap: Gap, p2p: Sequence[int | float] = ()) -> IdleGap:
    """Return idle time of a schedule, whose operations are `tasks`, in the user's unit; `p2p` are planned latencies."""
    slot, scale = schedule.plan.slot, schedule.problem.ticks.per_unit
    times = in_units(gap.start, scale), in_units(gap.end, scale)
    waiting = None if gap.waiting == NOTHING else slot(gap.waiting)
    found = IdleGap(gap.device, *times, gap.idle, slot(gap.culprit), waiting)
    if gap.idle is Idle.QUEUE:
        return _with_queue(schedule, tasks, gap, found)
    message = tasks.message(gap.culprit) if gap.idle is Idle.MESSAGE else None
    if message is None:
        return found
    planned = (to_fraction(p2p[message.tag]) if p2p else 0) + Fraction(tasks.ends[message.before], scale)
    needed = max(planned, Fraction(tasks.allowed[gap.culprit], scale))
    more = Fraction(min(tasks.arrived[gap.culprit], tasks.starts[gap.culprit]), scale) - needed
    return found._replace(sender=tasks.machine[message.before], more=plain(more))


def _with_queue(schedule: Schedule, tasks: TimedTasks, gap: Gap, found: IdleGap) -> IdleGap:
    """Return idle time with what the message stands behind that makes it, where it is not on its way."""
    tight, plan, scale = tasks.tight[gap.culprit], schedule.plan, schedule.problem.ticks.per_unit
    if tight is None or tight.is_input or gap.start >= tasks.starts[gap.culprit]:
        return found
    before = tight.before
    if before not in tasks.queued:
        return found._replace(behind=plan.slot(before), until=in_units(tasks.ends[before], scale))
    for program in plan.messages:
        places = {number: place for place, number in enumerate(program.number.tolist())}
        if before in places and gap.culprit in places:
            name = plan.index.end(before, int(program.sends[places[before]]))
            made = max(tasks.ends[arc.before] for arc in tasks.inputs[before])
            far = places[gap.culprit] - places[before]
            return found._replace(behind=name, places=far, until=in_units(made, scale))
    return found


class Sensitivity(NamedTuple):
    """What a cost does to the makespan, with the order fixed.

    The cost is that of a `kind` on a stage (of side work E and G on an item; that of tied gradients, one for both ends,
    on stage 0). It stands `on_path` times on the critical path. Each unit that it is lower gains `faster` units of
    makespan, each unit that it is higher costs `slower`: for small changes, exactly.
    """

    stage: int
    kind: str
    on_path: int
    faster: int
    slower: int


class LatencySensitivity(NamedTuple):
    """The same of the latency at the boundary between the stages `boundary` and `boundary` + 1."""

    boundary: int
    faster: int
    slower: int


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(HasPage):
    """Why a schedule takes as long as it does.

    `claim` is the bound on its makespan that its solve reports, with the schedules that it covers; `here` is that of
    its own cut and placement. `gap_ticks` is all its idle time by class, `path` the critical path and `slack_ticks` the
    slack of each operation. They are by numbers of the plan, in ticks from the first start on. `gaps`, `critical_path`
    and `slack` are the same in the user's units. `moves` are the best single changes of the order; `moves_complete`
    says that all were timed. `algorithm` is the name of what made the schedule, if it is known;
    `planned_p2p` is, of a measured one, the latency at each boundary that was planned (empty: none).
    """

    schedule: Schedule
    claim: Claim
    here: Claim
    gap_ticks: Sequence[Gap]
    path: Sequence[int]
    slack_ticks: Sequence[int]
    sensitivity: Sequence[Sensitivity]
    p2p_sensitivity: Sequence[LatencySensitivity]
    moves: Sequence[OrderMove]
    moves_complete: bool
    algorithm: str = ""
    planned_p2p: Sequence[int | float] = ()

    def __repr__(self) -> str:
        total = self.totals
        counted = (idle for idle in self.classes if idle is not Idle.LATE or not self.is_measured)
        largest = max(counted, key=total.__getitem__)
        return f"Explanation(makespan {self.makespan}, idle {self.idle}, most of it {largest.value})"

    def number_of(self, slot: Slot) -> int:
        """Return the number in the plan of a slot or transfer; a pair's is that of its forward."""
        return self.schedule.plan.index.number(slot.forward if isinstance(slot, Pair) else slot)

    @property
    def is_measured(self) -> bool:
        """Whether a run recorded the schedule: its late time is then split into message and runtime."""
        return self.schedule.own_lengths

    @property
    def makespan(self) -> int | float:
        """Last end minus first start, over all devices."""
        return self.schedule.makespan

    @property
    def bound(self) -> Bound:
        """The lower bound on its makespan."""
        return self.claim.bound

    @property
    def covers(self) -> str:
        """Which schedules `bound` is about, in words."""
        return self.claim.covers

    @property
    def gap(self) -> float:
        """The distance to the bound: (makespan - bound) / bound."""
        return self.claim.gap(self.schedule.makespan_ticks)

    @cached_property
    def gaps(self) -> list[IdleGap]:
        """All idle time by class and culprit, by device and start."""
        tasks = timed_tasks(self.schedule)
        return [idle_gap(self.schedule, tasks, gap, self.planned_p2p) for gap in self.gap_ticks]

    @cached_property
    def critical_path(self) -> list[Slot]:
        """The slots and transfers of which each is held back by the one before it, from time 0 to the last end."""
        return [self.schedule.plan.slot(task) for task in self.path]

    @cached_property
    def slack(self) -> dict[str, int | float]:
        """How much later each slot and transfer may end, with these orders, before the makespan grows; by its text."""
        plan = self.schedule.plan
        tasks = [task for order in plan.lines for task in order.tolist()]
        return {str(plan.slot(task)): self._time(self.slack_ticks[task]) for task in tasks}

    @cached_property
    def device_ticks(self) -> list[dict[Idle, int]]:
        """The idle time of each device by class, in ticks."""
        rows = [dict.fromkeys(self.classes, 0) for _ in range(self.schedule.problem.devices)]
        for gap in self.gap_ticks:
            rows[gap.device][gap.idle] += gap.end - gap.start
            if gap.idle in LATE_PARTS:
                rows[gap.device][Idle.LATE] += gap.end - gap.start
        return rows

    @property
    def classes(self) -> list[Idle]:
        """The classes of idle time; message and runtime, which a measured schedule has, are parts of late."""
        found = classes(measured=self.is_measured, queued=bool(self.schedule.plan.messages))
        return [idle for idle in Idle if idle in found or (self.is_measured and idle is Idle.LATE)]

    @property
    def devices(self) -> list[dict[Idle, int | float]]:
        """The idle time of each device by class."""
        return [{idle: self._amount(ticks) for idle, ticks in row.items()} for row in self.device_ticks]

    @property
    def idle_of_devices(self) -> list[int | float]:
        """The idle time of each device, of all classes."""
        return [*map(self._amount, self.schedule.idle_ticks)]

    @property
    def totals(self) -> dict[Idle, int | float]:
        """The idle time of all devices by class."""
        return {idle: self._amount(sum(row[idle] for row in self.device_ticks)) for idle in self.classes}

    @property
    def idle(self) -> int | float:
        """The idle time of all devices."""
        return self._amount(sum(self.schedule.idle_ticks))

    @property
    def unavoidable(self) -> int | float:
        """The idle time that every schedule on its cut and placement has: devices x bound - busy time, at least 0."""
        return self._amount(self._unavoidable_ticks)

    @property
    def avoidable(self) -> int | float:
        """The rest of the idle time."""
        return self._amount(sum(self.schedule.idle_ticks) - self._unavoidable_ticks)

    @property
    def _unavoidable_ticks(self) -> int:
        return max(self.schedule.problem.devices * self.here.bound.ticks - sum(self.schedule.busy_ticks), 0)

    def counts(self, time: int | float) -> bool:
        """Return whether a time is worth telling: the others are 0 beside the makespan."""
        return time >= LEAST_TOLD * self.makespan

    def _amount(self, ticks: int) -> int | float:
        """Return an amount of idle time; 0 for what is not worth telling."""
        time = self._time(ticks)
        return time if self.counts(time) else 0

    def _time(self, ticks: int) -> int | float:
        return in_units(ticks, self.schedule.problem.ticks.per_unit)

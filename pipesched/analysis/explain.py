"""`explain`: idle time by class, the critical path, slack, sensitivities and moves of a schedule.

It makes an `Explanation`, whose numbers are in the user's units; `why` is of one operation, `what_if` of one cost. The
parts stand behind it: idle time by class (`idle_gap`), what costs do (`sensitivities`); core/reasons.py finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pipesched.checks import shown
from pipesched.core.reasons import LATE_PARTS, NOTHING, Gap, Idle, TimedTasks, classes, path_counts
from pipesched.core.timing import earliest_times
from pipesched.display import HasPage, from_file
from pipesched.errors import ConfigError, NoSchedule
from pipesched.pipeline.bounds.bounds import Bound
from pipesched.pipeline.check.check import checked
from pipesched.pipeline.plan.plan import SIDE_KINDS
from pipesched.pipeline.plan.schedule import Schedule, schedule_plan, timed_schedule
from pipesched.pipeline.problem.costs import HALVES, entries_of
from pipesched.pipeline.problem.kinds import KINDS, STEP_KINDS
from pipesched.pipeline.problem.ops import SIDE_MESSAGES, OpIndex, Pair, Slot
from pipesched.pipeline.problem.problem import Problem
from pipesched.pipeline.problem.quantities import canonical, in_units, plain, to_fraction
from pipesched.results.outcome import Claim, Outcome
from pipesched.results.timed_moves import OrderMove, best_moves, gaps_of, timed_tasks

LEAST_TOLD = 1e-9  # of the makespan: less idle time counts as none


def explain(
    schedule: Schedule | Outcome | str | Path | Callable[..., Any], *, problem: Problem | None = None
) -> Explanation:
    """Say why a schedule takes as long as it does, and what would change it.

    A schedule may have times of its own, later than they could be: that is idle time of the class late. Sensitivities
    and moves are then those of the same order at its earliest times. The name of a file stands for what it holds; a CSV
    has the costs of `problem`. An algorithm, by its name or its function, stands for its schedule of `problem`. Raises
    ConfigError for what is no schedule, InvalidSchedule for one that breaks a rule, and Deadlock for one whose order
    cannot run.
    """
    schedule = from_file(schedule, problem, "schedule")
    outcome = schedule if isinstance(schedule, Outcome) else None
    subject = given_schedule(schedule)
    made = outcome or Outcome(subject.name, subject)
    tasks = timed_tasks(subject)
    early, early_tasks = subject, tasks
    if not tasks.can_run or any(tasks.starts[task] != tasks.allowed[task] for task in tasks.topological):
        early = schedule_plan(subject.problem, subject.plan, subject.lengths)
        early_tasks = timed_tasks(early)
    rows, boundaries = sensitivities(early, early_tasks, tasks.critical_path)
    moves, is_complete = best_moves(early, early_tasks)
    return Explanation(
        schedule=subject,
        claim=made.claim,
        here=Claim(made.bound, made.covers),
        gap_ticks=gaps_of(subject, tasks),
        path=tasks.critical_path,
        slack_ticks=tasks.slack,
        sensitivity=rows,
        p2p_sensitivity=boundaries,
        moves=moves,
        moves_complete=is_complete,
        algorithm=subject.plan.name if outcome is None else outcome.algorithm,
    )


def explained_outcomes(explanation: Explanation) -> list[tuple[str, Outcome]]:
    """Return the schedule that an explanation is about, with its title and the name of what made it."""
    outcome = Outcome(explanation.algorithm or explanation.schedule.name, explanation.schedule)
    return [(outcome.title, outcome)]


def given_schedule(schedule: object) -> Schedule:
    """Return the schedule that is asked about, after checks. Raises ConfigError and InvalidSchedule."""
    subject = schedule.schedule if isinstance(schedule, Outcome) else schedule
    if not isinstance(subject, Schedule):
        raise ConfigError(f"must be a Schedule or an Outcome, not {shown(schedule)}", "schedule")
    return checked(subject)


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
        return self.end - self.start


def idle_gap(schedule: Schedule, tasks: TimedTasks, gap: Gap, p2p: Sequence[int | float] = ()) -> IdleGap:
    """Return idle time of a schedule, whose operations are `tasks`, in the user's unit; `p2p` are planned latencies."""
    slot, scale = schedule.plan.slot, schedule.problem.ticks.per_unit
    times = in_units(gap.start, scale), in_units(gap.end, scale)
    waiting = None if gap.waiting == NOTHING else slot(gap.waiting)
    found = IdleGap(gap.device, *times, gap.idle, slot(gap.culprit), waiting)
    if gap.idle is Idle.QUEUE:  # behind what the message stands that makes it, where it is not on its way
        tight = tasks.tight[gap.culprit]
        if tight is None or tight.is_input or gap.start >= tasks.starts[gap.culprit]:
            return found
        before = tight.before
        if before not in tasks.queued:
            return found._replace(behind=slot(before), until=in_units(tasks.ends[before], scale))
        for program in schedule.plan.messages:
            places = {number: place for place, number in enumerate(program.number.tolist())}
            if before in places and gap.culprit in places:
                name = schedule.plan.index.end(before, int(program.sends[places[before]]))
                made = max(tasks.ends[arc.before] for arc in tasks.inputs[before])
                far = places[gap.culprit] - places[before]
                return found._replace(behind=name, places=far, until=in_units(made, scale))
        return found
    message = tasks.message(gap.culprit) if gap.idle is Idle.MESSAGE else None
    if message is None:
        return found
    planned = (to_fraction(p2p[message.tag]) if p2p else 0) + Fraction(tasks.ends[message.before], scale)
    needed = max(planned, Fraction(tasks.allowed[gap.culprit], scale))
    more = Fraction(min(tasks.arrived[gap.culprit], tasks.starts[gap.culprit]), scale) - needed
    return found._replace(sender=tasks.machine[message.before], more=plain(more))


TIED = "REDUCE_TIED"
OVERLAP = "overlap"
Planner = Callable[[Problem], Outcome]  # makes a schedule of a problem, by the algorithm and the options of another
Row = tuple[int, str]  # a stage (or an item of side work), and a kind of operation or OVERLAP


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


def sensitivities(
    schedule: Schedule, tasks: TimedTasks, path: Sequence[int]
) -> tuple[list[Sensitivity], list[LatencySensitivity]]:
    """Return the sensitivity of the makespan to each cost that the schedule runs, and to each latency.

    `tasks` are those of the schedule at its earliest times; `path` is the critical path on which costs are counted.
    """
    problem = schedule.problem
    boundaries = max(problem.stages - 1, 0)
    parts = _parts(schedule)
    found_rows = {row for order in tasks.orders for task in order for row, _ in parts(task)}
    rows = sorted(found_rows, key=lambda row: (row[1] in SIDE_KINDS, row))
    column = {row: boundaries + number for number, row in enumerate(rows)}
    index, durations = schedule.plan.index, schedule.graph.durations

    def boundary(task: int) -> list[int]:
        op = index.op(task) if task >= index.first_message else None
        return [] if op is None or op.kind in SIDE_MESSAGES else [op.stage - (op.kind == "SEND_B")]

    found = path_counts(
        tasks,
        lambda task: [column[row] for row, _ in parts(task)] or boundary(task),
        boundaries + len(rows),
        lambda task: [column[row] for row, lasts in parts(task) if lasts] or boundary(task) * (durations[task] > 0),
    )
    counts = Counter(row for task in path for row, _ in parts(task))
    of_kinds = [Sensitivity(*row, counts[row], *found[column[row]]) for row in rows]
    of_latencies = [
        LatencySensitivity(boundary, least if hop else 0, most)
        for boundary, (hop, (least, most)) in enumerate(zip(problem.least_hops, found, strict=False))
    ]
    return of_kinds, of_latencies


def _parts(schedule: Schedule) -> Callable[[int], Sequence[tuple[Row, bool]]]:
    """Return what names the costs of an entry of an order, of a pair its parts' or its own, and which are above 0."""
    model, plan, index = schedule.problem.model, schedule.plan, schedule.plan.index

    def part(number: int, kind: str) -> tuple[Row, bool]:
        stage, table = index.stage_of(number), model.overlap if kind == OVERLAP else model.ticks[KINDS[kind].cost]
        return (stage, kind), table is not None and bool(table[stage, index.owner_of(number)] > 0)

    def parts(task: int) -> Sequence[tuple[Row, bool]]:
        if task >= index.first_message:
            return ()
        if task >= index.passes:
            return [(row_of_step(index, task), schedule.graph.durations[task] > 0)]
        if task in plan.pairs and model.overlap is not None:
            return [part(task, OVERLAP)]
        numbers = (task, plan.pairs[task]) if task in plan.pairs else (task,)
        return [part(number, index.kind_of(number)) for number in numbers]

    return parts


def what_if(
    schedule: Schedule, stage: int, kind: str, factor: Fraction, plan_again: Planner | None
) -> tuple[int | float, int | float | None]:
    """Return the makespans if one cost of a stage is `factor` times what it is: in the same order, and planned again.

    `kind` is a letter, or "overlap", or a kind of the step; of side work `stage` is the item.
    """
    problem = replace(schedule.problem, layers=None)
    if kind in STEP_KINDS:
        changed = changed_step(problem, (stage, kind), factor)
    else:
        keys = [OVERLAP] if kind == OVERLAP else [KINDS[kind].cost]
        if keys == ["backward"]:
            keys = [*HALVES] if problem.costs.whole is None else ["whole"]
        columns = {}
        for key in keys:
            column = [*getattr(problem.costs, key)]
            each = [canonical(one * factor) for one in entries_of(column[stage], 1)]
            column[stage] = tuple(each) if isinstance(column[stage], tuple) else each[0]
            columns[key] = tuple(column)
        changed = replace(problem, costs=replace(problem.costs, **columns))  # type: ignore[arg-type]
    if problem.has_units:
        plan, graph, (up, down) = schedule.plan, schedule.graph, factor.as_integer_ratio()
        durations = [ticks * down for ticks in graph.durations]
        for task, ticks in _times_of(schedule, stage, kind):
            durations[task] += ticks * (up - down)
        finer = graph.changed(durations=durations, edges=graph.edges.scaled(down))
        timed = timed_schedule(schedule.problem, plan, earliest_times(finer, plan.lines), finer)
        same = plain(Fraction(timed.makespan_ticks, down * schedule.problem.ticks.per_unit))
    else:
        same = schedule_plan(changed, schedule.plan, _lengths(schedule, changed, stage, kind, factor)).makespan
    with suppress(ConfigError, NoSchedule):
        return same, None if plan_again is None else plan_again(changed).schedule.makespan
    return same, None


def _times_of(schedule: Schedule, stage: int, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the entries of orders that have a cost, each with the ticks of it: a pair those of its part, or its own."""
    if kind in STEP_KINDS:
        numbers = numbers_of(schedule.plan.index, (stage, kind))
        yield from ((number, schedule.graph.durations[number]) for number in numbers)
        return
    plan, index, model = schedule.plan, schedule.plan.index, schedule.problem.model
    forward_of = {backward: forward for forward, backward in plan.pairs.items()}
    row = index.row("F" if kind == OVERLAP else kind, stage)
    for number in row:
        is_paired = number in plan.pairs or number in forward_of
        if is_paired and model.overlap is None and not schedule.own_lengths:
            yield forward_of.get(number, number), int(model.ticks[KINDS[kind].cost][stage, index.owner_of(number)])
        elif is_paired == (kind == OVERLAP):
            yield number, schedule.graph.durations[number]


def _lengths(schedule: Schedule, changed: Problem, stage: int, kind: str, factor: Fraction) -> list[int] | None:
    """Return the own lengths of a schedule's operations, those of one kind and stage changed, in ticks of `changed`."""
    if schedule.lengths is None:
        return None
    index, pairs = schedule.plan.index, schedule.plan.pairs
    scale = Fraction(changed.ticks.per_unit, schedule.problem.ticks.per_unit)
    letter = "F" if kind == OVERLAP else kind
    row = {*(numbers_of(index, (stage, kind)) if kind in STEP_KINDS else index.row(letter, stage))}
    return [
        int(length * scale * (factor if number in row and (number in pairs) == (kind == OVERLAP) else 1))
        for number, length in enumerate(schedule.lengths)
    ]


def row_of_step(index: OpIndex, number: int) -> Row:
    """Return the cost of an operation of the step: both ends of tied gradients have one."""
    kind = index.kind_of(number)
    return (0 if kind == TIED else index.stage_of(number)), kind


def numbers_of(index: OpIndex, row: Row) -> Sequence[int]:
    """Return the operations of the step that have a cost."""
    stage, kind = row
    return [*chain(*index.rows(kind))] if kind == TIED else index.row(kind, stage)


def changed_step(problem: Problem, row: Row, factor: Fraction) -> Problem:
    """Return the problem with one cost of its step `factor` times as high; one that it does not have stays so."""
    stage, kind = row
    key, costs = STEP_KINDS[kind].cost, problem.costs
    if kind in SIDE_KINDS:
        times = getattr(problem.side[stage], key)
        item = replace(problem.side[stage], **{key: tuple(canonical(to_fraction(one) * factor) for one in times)})  # type: ignore[arg-type]
        return replace(problem, side=(*problem.side[:stage], item, *problem.side[stage + 1 :]))
    if getattr(costs, key) is None:
        return problem
    if kind == TIED:
        return replace(problem, costs=replace(costs, tied=canonical(to_fraction(costs.tied) * factor)))
    column = [*getattr(costs, key)]
    column[stage] = canonical(to_fraction(column[stage]) * factor)
    return replace(problem, costs=replace(costs, **{key: tuple(column)}))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Input:
    """What a slot waits for: when that came, and whether it is the one that held the slot back.

    `what` is "input" (data), "order" (the slot before it on its device or lane) or "wait" (a wait edge of the plan).
    """

    slot: Slot
    what: str
    there: int | float
    is_tight: bool


@dataclass(frozen=True)
class Why:
    """Why a slot starts when it does, in the user's time unit.

    `allowed` is when all that it waits for was there; `slack` how much later it may end before the makespan grows.
    `chain` leads from it back to time 0: each was held back by the next.
    """

    slot: Slot
    place: str
    start: int | float
    end: int | float
    allowed: int | float
    slack: int | float
    inputs: Sequence[Input]
    chain: Sequence[Slot]


def why(schedule: Schedule | Outcome, op: str) -> Why:
    """Say why an operation, a pair or a transfer, named by its text (3B2), starts when it does.

    Raises ConfigError for one that the schedule does not run, with the nearest that it does, and for what is no
    schedule. Raises InvalidSchedule for a schedule that breaks a rule, and Deadlock for one whose order cannot run.
    """
    subject = given_schedule(schedule)
    tasks, plan = timed_tasks(subject), subject.plan
    if not tasks.can_run:
        schedule_plan(subject.problem, plan)  # raises Deadlock: a chain of what waits in a circle has no end
    names = {str(plan.slot(task)): task for order in tasks.orders for task in order}
    names |= {str(plan.index.op(number)): forward for forward, backward in plan.pairs.items()
              for number in (forward, backward)}  # fmt: skip
    if op not in names:
        near = get_close_matches(op, names, n=3, cutoff=0.3)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise ConfigError(f"{shown(op)} does not run in this schedule; one looks like {next(iter(names))}{hint}", "op")
    task, scale = names[op], subject.problem.ticks.per_unit
    inputs = []
    for arc in tasks.arcs(task):
        what = "input" if arc.is_input else "wait" if arc.before in tasks.waits[task] else "order"
        there = in_units(tasks.ends[arc.before] + arc.lag, scale)
        inputs.append(Input(plan.slot(arc.before), what, there, arc == tasks.tight[task]))
    times = (tasks.starts, tasks.ends, tasks.allowed, tasks.slack)
    start, end, allowed, slack = (in_units(ticks[task], scale) for ticks in times)
    chained = [plan.slot(before) for before in tasks.chain(task)]
    device, count = tasks.machine[task], subject.problem.devices
    lane, lanes = device - count, 2 * len(plan.lanes)
    if lane < 0:
        place = f"device {device}"
    elif lane < lanes:
        place = f"the lane of device {lane // 2} {'from' if lane % 2 else 'to'} host memory"
    else:
        other = lane - lanes - len(plan.queues)
        place = "its queues" if other < 0 else f"the network lane of device {other}"
    return Why(plan.slot(task), place, start, end, allowed, slack, inputs, chained)

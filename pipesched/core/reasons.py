"""Why a schedule takes its time: the critical path, slack, the class of each idle tick, and what a change would do.

It needs only tasks, orders and times, whoever found them. Linear in tasks and precedences. One tick less of a cost
gains the least number of times that it stands on a longest path, one tick more costs the largest. A task may move to
where who reaches it and whom it reaches let it, whatever memory says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import chain, pairwise
from operator import add
from typing import NamedTuple

from pipesched.core.arrays import Ints, np
from pipesched.core.clock import check_deadline, watched

NOTHING = -1  # no task, no machine, no tag
Fits = Callable[[int, int], bool]  # whether a task may start at a time, as far as the memory of its device goes
Candidates = tuple["GapCandidate | None", "GapCandidate | None"]  # one that takes memory, one that takes none


class Arc(NamedTuple):
    """What a task waits for: the end of the task `before`, and then `lag` ticks.

    `tag` names what makes the lag (a boundary between stages), NOTHING if there is no such thing. `is_input` says that
    data goes this way; else it is the order of a machine, or a wait edge.
    """

    before: int
    lag: int = 0
    tag: int = NOTHING
    is_input: bool = True


@dataclass(frozen=True, eq=False)
class TimedTasks:
    """Tasks in the orders of machines, with times: the subject of every question here.

    The first `devices` of `orders` are of devices, the others of lanes, whose own idle time nobody asks for; the last
    `late_lanes` of these may end the schedule, as devices do. `inputs`
    are the arcs of data into each task, `waits` the tasks that each waits for besides. `starts` and `ends` are in
    ticks, from 0, the first start; tasks in no order have none. `deliveries[i]` ticks after its end the result of task
    i is out, occupying nobody (default: at once), and `delivery_tags[i]` names what makes them, as the tag of an arc.
    Of what was measured `arrived[i]` is when the message was there that task i waited for, less than 0 where it waited
    for none. Tasks that are `queued` stand in several queues at once, whose order `waits` has; where they hold devices
    while they run, `held` lists those of each.
    """

    durations: Sequence[int]
    inputs: Sequence[Sequence[Arc]]
    waits: Sequence[Sequence[int]]
    orders: Sequence[Sequence[int]]
    devices: int
    starts: Sequence[int]
    ends: Sequence[int]
    deliveries: Sequence[int] = ()
    delivery_tags: Sequence[int] = ()
    arrived: Sequence[int] = ()
    late_lanes: int = 0
    queued: range = range(0)
    held: Sequence[Sequence[int]] = ()

    @cached_property
    def outs(self) -> Sequence[int]:
        """When the result of each task is out: its end and its delivery."""
        return [*map(add, self.ends, self.deliveries)] if self.deliveries else self.ends

    @cached_property
    def machine(self) -> list[int]:
        """The machine of each task."""
        machine = [NOTHING] * len(self.durations)
        for number, order in enumerate(self.orders):
            for task in order:
                machine[task] = number
        return machine

    @cached_property
    def ranks(self) -> list[int]:
        """The place of each task in all orders, one after the other: by device, then by lane, and by position."""
        ranks = [NOTHING] * len(self.durations)
        for rank, task in enumerate(chain.from_iterable(self.orders)):
            ranks[task] = rank
        return ranks

    @cached_property
    def previous(self) -> list[int]:
        """The task before each in the order of its machine."""
        previous = [NOTHING] * len(self.durations)
        for order in self.orders:
            for before, after in pairwise(order):
                previous[after] = before
        return previous

    @cached_property
    def makespan(self) -> int:
        """When the last result of a device, or of a lane that may end the schedule, is out."""
        return 0 if self.last == NOTHING else self.outs[self.last]

    def may_end(self, task: int) -> bool:
        """Return whether a task is of a device, or of a lane that may end the schedule."""
        machine = self.machine[task]
        return machine < self.devices or machine >= len(self.orders) - self.late_lanes

    def arcs(self, task: int) -> Iterator[Arc]:
        """Yield all that a task waits for: its inputs, the task before it, its wait edges."""
        yield from self.inputs[task]
        if self.previous[task] != NOTHING:
            yield Arc(self.previous[task], is_input=False)
        for before in self.waits[task]:
            yield Arc(before, is_input=False)

    @cached_property
    def topological(self) -> list[int]:
        """All tasks in the orders, each behind all that it waits for."""
        successors: list[list[int]] = [[] for _ in self.durations]
        left = [0] * len(self.durations)
        for order in self.orders:
            check_deadline()
            for task in order:
                for arc in self.arcs(task):
                    successors[arc.before].append(task)
                    left[task] += 1
        ready = [task for order in reversed(self.orders) for task in order if not left[task]]
        found = []
        while ready:
            task = ready.pop()
            found.append(task)
            for after in successors[task]:
                left[after] -= 1
                if not left[after]:
                    ready.append(after)
        return found

    @property
    def can_run(self) -> bool:
        """Whether the orders can run: else tasks of no length wait for each other in a circle."""
        return len(self.topological) == sum(map(len, self.orders))

    @cached_property
    def allowed(self) -> list[int]:
        """The earliest start of each task, given the ends of what it waits for."""
        allowed, ends = [0] * len(self.durations), self.ends
        for order in self.orders:
            check_deadline()
            for task in order:
                allowed[task] = max((ends[arc.before] + arc.lag for arc in self.arcs(task)), default=0)
        return allowed

    @cached_property
    def tight(self) -> list[Arc | None]:
        """For each task the arc that holds it back: of several an input, with the longest lag, first in the orders.

        None for a task that may start at time 0.
        """
        allowed, ends, ranks = self.allowed, self.ends, self.ranks
        tight: list[Arc | None] = [None] * len(self.durations)
        for task in watched([*chain.from_iterable(self.orders)]):
            if allowed[task]:
                reaching = [arc for arc in self.arcs(task) if ends[arc.before] + arc.lag == allowed[task]]
                if len(reaching) > 1:
                    reaching.sort(key=lambda arc: (not arc.is_input, -arc.lag, ranks[arc.before]))
                tight[task] = reaching[0]
        return tight

    def message(self, task: int) -> Arc | None:
        """Return the last of a task's inputs from other devices; None where it has none."""
        others = {*range(self.devices)} - {self.machine[task]}
        sent = [arc for arc in self.inputs[task] if self.machine[arc.before] in others]
        return max(sent, key=lambda arc: self.ends[arc.before], default=None)

    @cached_property
    def last(self) -> int:
        """The task whose result is out last, the first of several, of devices first; NOTHING where there is none."""
        ending = *self.orders[: self.devices], *self.orders[len(self.orders) - self.late_lanes :]
        return max(chain.from_iterable(ending), key=self.outs.__getitem__, default=NOTHING)

    def chain(self, task: int) -> Iterator[int]:
        """Yield a task, what holds it back, what holds that back, and so on to time 0."""
        while task != NOTHING:
            yield task
            arc = self.tight[task]
            task = NOTHING if arc is None else arc.before

    @cached_property
    def critical_path(self) -> list[int]:
        """The tasks from time 0 to the makespan, each held back by the one before it."""
        return [*self.chain(self.last)][::-1]

    @cached_property
    def slack(self) -> list[int]:
        """How much later each task may end, with these orders, before the makespan grows; -1 for one in no order."""
        spare = [self.makespan - out for out in self.outs]
        latest = [end + max(more, 0) for end, more in zip(self.ends, spare, strict=True)]
        for task in watched(self.topological[::-1]):
            start = latest[task] - self.durations[task]
            for arc in self.arcs(task):
                latest[arc.before] = min(latest[arc.before], start - arc.lag)
        slack = [NOTHING] * len(latest)
        for task in self.topological:
            slack[task] = latest[task] - self.ends[task]
        return slack


class Idle(str, Enum):
    """The classes of idle time; the values are the keys of the JSON document."""

    WARM_UP = "warm_up"
    WAIT = "wait"
    TRANSFER = "transfer"
    QUEUE = "queue"
    ORDER = "order"
    MEMORY = "memory"
    DRAIN = "drain"
    LATE = "late"
    MESSAGE = "message"
    RUNTIME = "runtime"

    def __str__(self) -> str:
        return self.value


LATE_PARTS = (Idle.MESSAGE, Idle.RUNTIME)  # of what was measured: instead of late


def classes(*, measured: bool = False, queued: bool = False) -> list[Idle]:
    """Return the classes that add up to the idle time of a device.

    They are others where that was `measured`, and one more where something is `queued`.
    """
    absent = {*((Idle.LATE,) if measured else LATE_PARTS), *(() if queued else (Idle.QUEUE,))}
    return [idle for idle in Idle if idle not in absent]


class Gap(NamedTuple):
    """Idle time of a device, in ticks, of one class.

    `culprit` is the task that it waits for, or that could have run; `waiting` is the next task of the device, NOTHING
    behind the last one.
    """

    device: int
    start: int
    end: int
    idle: Idle
    culprit: int
    waiting: int


Piece = tuple[int, int, Idle | None, int]  # of a gap: from, to, class (None: a device runs the culprit), culprit


def idle_gaps(tasks: TimedTasks, takes: Sequence[int], fits: Fits) -> Iterator[Gap]:
    """Yield the idle time of every device by class and culprit, by device and start; equal neighbours are joined.

    `takes` says what each task takes at its start; `fits` is asked only for one that takes something.
    """
    for device, order in enumerate(tasks.orders[: tasks.devices]):
        joined: list[Gap] = []
        for gap in _gaps_of(tasks, device, order, takes, fits):
            if joined and (joined[-1].end, *joined[-1][3:]) == (gap.start, *gap[3:]):
                joined[-1] = joined[-1]._replace(end=gap.end)
            else:
                joined.append(gap)
        yield from joined


def _gaps_of(tasks: TimedTasks, device: int, order: Sequence[int], takes: Sequence[int], fits: Fits) -> Iterator[Gap]:
    """Yield the idle time of a device in order of time."""
    # for each position the candidates from there on: of each sort the least ready, of several the earliest
    best: list[GapCandidate | None] = [None, None]
    candidates: list[Candidates] = [(None, None)] * (len(order) + 2)
    for position, task in reversed([*enumerate(order)]):
        ready = max((tasks.ends[arc.before] + arc.lag for arc in tasks.inputs[task]), default=0)
        sort = 0 if takes[task] else 1
        here = GapCandidate(max(ready, 0), position, task, bool(takes[task]))
        other = best[sort]
        best[sort] = here if other is None else min(here, other)
        candidates[position] = (best[0], best[1])
    clock = 0
    for position, task in enumerate(order):
        start = tasks.starts[task]
        if start > clock:
            walked = Idle.WAIT if position else Idle.WARM_UP
            pieces = list[Piece]()
            for begin, end, culprit in _free_parts(tasks, device, clock, start):
                pieces += (
                    [(begin, end, Idle.QUEUE, culprit)]
                    if culprit != NOTHING
                    else _pieces(tasks, task, begin, end, candidates[position + 1], fits)
                )
            for begin, end, idle, culprit in sorted(pieces):
                yield Gap(device, begin, end, idle or walked, culprit, task)
        clock = max(clock, tasks.ends[task])
    last, makespan = tasks.last, tasks.makespan
    if last != NOTHING:  # the walk back from the makespan begins with the last delivery
        pieces = []
        for begin, end, culprit in _free_parts(tasks, device, clock, makespan):
            if culprit != NOTHING:
                pieces.append((begin, end, Idle.QUEUE, culprit))
            else:
                pieces += _within(tasks.ends[last], makespan, Idle.TRANSFER, last, begin, end)
                pieces += _walk(tasks, last, min(tasks.ends[last], makespan), begin, end, own=True)
        for begin, end, idle, culprit in sorted(pieces):
            yield Gap(device, begin, end, idle or Idle.DRAIN, culprit, NOTHING)


def _free_parts(tasks: TimedTasks, device: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a gap: those in which a queued task holds the device, with that task, and the others."""
    for task in tasks.held[device] if tasks.held else ():
        if tasks.starts[task] < end and tasks.ends[task] > start:
            if tasks.starts[task] > start:
                yield start, tasks.starts[task], NOTHING
            yield max(start, tasks.starts[task]), min(end, tasks.ends[task]), task
            start = max(start, tasks.ends[task])
    if start < end:
        yield start, end, NOTHING


class GapCandidate(NamedTuple):
    """A task that might run in a gap: when its inputs are there, where it stands, and whether it takes memory."""

    ready: int
    position: int
    task: int
    takes: bool


def _pieces(tasks: TimedTasks, task: int, start: int, end: int, candidates: Candidates, fits: Fits) -> Iterator[Piece]:
    """Yield the pieces of the gap before a task: late, order, memory, and what the walk finds in the rest."""
    yield from _late(tasks, task, start, end)
    end = min(end, max(tasks.allowed[task], start))
    early = [candidate for candidate in candidates if candidate is not None and max(start, candidate.ready) < end]
    fitting = [one for one in early if not one.takes or fits(one.task, max(start, one.ready))]
    if fitting:
        best = min(fitting)
        begin = max(start, best.ready)
        yield begin, end, Idle.ORDER, best.task
        end = begin
    for candidate in early:
        begin = max(start, candidate.ready)
        if candidate not in fitting and begin < end:
            yield begin, end, Idle.MEMORY, candidate.task
            end = begin
    if start < end:
        yield from _walk(tasks, task, tasks.allowed[task], start, end)


def _walk(tasks: TimedTasks, task: int, time: int, start: int, end: int, *, own: bool = False) -> Iterator[Piece]:
    """Yield what the walk back from a task, which stands at `time`, finds; with `own` its own time counts too."""
    # what is queued waits from the moment at which it is made; the walk goes on with what made it
    while time > start and task != NOTHING:
        if own:
            is_lane = tasks.machine[task] >= tasks.devices
            yield from _within(tasks.starts[task], time, Idle.TRANSFER if is_lane else None, task, start, end)
            yield from _late(tasks, task, start, end)
            time = tasks.allowed[task]
        arc = tasks.tight[task]
        if task in tasks.queued and own:
            held_back, arc = arc, max(tasks.inputs[task], key=lambda one: tasks.ends[one.before])
            if held_back is not None:  # it waits behind another from when it is made on
                yield from _within(tasks.ends[arc.before], time, Idle.QUEUE, task, start, end)
            time = min(time, tasks.ends[arc.before])
        if arc is None:
            return
        left = time - max(arc.lag, 0)  # a lag below 0 leaves the time to the task before
        yield from _within(left, time, Idle.TRANSFER, arc.before, start, end)
        time, task, own = left, arc.before, True


def _late(tasks: TimedTasks, task: int, start: int, end: int) -> Iterator[Piece]:
    """Yield the time by which a task is late between two times; if measured, up to its message and from then on."""
    allowed, begin = tasks.allowed[task], tasks.starts[task]
    if not tasks.arrived:
        yield from _within(allowed, begin, Idle.LATE, task, start, end)
        return
    there = min(max(tasks.arrived[task], allowed), begin)
    yield from _within(allowed, there, Idle.MESSAGE, task, start, end)
    yield from _within(there, begin, Idle.RUNTIME, task, start, end)


def _within(first: int, last: int, idle: Idle | None, culprit: int, start: int, end: int) -> Iterator[Piece]:
    """Yield the part of a piece that lies between two times, if there is one."""
    first, last = max(first, start), min(last, end)
    if first < last:
        yield first, last, idle, culprit


class CostRange(NamedTuple):
    """How often a cost stands on a longest path: at least, and at most."""

    least: int
    most: int


def path_counts(
    tasks: TimedTasks,
    columns: Callable[[int], Sequence[int]],
    count: int,
    lasting: Callable[[int], Sequence[int]] | None = None,
) -> list[CostRange]:
    """Return for each of `count` columns how often it stands on a longest path.

    `columns` gives the columns in which a task counts; an arc and a delivery count in that of their tag. Tasks of no
    length at time 0 count towards the largest number alone: they would take time if they cost some. `lasting` gives the
    columns in which a task counts towards the least number (default: all): what costs nothing cannot cost less.
    """
    critical = [not slack for slack in tasks.slack]
    order = [task for task in tasks.topological if critical[task]]
    arcs = {
        task: [
            arc
            for arc in tasks.arcs(task)
            if critical[arc.before] and tasks.ends[arc.before] + arc.lag == tasks.allowed[task]
        ]
        for task in order
    }
    held = Counter(arc.before for into in arcs.values() for arc in into)
    known: dict[int, Ints] = {}  # the least counts on longest paths to a task, and the largest ones below 0
    ending: list[Ints] = []

    def passed(counts: Ints, tag: int) -> Ints:
        if tag != NOTHING:
            counts = counts.copy()
            counts[:, tag] += (1, -1)
        return counts

    for task in order:
        arriving = [passed(known[arc.before], arc.tag) for arc in arcs[task]]
        found = np.minimum.reduce(arriving) if arriving else np.zeros((2, count), np.int32)
        if not tasks.allowed[task]:  # a path may begin with it too
            found[0] = 0
        own = columns(task)
        for column in own:
            found[1, column] -= 1
        for column in own if lasting is None else lasting(task):
            found[0, column] += 1
        known[task] = found
        if tasks.outs[task] == tasks.makespan and tasks.may_end(task):
            ending.append(passed(found, tasks.delivery_tags[task] if tasks.delivery_tags else NOTHING))
        for arc in arcs[task]:
            held[arc.before] -= 1
            if not held[arc.before]:
                del known[arc.before]
    counts = np.minimum.reduce(ending).T.tolist() if ending else [(0, 0)] * count
    return [CostRange(least, -below) for least, below in counts]


class Places(NamedTuple):
    """The positions at which a task may stand in the order of its machine, the first and the last."""

    first: int
    last: int


def users_of(tasks: TimedTasks) -> list[list[int]]:
    """Return what waits for each task, but for the orders of machines."""
    users: list[list[int]] = [[] for _ in tasks.durations]
    for task, arcs in enumerate(watched(tasks.inputs)):
        for before in (*(arc.before for arc in arcs), *tasks.waits[task]):
            users[before].append(task)
    return users


def legal_places(tasks: TimedTasks, chosen: Sequence[int]) -> list[Places]:
    """Return where each of the chosen tasks may stand: behind what reaches it, before what it reaches."""
    pairs, users = zip(tasks.inputs, tasks.waits, strict=True), users_of(tasks)
    sources = [[*(arc.before for arc in inputs), *waits] for inputs, waits in pairs]
    reaching = _reaching(tasks, _positions(tasks), tasks.topological, sources)
    reached = _reaching(tasks, _positions(tasks, -1), tasks.topological[::-1], users)
    places = []
    for task in chosen:
        machine = tasks.machine[task]
        first = max((int(reaching[other, machine]) for other in sources[task]), default=NOTHING) + 1
        behind = max((int(reached[other, machine]) for other in users[task]), default=NOTHING)
        places.append(Places(first, len(tasks.orders[machine]) - 2 - behind))
    return places


def _positions(tasks: TimedTasks, step: int = 1) -> list[int]:
    """Return the position of each task in its order; with `step` -1 counted from the end."""
    positions = [NOTHING] * len(tasks.durations)
    for order in tasks.orders:
        for position, task in enumerate(order[::step]):
            positions[task] = position
    return positions


def _reaching(
    tasks: TimedTasks, positions: Sequence[int], order: Sequence[int], sources: Sequence[Sequence[int]]
) -> Ints:
    """Return the last position on each machine from which each task is reached, which stands behind it in `order`."""
    machines = len(tasks.orders)
    latest = np.full((len(tasks.durations), machines), NOTHING, np.int32)
    newest = [NOTHING] * machines
    for task in watched(order):
        row, machine = latest[task], tasks.machine[task]
        if newest[machine] != NOTHING:
            row[:] = latest[newest[machine]]
        for before in sources[task]:
            np.maximum(row, latest[before], out=row)
        row[machine] = positions[task]
        newest[machine] = task
    return latest


def _on_every_longest_path(tasks: TimedTasks) -> set[int]:
    """Return the tasks on every longest path: those that no arc between critical tasks passes by."""
    # critical tasks are numbered so that arcs go upwards; a path that has no stop at a number jumps over it
    critical = [task for task in watched(tasks.topological) if not tasks.slack[task]]
    number = {task: count for count, task in enumerate(critical)}
    jumps = [0] * (len(critical) + 2)

    def jump(before: int, after: int) -> None:
        jumps[before + 1] += 1
        jumps[after] -= 1

    for task in watched(critical):
        if not tasks.allowed[task]:
            jump(-1, number[task])
        if tasks.ends[task] == tasks.makespan and tasks.may_end(task):
            jump(number[task], len(critical))
        for arc in tasks.arcs(task):
            if arc.before in number and tasks.ends[arc.before] + arc.lag == tasks.allowed[task]:
                jump(number[arc.before], number[task])
    found, over = set(), 0
    for task, change in zip(critical, jumps, strict=False):
        over += change
        if not over:
            found.add(task)
    return found


def moved(order: Sequence[int], start: int, to: int) -> list[int]:
    """Return an order with the entry at one position at another one."""
    rest = [*order[:start], *order[start + 1 :]]
    return [*rest[:to], order[start], *rest[to:]]


def candidate_moves(tasks: TimedTasks, limits: TimedTasks | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield (task, from, to) for each move that may shorten the schedule, the shortest distances first.

    Of two moves that give the same order (neighbours that change places) the first is yielded. `limits` are the same
    tasks with the arcs alone that stay as they are when one moves; default: all do.
    """
    # a task on every longest path, which the critical path enters or leaves by the order of its device: any other move
    # leaves a longest path whole
    on_all, path, chosen = _on_every_longest_path(tasks), tasks.critical_path, list[int]()
    for position, task in enumerate(path):
        arcs = [tasks.tight[other] for other in path[position : position + 2]]
        by_order = any(arc is not None and not arc.is_input for arc in arcs)
        if by_order and task in on_all and tasks.machine[task] < tasks.devices:
            chosen.append(task)
    positions = _positions(tasks)
    found = [
        (abs(to - positions[task]), on_path, task, positions[task], to)
        for on_path, (task, places) in enumerate(zip(chosen, legal_places(limits or tasks, chosen), strict=True))
        for to in range(places.first, places.last + 1)
        if to != positions[task]
    ]
    seen: set[tuple[int, int, int]] = set()
    for distance, _, task, start, to in sorted(found):
        machine = tasks.machine[task]
        exchange = (machine, min(start, to), distance)
        if distance == 1 and exchange in seen:
            continue
        seen.add(exchange)
        yield task, start, to

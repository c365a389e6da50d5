"""Why a schedule takes its time: the critical path, slack, the class of each idle tick, and what a change would do.

It needs only tasks, orders and times (`TimedTasks`), whoever found them. Linear in tasks and precedences. One tick less
of a cost gains the least number of times that it stands on a longest path, one tick more costs the largest. A task may
move to where who reaches it and whom it reaches let it, whatever memory says.

`idle_gaps` classes idle time, by a walk from each gap back along what held tasks back (`_walk`). `path_counts` says
what costs do, `candidate_moves` which moves may help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import accumulate, chain, count
from operator import add
from typing import NamedTuple

from pipesched.core.arrays import Ints, np
from pipesched.core.clock import check_deadline, watched

NOTHING = -1  # no task, no machine, no tag
Fits = Callable[[int, int], bool]  # whether a task may start at a time, as far as the memory of its device goes
Piece = tuple[int, int, "Idle | None", int]  # of a gap: from, to, class (None: a device runs the culprit), culprit


class Arc(NamedTuple):
    """What a task waits for: the end of the task `before`, and then `lag` ticks."""

    before: int
    lag: int = 0
    tag: int = NOTHING  # what makes the lag (a boundary between stages), NOTHING if there is no such thing
    is_input: bool = True  # data goes this way; else it is the order of a machine, or a wait edge


@dataclass(eq=False, repr=False)
class TimedTasks:
    """Tasks in the orders of machines, with times: the subject of every question here.

    Times are in ticks, from 0, the first start. Machines are devices, and behind them lanes, whose own idle time nobody
    asks for. Deliveries occupy nobody.
    """

    durations: Sequence[int]
    inputs: Sequence[Sequence[Arc]]  # the arcs of data into each task
    waits: Sequence[Sequence[int]]  # the tasks that each waits for besides
    orders: Sequence[Sequence[int]]  # of machines
    devices: int  # how many of them are devices, the first ones
    starts: Sequence[int]  # like `ends` less than 0 for tasks in no order
    ends: Sequence[int]
    deliveries: Sequence[int] = ()  # how long after its end the result of each task is out; default: at once
    delivery_tags: Sequence[int] = ()  # what makes that time, as the tag of an arc
    arrived: Sequence[int] = ()  # measured: when the message was there that each waited for, less than 0 for none
    late_lanes: int = 0  # how many lanes, the last ones, may end the schedule, as devices do
    queued: range = range(0)  # tasks that stand in several queues at once, whose order `waits` has
    held: Sequence[Sequence[int]] = ()  # where such tasks hold devices while they run, those of each

    outs: Sequence[int] = field(init=False)  # when the result of each task is out
    machine: list[int] = field(init=False)
    ranks: list[int] = field(init=False)  # the place of each task in all orders one after the other
    previous: list[int] = field(init=False)  # the task before each on its machine
    last: int = field(init=False)  # the task that ends the schedule, the first of several; NOTHING where there is none
    makespan: int = field(init=False)  # when its result is out

    def __post_init__(self) -> None:
        outs = [*map(add, self.ends, self.deliveries)] if self.deliveries else self.ends
        machine, ranks, previous = ([NOTHING] * len(self.durations) for _ in range(3))
        place = count()
        for number, order in enumerate(self.orders):
            for before, task in zip((NOTHING, *order), order, strict=False):
                machine[task], ranks[task], previous[task] = number, next(place), before
        ending = *self.orders[: self.devices], *self.orders[len(self.orders) - self.late_lanes :]
        last = max(chain.from_iterable(ending), key=outs.__getitem__, default=NOTHING)
        makespan = 0 if last == NOTHING else outs[last]
        vars(self).update(outs=outs, machine=machine, ranks=ranks, previous=previous, last=last, makespan=makespan)

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

    WARM_UP = "warm_up"  # another device runs what it waits for, and it had no task before
    WAIT = "wait"  # the same, between two tasks of the device
    TRANSFER = "transfer"  # what it waits for is on its way, or a lane works on it
    QUEUE = "queue"  # its message waits for others in a queue
    ORDER = "order"  # a later task of the device could run
    MEMORY = "memory"  # a later task could run, did it fit the budget
    DRAIN = "drain"  # the same as in warm-up, and no task is left
    LATE = "late"  # the task could run; measured time is of the next two instead
    MESSAGE = "message"  # its message came later than its sender ended
    RUNTIME = "runtime"  # the rest of what is late

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
    """Idle time of a device, in ticks, of one class."""

    device: int
    start: int
    end: int
    idle: Idle
    culprit: int  # the task that it waits for, or that could have run
    waiting: int  # the next task of the device, NOTHING behind the last one


GapCandidate = tuple[int, int, int]  # what might run in a gap: when its inputs are there, its position, the task


def idle_gaps(tasks: TimedTasks, takes: Sequence[int], fits: Fits) -> Iterator[Gap]:
    """Yield the idle time of every device by class and culprit, by device and start; equal neighbours are joined.

    `takes` says what each task takes at its start; `fits` is asked only for one that takes something.
    """
    for device, order in enumerate(tasks.orders[: tasks.devices]):
        clocks, behind = [0, *accumulate(map(tasks.ends.__getitem__, order), max)], NOTHING
        found, best = list[list[Gap]](), list[GapCandidate | None]([None, None])  # of what stands behind a gap
        for position, task in reversed([*enumerate((*order, NOTHING))]):
            if behind != NOTHING:  # of each sort the least ready, of several the earliest
                ready = max((tasks.ends[arc.before] + arc.lag for arc in tasks.inputs[behind]), default=0)
                here, sort = (max(ready, 0), position + 1, behind), 0 if takes[behind] else 1
                best[sort] = min(here, best[sort] or here)
            start, end, behind = clocks[position], tasks.makespan if task == NOTHING else tasks.starts[task], task
            if start >= end:
                continue
            pieces, gaps = list[Piece](), list[Gap]()
            parts = _free_parts(tasks, device, start, end) if tasks.held else [(start, end, NOTHING)]
            for begin, until, culprit in parts:
                if culprit != NOTHING:
                    pieces.append((begin, until, Idle.QUEUE, culprit))
                else:
                    pieces += _pieces(tasks, task, begin, until, best, fits)
            walked = Idle.DRAIN if task == NOTHING else Idle.WAIT if position else Idle.WARM_UP
            for begin, until, idle, culprit in sorted(pieces):
                kind = idle or walked
                if gaps and (gaps[-1].end, gaps[-1].idle, gaps[-1].culprit) == (begin, kind, culprit):
                    gaps[-1] = gaps[-1]._replace(end=until)
                else:
                    gaps.append(Gap(device, begin, until, kind, culprit, task))
            found.append(gaps)
        yield from chain.from_iterable(reversed(found))


def _free_parts(tasks: TimedTasks, device: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a gap: those in which a queued task holds the device, with that task, and the others."""
    for task in tasks.held[device]:
        if tasks.starts[task] < end and tasks.ends[task] > start:
            if tasks.starts[task] > start:
                yield start, tasks.starts[task], NOTHING
            yield max(start, tasks.starts[task]), min(end, tasks.ends[task]), task
            start = max(start, tasks.ends[task])
    if start < end:
        yield start, end, NOTHING


def _pieces(
    tasks: TimedTasks, task: int, start: int, end: int, candidates: Sequence[GapCandidate | None], fits: Fits
) -> Iterator[Piece]:
    """Yield the pieces of a gap before a task: late, order, memory, and what the walk back finds in the rest.

    The candidates are one that takes memory, and one that takes none. Before the makespan there is the walk alone.
    """
    if task == NOTHING:  # the walk back from the makespan begins with the last delivery
        out = tasks.ends[tasks.last]
        found: list[Piece] = [(out, tasks.makespan, Idle.TRANSFER, tasks.last)]
        found += _walk(tasks, tasks.last, min(out, tasks.makespan), start, own=True)
    else:
        allowed = tasks.allowed[task]
        for first, last, idle, culprit in _late(tasks, task):
            if max(first, start) < min(last, end):
                yield max(first, start), min(last, end), idle, culprit
        end = min(end, max(allowed, start))
        early = [one for one in candidates if one is not None and max(start, one[0]) < end]
        fitting = [one for one in early if one is not candidates[0] or fits(one[2], max(start, one[0]))]
        kinds = [(one, Idle.ORDER) for one in sorted(fitting)[:1]]
        kinds += ((one, Idle.MEMORY) for one in early if one not in fitting)
        for (ready, _, other), idle in kinds:
            if max(start, ready) < end:
                yield max(start, ready), end, idle, other
                end = max(start, ready)
        found = [*_walk(tasks, task, allowed, start)] if start < end else []
    for first, last, idle, culprit in found:
        if max(first, start) < min(last, end):
            yield max(first, start), min(last, end), idle, culprit


def _walk(tasks: TimedTasks, task: int, time: int, start: int, *, own: bool = False) -> Iterator[Piece]:
    """Yield what the walk back from a task, which stands at `time`, finds down to a time; some may be below, or empty.

    With `own` its own time counts too.
    """
    # what is queued waits from the moment at which it is made; the walk goes on with what made it
    while time > start and task != NOTHING:
        if own:
            is_lane = tasks.machine[task] >= tasks.devices
            yield tasks.starts[task], time, Idle.TRANSFER if is_lane else None, task
            yield from _late(tasks, task)
            time = tasks.allowed[task]
        arc = tasks.tight[task]
        if task in tasks.queued and own:
            held_back, arc = arc, max(tasks.inputs[task], key=lambda one: tasks.ends[one.before])
            if held_back is not None:  # it waits behind another from when it is made on
                yield tasks.ends[arc.before], time, Idle.QUEUE, task
            time = min(time, tasks.ends[arc.before])
        if arc is None:
            return
        left = time - max(arc.lag, 0)  # a lag below 0 leaves the time to the task before
        yield left, time, Idle.TRANSFER, arc.before
        time, task, own = left, arc.before, True


def _late(tasks: TimedTasks, task: int) -> list[Piece]:
    """Return the time by which a task is late; if measured, that up to its message, and that from then on."""
    allowed, begin = tasks.allowed[task], tasks.starts[task]
    if not tasks.arrived:
        return [(allowed, begin, Idle.LATE, task)]
    there = min(max(tasks.arrived[task], allowed), begin)
    return [(allowed, there, Idle.MESSAGE, task), (there, begin, Idle.RUNTIME, task)]


def path_counts(
    tasks: TimedTasks,
    columns: Callable[[int], Sequence[int]],
    count: int,
    lasting: Callable[[int], Sequence[int]] | None = None,
) -> list[tuple[int, int]]:
    """Return for each of `count` columns how often it stands on a longest path: at least, and at most.

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
    return [(least, -below) for least, below in counts]


def users_of(tasks: TimedTasks) -> list[list[int]]:
    """Return what waits for each task, but for the orders of machines."""
    users: list[list[int]] = [[] for _ in tasks.durations]
    for task, arcs in enumerate(watched(tasks.inputs)):
        for before in (*(arc.before for arc in arcs), *tasks.waits[task]):
            users[before].append(task)
    return users


def legal_places(tasks: TimedTasks, chosen: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last position of each of the chosen tasks on its machine.

    It stands behind what reaches it, and before what it reaches.
    """
    pairs, users = zip(tasks.inputs, tasks.waits, strict=True), users_of(tasks)
    sources = [[*(arc.before for arc in inputs), *waits] for inputs, waits in pairs]
    reaching = _reaching(tasks, tasks.topological, sources)
    reached = _reaching(tasks, tasks.topological[::-1], users)
    places = []
    for task in chosen:
        machine = tasks.machine[task]
        first = max((int(reaching[other, machine]) for other in sources[task]), default=NOTHING) + 1
        behind = max((int(reached[other, machine]) for other in users[task]), default=NOTHING)
        places.append((first, len(tasks.orders[machine]) - 2 - behind))
    return places


def _reaching(tasks: TimedTasks, order: Sequence[int], sources: Sequence[Sequence[int]]) -> Ints:
    """Return the last position on each machine from which each task is reached, which stands behind it in `order`.

    Positions count in this order.
    """
    machines = len(tasks.orders)
    latest = np.full((len(tasks.durations), machines), NOTHING, np.int32)
    newest, counts = [NOTHING] * machines, [0] * machines
    for task in order:
        row, machine = latest[task], tasks.machine[task]
        if newest[machine] != NOTHING:
            row[:] = latest[newest[machine]]
        for before in sources[task]:
            np.maximum(row, latest[before], out=row)
        row[machine] = counts[machine]
        newest[machine], counts[machine] = task, counts[machine] + 1
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
    positions = {task: tasks.ranks[task] - tasks.ranks[tasks.orders[tasks.machine[task]][0]] for task in chosen}
    found = [
        (abs(to - positions[task]), on_path, task, positions[task], to)
        for on_path, (task, (first, last)) in enumerate(zip(chosen, legal_places(limits or tasks, chosen), strict=True))
        for to in range(first, last + 1)
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

"""Why a schedule takes as long as it does: what each task waits for, the critical path, and slack.

It needs only tasks, orders and times, whoever found them. Linear in tasks and precedences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import add
from typing import NamedTuple

NOTHING = -1  # no task, no machine, no tag


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
    for none.
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
        return max((self.outs[task] for order in self.ending_orders for task in order), default=0)

    @property
    def ending_orders(self) -> list[Sequence[int]]:
        """The orders of devices, and of the lanes that may end the schedule."""
        return [*self.orders[: self.devices], *self.orders[len(self.orders) - self.late_lanes :]]

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
            for task in order:
                allowed[task] = max((ends[arc.before] + arc.lag for arc in self.arcs(task)), default=0)
        return allowed

    @cached_property
    def tight(self) -> list[Arc | None]:
        """For each task the arc that holds it back: of several an input, with the longest lag, first in the orders.

        None for a task that may start at time 0.
        """
        tight: list[Arc | None] = [None] * len(self.durations)
        for order in self.orders:
            for task in order:
                tight[task] = self._tight(task)
        return tight

    def _tight(self, task: int) -> Arc | None:
        allowed, ends, ranks = self.allowed[task], self.ends, self.ranks
        if not allowed:
            return None
        reaching = [arc for arc in self.arcs(task) if ends[arc.before] + arc.lag == allowed]
        if len(reaching) == 1:
            return reaching[0]
        return min(reaching, key=lambda arc: (not arc.is_input, -arc.lag, ranks[arc.before]))

    def message(self, task: int) -> Arc | None:
        """Return the last of a task's inputs from other devices; None where it has none."""
        others = {*range(self.devices)} - {self.machine[task]}
        sent = [arc for arc in self.inputs[task] if self.machine[arc.before] in others]
        return max(sent, key=lambda arc: self.ends[arc.before], default=None)

    @cached_property
    def last(self) -> int:
        """The task whose result is out last, the first of several, of devices first; NOTHING where there is none."""
        ending = (task for order in self.ending_orders for task in order if self.outs[task] == self.makespan)
        return next(ending, NOTHING)

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
        for task in reversed(self.topological):
            start = latest[task] - self.durations[task]
            for arc in self.arcs(task):
                latest[arc.before] = min(latest[arc.before], start - arc.lag)
        slack = [NOTHING] * len(latest)
        for task in self.topological:
            slack[task] = latest[task] - self.ends[task]
        return slack

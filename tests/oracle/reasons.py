"""A second, naive answer to why a schedule is as long as it is: tick by tick, in dictionaries, straight from the rules.

It shares no code with `pipesched.core` and `pipesched.analysis.explain`: slow, plain, and meant to be read beside the
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from pipesched import Schedule
from tests.oracle.alike import setup_of
from tests.oracle.replay import Op, lag, memory_moves, name, needs, parts, slot_duration
from tests.oracle.setup import Setup

Slot = str
Row = tuple[int, str]  # the stage and the kind of a cost
Piece = tuple[int, int, str, Slot, "Slot | None"]  # from, to, class, culprit, waiting


class Arc(NamedTuple):
    """What a slot waits for: the end of another, and a lag; `boundary` is what makes the lag."""

    before: Slot
    lag: int = 0
    boundary: int | None = None
    is_input: bool = True


Rows = Sequence[Sequence[Slot]]
Arcs = Mapping[Slot, Sequence[Arc]]
Times = dict[Slot, int]


def retimed(rows: Rows, arcs: Arcs, lengths: Mapping[Slot, int], release: Mapping[Slot, int]) -> tuple[Times, Times]:
    """Run all rows, each slot as early as its arcs, the slot before it and its release allow. Raises ValueError when
    they wait for each other."""
    start: Times = {}
    end: Times = {}
    left = {number: 0 for number, row in enumerate(rows) if row}
    while left:
        moved = False
        for number in [*left]:
            row = rows[number]
            while left[number] < len(row) and all(arc.before in end for arc in arcs[row[left[number]]]):
                slot, place = row[left[number]], left[number]
                ready = [end[arc.before] + arc.lag for arc in arcs[slot]]
                begin = max(0, release.get(slot, 0), *ready, end[row[place - 1]] if place else 0)
                start[slot], end[slot] = begin, begin + lengths[slot]
                left[number] += 1
                moved = True
            if left[number] == len(row):
                del left[number]
        if left and not moved:
            raise ValueError("they wait for each other")
    return start, end


class Plain:
    """A timed plan, and every question about it. `arcs` are inputs and wait edges; times begin at 0."""

    def __init__(self, rows: Rows, devices: int, arcs: Arcs, start: Times, end: Times) -> None:
        self.rows, self.devices, self.arcs, self.start, self.end = rows, devices, arcs, start, end
        self.lengths = {slot: end[slot] - start[slot] for slot in start}
        self.order = [slot for row in rows for slot in row]
        self.rank = {slot: rank for rank, slot in enumerate(self.order)}
        self.before = {after: before for row in rows for before, after in pairwise(row)}
        self.on_device = {slot for row in rows[:devices] for slot in row}
        self.allowed = {slot: max([0, *map(self.arrival, self.all_arcs(slot))]) for slot in self.order}
        self.makespan = max(end[slot] for slot in self.on_device)

    def arrival(self, arc: Arc) -> int:
        """When what an arc carries is there."""
        return self.end[arc.before] + arc.lag

    def all_arcs(self, slot: Slot) -> list[Arc]:
        """Inputs, wait edges, and the slot before."""
        own = [Arc(self.before[slot], is_input=False)] if slot in self.before else []
        return [*self.arcs[slot], *own]

    def tight(self, slot: Slot) -> Arc | None:
        """The arc that holds a slot back: inputs first, then the longer lag, then the first in the order."""
        reaching = [arc for arc in self.all_arcs(slot) if self.arrival(arc) == self.allowed[slot] > 0]
        reaching.sort(key=lambda arc: self.rank[arc.before])
        reaching.sort(key=lambda arc: arc.lag, reverse=True)
        reaching.sort(key=lambda arc: arc.is_input, reverse=True)
        return reaching[0] if reaching else None

    def chain(self, slot: Slot) -> list[Slot]:
        """A slot, what held it back, what held that back, to time 0."""
        found = [slot]
        while (arc := self.tight(found[-1])) is not None:
            found.append(arc.before)
        return found

    @property
    def critical_path(self) -> list[Slot]:
        """From time 0 to the slot of a device that ends last, the first of several."""
        last = next(slot for slot in self.order if slot in self.on_device and self.end[slot] == self.makespan)
        return self.chain(last)[::-1]

    def with_release(self, release: Mapping[Slot, int]) -> int:
        """The makespan if some slots start later; all others start no sooner than now."""
        _, end = retimed(self.rows, self.arcs, self.lengths, {**self.start, **release})
        return max(end[slot] for slot in self.on_device)

    def points(self) -> list[int]:
        """The times at which anything may change: every start, end, arrival and allowed start."""
        times = {0, self.makespan, *self.start.values(), *self.end.values(), *self.allowed.values()}
        times |= {self.arrival(arc) for slot in self.order for arc in self.all_arcs(slot)}
        return sorted(time for time in times if 0 <= time <= self.makespan)

    def idle(self, device: int, times: Sequence[int], takes: Callable[[Slot], bool], fits: Fits) -> list[Piece]:
        """The idle time of a device: its class at each of these times holds until the next of them; equal neighbours
        are joined."""
        found: list[Piece] = []
        for time, until in pairwise(times):
            reason = self.reason(device, time, takes, fits)
            if reason is None:
                continue
            if found and found[-1][1] == time and found[-1][2:] == reason:
                found[-1] = (found[-1][0], until, *reason)
            else:
                found.append((time, until, *reason))
        return found

    def reason(
        self, device: int, time: int, takes: Callable[[Slot], bool], fits: Fits
    ) -> tuple[str, Slot, Slot | None] | None:
        """The class of the tick from `time` on, its culprit and the slot that waits; None where the device works."""
        row = self.rows[device]
        if any(self.start[slot] <= time < self.end[slot] for slot in row):
            return None
        place = next((place for place, slot in enumerate(row) if self.start[slot] > time), len(row))
        begin = max([0, *(self.end[slot] for slot in row[:place])])
        if place == len(row):
            last = self.critical_path[-1]
            return (*self.on_walk(self.walk(last, own=True), time, "drain"), None)
        waiting = row[place]
        if time >= self.allowed[waiting]:
            return "late", waiting, waiting
        held, full = self.held_back(row[place + 1 :], begin, self.allowed[waiting], takes, fits)
        if held is not None and time >= held[0]:
            return "order", held[1], waiting
        if full is not None and time >= full[0]:
            return "memory", full[1], waiting
        return (*self.on_walk(self.walk(waiting), time, "wait" if place else "warm_up"), waiting)

    def ready(self, slot: Slot) -> int:
        """When the inputs of a slot are there."""
        return max([0, *(self.arrival(arc) for arc in self.arcs[slot] if arc.is_input)])

    def held_back(
        self, later: Sequence[Slot], begin: int, end: int, takes: Callable[[Slot], bool], fits: Fits
    ) -> tuple[tuple[int, Slot] | None, tuple[int, Slot] | None]:
        """From when on which of the later slots fits, and which would but for memory; None where there is none."""
        fitting: list[tuple[int, int, int, Slot]] = []
        full = None
        for which in (True, False):
            sort = [(self.ready(slot), place, slot) for place, slot in enumerate(later) if takes(slot) == which]
            if not sort:
                continue
            ready, place, slot = min(sort)
            at = max(begin, ready)
            if at >= end:
                continue
            if not which or fits(slot, at):
                fitting.append((ready, place, at, slot))
            else:
                full = at, slot
        return (min(fitting)[2:] if fitting else None), full

    def walk(self, slot: Slot, *, own: bool = False) -> Iterator[tuple[int, int, str, Slot]]:
        """Every tick from `slot` back to 0: (from, to, "late", "transfer" or "runs", culprit)."""
        while True:
            if own:
                kind = "runs" if slot in self.on_device else "transfer"
                yield self.start[slot], self.end[slot], kind, slot
                yield self.allowed[slot], self.start[slot], "late", slot
            arc = self.tight(slot)
            if arc is None:
                return
            yield self.allowed[slot] - arc.lag, self.allowed[slot], "transfer", arc.before
            slot, own = arc.before, True

    def on_walk(self, walk: Iterable[tuple[int, int, str, Slot]], time: int, running: str) -> tuple[str, Slot]:
        """What the walk has at a tick: exactly one thing."""
        [(kind, slot)] = [(kind, slot) for begin, end, kind, slot in walk if begin <= time < end]
        return {"runs": running}.get(kind, kind), slot


Fits = Callable[[Slot, int], bool]


class PlainSchedule(Plain):
    """A schedule of a pipeline, read by the second replay; slots are texts. Without a setup microbatches are alike."""

    def __init__(self, schedule: Schedule, setup: Setup | None = None) -> None:
        plan, self.problem = schedule.plan, schedule.problem
        self.setup = setup or setup_of(schedule.problem)
        rows = [[str(plan.slot(number)) for number in order] for order in plan.orders]
        rows += [[str(plan.slot(number)) for number in lane] for pair in plan.lanes for lane in pair]
        self.planned = {op for row in rows for slot in row for op in self.parts(slot)}
        op = plan.index.op
        arcs = self.inputs(rows, [(str(op(early)), str(op(late))) for early, late in plan.waits])
        numbers = {str(plan.slot(number)): number for order in plan.machines for number in order}
        first = min(schedule.start_ticks[order[0]] for order in plan.orders if order)
        start = {slot: schedule.start_ticks[number] - first for slot, number in numbers.items()}
        end = {slot: schedule.end_ticks[number] - first for slot, number in numbers.items()}
        super().__init__(rows, self.problem.devices, arcs, start, end)
        assert self.lengths == {slot: self.length(slot) for slot in self.order}

    def parts(self, slot: Slot) -> list[Op]:
        """The operations of a slot."""
        return parts(self.setup, slot)

    def inputs(self, rows: Rows, waits: Sequence[tuple[str, str]]) -> Arcs:
        """What each slot waits for, those of both parts of a pair, and its wait edges."""
        slot_of = {op: slot for row in rows for slot in row for op in self.parts(slot)}
        slot_of_text = {name(self.setup, op): slot for op, slot in slot_of.items()}
        arcs: dict[Slot, list[Arc]] = {slot: [] for row in rows for slot in row}
        for op, slot in slot_of.items():
            for before in needs(self.setup, op, slot_of):
                here, there = self.setup.device(before.stage, op.microbatch), self.setup.device(op.stage, op.microbatch)
                late = self.ticks(lag(self.setup, before, op, here, there))
                arcs[slot].append(Arc(slot_of[before], late, min(before.stage, op.stage) if here != there else None))
        for early, late_one in waits:
            arcs[slot_of_text[late_one]].append(Arc(slot_of_text[early], is_input=False))
        return arcs

    def length(self, slot: Slot) -> int:
        """How long a slot takes."""
        return self.ticks(slot_duration(self.setup, self.parts(slot), self.home(slot)))

    def ticks(self, time: Fraction) -> int:
        """A time in ticks."""
        ticks = time * self.problem.ticks.per_unit
        assert ticks.denominator == 1
        return int(ticks)

    def earliest(self, rows: Rows | None = None) -> tuple[Times, Times]:
        """The earliest times, of other rows perhaps."""
        return retimed(rows or self.rows, self.arcs, self.lengths, {})

    def taken(self, slot: Slot) -> Fraction:
        """What a slot takes at its start, in grains."""
        return sum((amount for time, amount in self.changes(slot, 0, 1) if time == 0), Fraction(0))

    def changes(self, slot: Slot, start: int, end: int) -> Iterator[tuple[int, Fraction]]:
        """When a slot takes (above 0) and gives back (below 0) memory of its device, in grains."""
        for op in self.parts(slot):
            for move in memory_moves(self.setup, op, self.planned):
                yield end if move.at_end else start, move.change * self.problem.grains.per_unit

    def home(self, slot: Slot) -> int:
        """The device whose memory a slot uses."""
        op = self.parts(slot)[0]
        return self.setup.device(op.stage, op.microbatch)

    def room(self, device: int) -> Fraction | None:
        """What the budget of a device leaves for activations, in grains; None without one."""
        if self.problem.memory.budget is None:
            return None
        budget = Fraction(str(self.problem.memory.budget[device]))
        return (budget - self.setup.statics()[device]) * self.problem.grains.per_unit

    @cached_property
    def is_over(self) -> bool:
        """Whether some device holds more than its budget."""
        rooms = map(self.room, range(self.devices))
        peaks = (self.peak(device, self.rows, self.start, self.end) for device in range(self.devices))
        return any(room is not None and peak > room for room, peak in zip(rooms, peaks, strict=True))

    def fits(self, slot: Slot, time: int) -> bool:
        """Whether the memory of its device stays within its budget if a slot takes its memory at `time` already.

        A schedule that exceeds its budget obeys none.
        """
        device = self.home(slot)
        room = self.room(device)
        if room is None or self.is_over:
            return True
        others = [one for one in self.order if one != slot and self.home(one) == device]
        changes = [change for one in others for change in self.changes(one, self.start[one], self.end[one])]
        changes += self.changes(slot, time, time + self.lengths[slot])
        looked = {time, *(when for when, _ in changes)}
        levels = (
            sum(amount for when, amount in changes if when <= at) for at in looked if time <= at < self.start[slot]
        )
        return max(levels) <= room

    def peak(self, device: int, rows: Rows, start: Times, end: Times) -> Fraction:
        """The peak of a device with other times, in grains: what is freed counts before what is taken."""
        own = [slot for row in rows for slot in row if self.home(slot) == device]
        changes = sorted(change for slot in own for change in self.changes(slot, start[slot], end[slot]))
        level = highest = Fraction(0)
        for _, change in changes:
            level += change
            highest = max(highest, level)
        return highest

    def gaps(self, times: Sequence[int] | None = None) -> list[tuple[int, Piece]]:
        """All idle time, device by device."""
        at = times or self.points()
        return [
            (device, piece)
            for device in range(self.devices)
            for piece in self.idle(device, at, lambda slot: self.taken(slot) > 0, self.fits)
        ]

    def ops_of(self, slot: Slot) -> list[str]:
        """The texts of the operations of a slot."""
        return [name(self.setup, op) for op in self.parts(slot)]

    def costs_of(self, slot: Slot, *, lasting: bool = False) -> list[Row]:
        """The costs in the duration of a slot; with `lasting` those that are more than nothing."""
        ops = self.parts(slot)
        if len(ops) == 2 and self.setup.overlap is not None:
            return [(ops[0].stage, "overlap")] if self.lengths[slot] or not lasting else []
        times = [slot_duration(self.setup, [op], self.home(slot)) for op in ops]
        return [(op.stage, op.kind) for op, time in zip(ops, times, strict=True) if time or not lasting]

    @property
    def least_hops(self) -> Sequence[int]:
        """The least latency of each boundary, of all units both ways."""
        setup, found = self.setup, []
        for edge in pairwise(range(setup.stages)):
            ends = [(unit, [setup.device(stage, unit[0]) for stage in edge]) for unit in setup.units]
            found.append(min(setup.latency(edge, unit, *way) for unit, two in ends for way in (two, two[::-1])))
        return [*map(self.ticks, found)]

    def makespan_with(self, scale: int, changed: Row | int | None, by: int) -> int:
        """The makespan at the earliest times, in parts of a tick, with one cost or one latency changed."""
        lengths = {
            slot: scale * self.lengths[slot] + by * sum(cost == changed for cost in self.costs_of(slot, lasting=by < 0))
            for slot in self.order
        }
        arcs = {
            slot: [
                arc._replace(lag=scale * arc.lag + by * (arc.boundary is not None and arc.boundary == changed))
                for arc in own
            ]
            for slot, own in self.arcs.items()
        }
        _, end = retimed(self.rows, arcs, lengths, {})
        return max(end[slot] for slot in self.on_device)

    def every_move(self) -> Iterator[tuple[Slot, int, int, Rows, int | None]]:
        """Every move of a slot of a device: slot, from, to, the rows then, and the makespan (None: a deadlock)."""
        for device, row in enumerate(self.rows[: self.devices]):
            for start, slot in enumerate(row):
                rest = [*row[:start], *row[start + 1 :]]
                for to in range(len(row)):
                    rows = [*self.rows]
                    rows[device] = [*rest[:to], slot, *rest[to:]]
                    try:
                        _, end = self.earliest(rows)
                    except ValueError:
                        yield slot, start, to, rows, None
                    else:
                        yield slot, start, to, rows, max(end[one] for one in self.on_device)

"""Side work in the idle times of a schedule (`side_schedule`): forwards late, backwards early, and better places.

An encoder's forward E and backward G, of 2 ticks, may run on either of two devices, for stage 0. By the rule `first`
they stand before and behind all passes, by `bubbles` where devices would wait:

    first, 32 ticks     device 0   E0 E2 F0 F1 B0 F2 B1 B2 G0 G2     device 1   E1 F0 B0 F1 B1 F2 B2 G1
    bubbles, 28 ticks   device 0   E0 F0 E2 F1 B0 F2 B1 G0 B2 G2     device 1   E1 F0 B0 F1 B1 F2 B2 G1

Forwards are put in while time runs backwards, from the last possible starts of all slots: what finds no gap stands
before all slots, in turn on the devices that are free there. Backwards are put in behind what they wait for, and else
behind all slots. So neither delays a slot by more than what the other devices cannot take over. Then some of the side
work is taken out and put in again, while that makes the schedule shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache
from itertools import chain, count
from random import Random
from typing import NamedTuple

from pipesched.core.clock import EVERY, check_deadline
from pipesched.core.tasks import reversed_graph
from pipesched.core.timing import earliest_times
from pipesched.errors import InvalidSchedule
from pipesched.pipeline.bounds.bounds import lower_bound
from pipesched.pipeline.plan.plan import NOTHING_BEFORE, Plan, settled, with_parts, with_scoped
from pipesched.pipeline.plan.schedule import Schedule, best_ahead, schedule_plan, timed_plan
from pipesched.pipeline.plan.step import AUTO
from pipesched.pipeline.plan.step_plan import optimizers, with_programs
from pipesched.pipeline.problem.ops import Op, StepOp
from pipesched.pipeline.problem.problem import Problem
from pipesched.schedulers.options import FIRST

LOOK = 32  # gaps of a device that are looked at for one piece of work, before its last
ALL_WAYS = 4_000  # slots up to which all ways are tried, else the first one alone

# how side work is put in: which kind first, whose devices the other one takes, and whether between slots too
Filling = tuple[str, bool]
WAYS = (("GE", True), ("EG", True), ("GE", False), ("EG", False))


def side_schedule(problem: Problem, plan: Plan, rule: str | None = None) -> Schedule:
    """Return the schedule of a plan of passes with side work by a rule, None: bubbles. Raises Deadlock.

    By `bubbles` it is never longer than by `first`, and within the budget where that is.
    """
    if not problem.side or rule == FIRST or plan.index.scoped:
        return schedule_plan(problem, plan)
    problem = settled(problem, plan)
    if problem.sharding.ahead == AUTO:
        return best_ahead(problem, lambda one: side_schedule(one, plan, rule))
    best = first = schedule_plan(problem, plan)
    insertion = SideInsertion(problem, plan)
    for way in WAYS if len(insertion.alone.start_ticks) <= ALL_WAYS else WAYS[:1]:
        with suppress(InvalidSchedule):  # slots of no length may let it wait in a circle
            found = insertion.schedule(way)
            best = found if _is_better(found, best, first) else best
    return improved(insertion, best, first)


def _is_better(found: Schedule, best: Schedule, first: Schedule) -> bool:
    """Return whether a schedule is preferred to another one: within the budget, then shorter; never above `first`."""
    if found.makespan_ticks > first.makespan_ticks:
        return False
    return (not found.fits, found.makespan_ticks) < (not best.fits, best.makespan_ticks)


class FreeGap(NamedTuple):
    """A free time of a device: the place among its slots, from when on, and until when (None: for ever), in ticks."""

    place: int
    begin: int
    end: int | None


class SideChoice(NamedTuple):
    """A device that may run a piece of side work, from when on, and for how long, in ticks."""

    device: int
    ready: int
    length: int


SideTask = tuple[Op, Sequence[SideChoice]]  # and the devices that may run it


def fill(gaps: Sequence[Sequence[FreeGap]], works: Iterable[SideTask]) -> list[tuple[Op, int, int]]:
    """Return the device of each work and the place of its gap; `gaps` are those of each device, in order of time.

    One after another, each goes where it ends first, of equals to the device that has less of it.
    """
    devices, loads, placed = [_FreeDevice([*one]) for one in gaps], [0] * len(gaps), list[tuple[Op, int, int]]()
    for step, (op, choices) in zip(count(1), works):
        if not step & EVERY:
            check_deadline()
        ends = [(devices[one.device].first_end(one), one) for one in choices]
        (end, gap), chosen = min(ends, key=lambda one: (one[0][0], loads[one[1].device]))
        loads[chosen.device] += chosen.length
        placed.append((op, chosen.device, devices[chosen.device].put(gap, end, chosen.ready)))
    return placed


class _FreeDevice:
    """The gaps of a device; work fills each of them from its beginning."""

    def __init__(self, gaps: list[FreeGap]) -> None:
        self.gaps, self.first = gaps, 0

    def first_end(self, choice: SideChoice) -> tuple[int, int]:
        """Return when a work can end first here, and in which gap that is."""
        _, ready, length = choice
        last = len(self.gaps) - 1
        room = max(length, 1)  # work of no length would fit a gap that ends as it gets ready, before what it waits for
        for gap in range(self.first, min(self.first + LOOK, last)):
            _, low, high = self.gaps[gap]
            start = low if low > ready else ready
            if high is not None and start + room <= high:
                return start + length, gap
        return max(self.gaps[last][1], ready) + length, last

    def put(self, gap: int, end: int, ready: int) -> int:
        """Fill a gap up to `end`, and return its place; gaps that are over before `ready` are left behind."""
        place, _, until = self.gaps[gap]
        self.gaps[gap] = FreeGap(place, end, until)
        while self.first < len(self.gaps) - 1:
            _, low, high = self.gaps[self.first]
            if high is not None and max(low, ready) < high:
                break
            self.first += 1
        return place


Rows = list[list[int | Op]]  # the slots of each device: numbers of passes, and operations of the step
Part = tuple[int, int]  # an item of side work, and a microbatch
BOTH = {"E": "forward", "G": "backward"}


class SideInsertion:
    """The passes of a plan with optimizers and network programs, in whose idle times side work finds a place."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        self.updates = [*optimizers(problem, plan)]
        self.alone = self.timed([[*order] for order in plan.orders])
        self.lasts = cache(problem.step_ticks.side_lasts)

    def timed(self, rows: Rows) -> Schedule:
        """Return the schedule with these slots of each device, and optimizers behind them. Raises Deadlock."""
        whole = [[*row, *last] for row, last in zip(rows, self.updates, strict=True)]
        ops = (op for row in whole for op in row if isinstance(op, Op))
        index = with_scoped(self.plan.index, ops, len(self.problem.side))
        orders = [[index.number(one) if isinstance(one, Op) else one for one in row] for row in whole]
        return timed_plan(self.problem, with_programs(self.problem, with_parts(self.plan, index=index, orders=orders)))

    def schedule(self, way: Filling) -> Schedule:
        """Return the schedule with all side work put in. Raises Deadlock."""
        every = {(item, one) for item in range(len(self.problem.side)) for one in range(self.problem.microbatches)}
        return self._put_in(self.alone, every, way)

    def again(self, schedule: Schedule, some: Set[Part], way: Filling) -> Schedule:
        """Return the schedule with some of the side work taken out and put in again. Raises Deadlock."""
        rows: Rows = [
            [slot for slot in row if not isinstance(slot, Op) or (slot.stage, slot.microbatch) not in some]
            for row in self.rows(schedule)
        ]
        return self._put_in(self.timed(rows), some, way)

    def _put_in(self, schedule: Schedule, parts: Set[Part], way: Filling) -> Schedule:
        """Return the schedule with these parts of the side work put in, first those of one kind."""
        (kinds, between), devices = way, dict[Part, int]()  # those that the other kind has already
        for kind in kinds:
            times = _SlotTimes(schedule, late=kind == "E")
            works = sorted(self._works(kind, parts, times, devices), key=lambda one: one[0])
            shortest = min((length for _, (_, choices) in works for *_, length in choices), default=0)
            gaps = [times.gaps(device, len(last), shortest) for device, last in enumerate(self.updates)]
            placed = fill(gaps if between else [one[-1:] for one in gaps], [work for _, work in works])
            added: dict[tuple[int, int], list[Op]] = {}
            for op, device, place in placed[::-1] if kind == "E" else placed:
                devices[op.stage, op.microbatch] = device
                added.setdefault((device, place), []).append(op)
            rows: Rows = []
            for device, row in enumerate(self.rows(schedule)):
                both = ((*added.get((device, place), ()), *row[place : place + 1]) for place in range(len(row) + 1))
                rows.append([*chain.from_iterable(both)])
            schedule = self.timed(rows) if works else schedule
        return schedule

    def rows(self, schedule: Schedule) -> Rows:
        """Return the slots of each device without optimizers."""
        index, first = schedule.plan.index, schedule.plan.index.passes
        return [
            [number if number < first else index.op(number) for number in order[: len(order) - len(last)]]
            for order, last in zip(schedule.plan.orders, self.updates, strict=True)
        ]

    def _works(
        self, kind: str, parts: Set[Part], times: _SlotTimes, devices: Mapping[Part, int]
    ) -> Iterator[tuple[int, SideTask]]:
        """Yield side work of a kind with the time from which on it may run."""
        ticks, there, key = self.problem.step_ticks, self.problem.settled_placement.devices, BOTH[kind]
        for part in sorted(parts):
            number, microbatch = part
            item = self.problem.side[number]
            lengths = getattr(item, key)
            if lengths is None:
                continue
            ready, home, lag = times.ready(item.into, microbatch), there[item.into], ticks.side_p2p[number]
            alike = microbatch if len(lengths) > 1 else 0
            choices = [
                SideChoice(device, ready + (lag if device != home else 0), self.lasts(key, number, alike, device))
                for device in ((devices[part],) if part in devices else item.devices)
            ]
            yield ready, (StepOp._make((number, kind, microbatch, 0)), choices)


class _SlotTimes:
    """The slots of a schedule as early as they can; or `late`, as close to the end as they can, in time that runs back.

    So backwards of side work stand behind what they wait for, and forwards before their stage.
    """

    def __init__(self, schedule: Schedule, *, late: bool) -> None:
        self.schedule, self.index, self.late = schedule, schedule.plan.index, late
        self.starts, self.ends = schedule.start_ticks, schedule.end_ticks
        if late:  # ticks before the end, below 0
            last = len(schedule.graph) - 1
            machines = [[last - one for one in reversed(order)] for order in schedule.plan.machines]
            ends, starts = earliest_times(reversed_graph(schedule.graph), machines)
            self.starts, self.ends = ([-tick for tick in reversed(ticks)] for ticks in (starts, ends))

    def ready(self, stage: int, microbatch: int) -> int:
        """Return when side work of a microbatch into a stage may run at first."""
        units = self.index.in_units(range(microbatch, microbatch + 1))
        if self.late:
            return -self.starts[self.index.row("F", stage)[units][0]]
        rows = [self.index.row(kind, stage)[units] for kind in self.index.gradients]
        return max(self.ends[number] for number in chain(*rows))

    def gaps(self, device: int, last: int, shortest: int) -> list[FreeGap]:
        """Return where a device is free for work that is not shorter; `last` slots at the end keep their place."""
        order, gathers = self.schedule.plan.orders[device], dict[int, list[int]]()  # behind each slot: work delays them
        unshards = self.index.of_kind("UNSHARD") if self.schedule.problem.sharding.divides("weights") else ()
        for number, after in self.schedule.plan.network[device] if unshards else ():
            if number in unshards:
                gathers.setdefault(after, []).append(number)
        count, found = len(order) - last, list[FreeGap]()
        for place in range(count + 1):
            before = order[place - 1] if place else NOTHING_BEFORE
            low = self.ends[before] if place else 0
            high = min((self.starts[one] for one in (*order[place : place + 1], *gathers.get(before, ()))), default=0)
            is_last = place == (0 if self.late else count)
            if is_last or high - low >= max(shortest, 1):
                begin, end = (-high, -low) if self.late else (low, high)
                found.append(FreeGap(place, begin, None if is_last else end))
        return found[::-1] if self.late else found


MOST_ROUNDS = 24
MOST_SLOTS = 6_000  # in all rounds
FEWEST_ROUNDS = 6  # with fewer it is not worth its time
PARTS = 4  # of the side work that are taken out at once, at most


def improved(insertion: SideInsertion, best: Schedule, first: Schedule) -> Schedule:
    """Return the best schedule that is found from this one on, or itself; `first` is that of the rule."""
    rounds = min(MOST_ROUNDS, MOST_SLOTS // len(best.start_ticks))
    random, here = Random(0), best
    bound = lower_bound(best).ticks
    if rounds < FEWEST_ROUNDS or best.makespan_ticks == bound:
        return best
    tight = _tight(best)
    for turn in range(rounds):
        check_deadline()
        if not tight or (best.fits and best.makespan_ticks == bound):
            break
        some = frozenset(random.sample(tight, min(1 + turn % PARTS, len(tight))))
        try:
            found = insertion.again(here, some, WAYS[turn // PARTS % len(WAYS)])
        except InvalidSchedule:
            continue
        if _is_better(found, best, first):
            best = found
        if found.makespan_ticks <= here.makespan_ticks and (found.fits or not here.fits):
            here, tight = found, _tight(found)
    return best


def _tight(schedule: Schedule) -> list[Part]:
    """Return the side work that cannot end later without moving the end of the schedule."""
    index, late, ends = schedule.plan.index, _SlotTimes(schedule, late=True).ends, schedule.end_ticks
    numbers = chain(index.of_kind("E"), index.of_kind("G"))
    tight = (one for one in numbers if ends[one] - late[one] == schedule.last_ticks)
    return [*dict.fromkeys((op.stage, op.microbatch) for op in map(index.op, tight))]

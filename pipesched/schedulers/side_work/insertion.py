"""Side work in the idle times of a schedule: forwards as late as they delay nothing, backwards as early as they can.

Forwards are put in while time runs backwards, from the last possible starts of all slots: what finds no gap stands
before all slots, in turn on the devices that are free there. Backwards are put in behind what they wait for, and else
behind all slots. So neither delays a slot by more than what the other devices cannot take over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from typing import NamedTuple

from pipesched.core.tasks import reversed_graph
from pipesched.core.timing import earliest_times
from pipesched.pipeline.ops import Op, StepOp
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, timed_plan
from pipesched.pipeline.step_rule import optimizers, with_programs, with_slots
from pipesched.schedulers.side_work.gaps import FreeTime, Placed, SideTask, fill

Rows = list[list[int | Op]]  # the slots of each device: numbers of passes, and operations of the step
Part = tuple[int, int]  # an item of side work, and a microbatch
BOTH = {"E": "forward", "G": "backward"}


class Filling(NamedTuple):
    """How side work is put in: which kind first, whose devices the other one takes, and whether between slots too."""

    kinds: tuple[str, ...]
    between: bool = True


WAYS = (
    Filling(("G", "E")),
    Filling(("E", "G")),
    Filling(("G", "E"), between=False),
    Filling(("E", "G"), between=False),
)


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
        return timed_plan(self.problem, with_programs(self.problem, with_slots(self.problem, self.plan, whole)))

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
        devices: dict[Part, int] = {}
        for kind in way.kinds:
            placed = self._placed(schedule, kind, parts, devices, between=way.between)
            devices.update({(one.op.stage, one.op.microbatch): one.device for one in placed})
            schedule = self.timed(self._with(schedule, placed))
        return schedule

    def rows(self, schedule: Schedule) -> Rows:
        """Return the slots of each device without optimizers."""
        index, first = schedule.plan.index, schedule.plan.index.passes
        counts = map(len, self.updates)
        return [
            [number if number < first else index.op(number) for number in order[: len(order) - count]]
            for order, count in zip(schedule.plan.orders, counts, strict=True)
        ]

    def _with(self, schedule: Schedule, placed: Sequence[Placed]) -> Rows:
        """Return the slots of a schedule with placed work among them."""
        added: dict[tuple[int, int], list[Op]] = {}
        for one in placed:
            added.setdefault((one.device, one.place), []).append(one.op)
        rows: Rows = []
        for device, row in enumerate(self.rows(schedule)):
            whole: list[int | Op] = []
            for place, slot in enumerate(row):
                whole += [*added.get((device, place), ()), slot]
            rows.append([*whole, *added.get((device, len(row)), ())])
        return rows

    def _placed(
        self, schedule: Schedule, kind: str, parts: Set[Part], devices: Mapping[Part, int], *, between: bool
    ) -> list[Placed]:
        """Return places for side work of a kind; on these devices, where the other kind has them already."""
        times = _Backwards(schedule) if kind == "E" else _Forwards(schedule)
        loads = [0] * self.problem.devices
        works = [*self._works(kind, parts, times, devices)]
        shortest = min((length for _, work in works for *_, length in work.choices), default=0)
        gaps = [times.gaps(device, len(last), shortest) for device, last in enumerate(self.updates)]
        works.sort(key=lambda one: one[0])
        placed = fill(gaps if between else [one[-1:] for one in gaps], [work for _, work in works], loads)
        return placed[::-1] if kind == "E" else placed

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
                (device, ready + (lag if device != home else 0), self.lasts(key, number, alike, device))
                for device in ((devices[part],) if part in devices else item.devices)
            ]
            yield ready, SideTask(StepOp._make((number, kind, microbatch, 0)), choices)


class _SlotTimes:
    """The slots of a schedule in an order of time."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.index = schedule, schedule.plan.index

    def ready(self, stage: int, microbatch: int) -> int:
        """Return when side work of a microbatch into a stage may run at first."""
        raise NotImplementedError

    def gaps(self, device: int, last: int, shortest: int) -> list[FreeTime]:
        """Return where a device is free for work that is not shorter; `last` slots at the end keep their place."""
        raise NotImplementedError

    def gathers(self, device: int) -> dict[int, list[int]]:
        """Return the gathers that are issued behind each slot: side work behind it would delay them."""
        found: dict[int, list[int]] = {}
        if not self.schedule.problem.sharding.divides("weights"):
            return found
        gathers = self.index.of_kind("UNSHARD")
        for number, after in self.schedule.plan.network[device]:
            if number in gathers:
                found.setdefault(after, []).append(number)
        return found

    def units(self, microbatch: int) -> slice:
        return self.index.in_units(range(microbatch, microbatch + 1))


class _Forwards(_SlotTimes):
    """Time as it runs: slots as early as they can, backwards of side work behind what they wait for."""

    def ready(self, stage: int, microbatch: int) -> int:
        rows = [self.index.row(kind, stage)[self.units(microbatch)] for kind in self.index.gradients]
        return max(self.schedule.end_ticks[number] for number in chain(*rows))

    def gaps(self, device: int, last: int, shortest: int) -> list[FreeTime]:
        order = self.schedule.plan.orders[device]
        slots = order[: len(order) - last]
        starts, ends, gathers = self.schedule.start_ticks, self.schedule.end_ticks, self.gathers(device)
        found, low, before = [], 0, -1
        for place, slot in enumerate(slots):
            high = min([starts[slot], *(starts[one] for one in gathers.get(before, ()))])
            if high - low >= max(shortest, 1):
                found.append(FreeTime(place, low, high))
            low, before = ends[slot], slot
        return [*found, FreeTime(len(slots), low, None)]


class _Backwards(_SlotTimes):
    """Time as it runs backwards from the end: slots as late as they can, forwards of side work before their stage."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        graph = schedule.graph
        self.last = len(graph) - 1
        machines = [[self.last - one for one in reversed(order)] for order in schedule.plan.machines]
        self.starts, self.ends = earliest_times(reversed_graph(graph), machines)

    def ready(self, stage: int, microbatch: int) -> int:
        return self.ends[self.last - self.index.row("F", stage)[self.units(microbatch)][0]]

    def gaps(self, device: int, last: int, shortest: int) -> list[FreeTime]:
        order, gathers = self.schedule.plan.orders[device], self.gathers(device)
        slots = order[: len(order) - last]
        low = self.ends[self.last - order[len(slots)]] if last else 0
        found = []
        for place in range(len(slots), -1, -1):
            before = slots[place - 1] if place else -1
            low = max([low, *(self.ends[self.last - one] for one in gathers.get(before, ()))])
            high = self.starts[self.last - before] if place else None
            if high is None or high - low >= max(shortest, 1):
                found.append(FreeTime(place, low, high))
            low = self.ends[self.last - before] if place else low
        return found

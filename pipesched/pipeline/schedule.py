"""A schedule: a problem, a plan, and the start of every operation. Every figure that people quote is a property.

Times are in ticks (`problem.costs.scale` to the user's unit), memory in grains (`problem.memory.scale`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import add, itemgetter, sub

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import earliest_times
from pipesched.errors import Deadlock
from pipesched.pipeline.lowering import lower_plan
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem


@dataclass(frozen=True, eq=False)
class Schedule:
    """`starts` and `ends` are by operation number; an overlapped backward has those of its pair."""

    problem: Problem
    plan: Plan
    starts: Sequence[int]
    ends: Sequence[int]
    graph: TaskGraph = field(repr=False)

    @cached_property
    def slot_starts(self) -> list[tuple[int, ...]]:
        """The start of each slot of each device, in order."""
        return [pick(self.starts) for pick in self._pickers]

    @cached_property
    def slot_ends(self) -> list[tuple[int, ...]]:
        """The end of each slot of each device, in order."""
        return [pick(self.ends) for pick in self._pickers]

    @cached_property
    def _pickers(self) -> list[Callable[[Sequence[int]], tuple[int, ...]]]:
        return [picker(order) for order in self.plan.orders]

    @cached_property
    def first_start(self) -> list[int]:
        """When each device starts its first slot (0 for a device without work)."""
        return [starts[0] if starts else 0 for starts in self.slot_starts]

    @cached_property
    def last_end(self) -> list[int]:
        """When each device ends its last slot."""
        return [ends[-1] if ends else 0 for ends in self.slot_ends]

    @cached_property
    def makespan(self) -> int:
        """Last end minus first start, over all devices."""
        return max(self.last_end) - min(self.first_start)

    @cached_property
    def span(self) -> int:
        """The largest over devices of (last end - own first start): an iteration's time when iterations tile."""
        return max(end - start for end, start in zip(self.last_end, self.first_start, strict=True))

    @cached_property
    def busy(self) -> list[int]:
        """The time that each device works."""
        return [sum(ends) - sum(starts) for starts, ends in zip(self.slot_starts, self.slot_ends, strict=True)]

    @cached_property
    def idle(self) -> list[int]:
        """The time within the makespan that each device does not work."""
        return [self.makespan - busy for busy in self.busy]

    @property
    def ideal(self) -> int:
        """The largest busy time of a device, without what it recomputes."""
        if "R" not in self.plan.index.kinds:
            return max(self.busy)
        again, durations = set(self._recomputes), self.graph.durations
        return max(sum(durations[task] for task in order if task not in again) for order in self.plan.orders)

    @property
    def recomputed(self) -> int:
        """How many activations (one a stage and microbatch) are recomputed."""
        return len(self._recomputes)

    @cached_property
    def _recomputes(self) -> list[int]:
        """Every R of the plan."""
        if "R" not in self.plan.index.kinds:
            return []
        again = set(chain(*self.plan.index.rows("R")))
        return [task for order in self.plan.orders for task in order if task in again]

    @property
    def offloaded(self) -> int:
        """How many activations are offloaded."""
        return sum(len(lane.out) for lane in self.plan.lanes)

    @property
    def bubble(self) -> float:
        """Idle device-time / (devices x makespan). 1F1B with equal stages: (P-1)/(M+P-1)."""
        return _ratio(sum(self.idle), self.problem.devices * self.makespan)

    @property
    def bubble_over_ideal(self) -> float:
        """(makespan - ideal) / ideal: Megatron's figure."""
        return _ratio(self.makespan - self.ideal, self.ideal)

    @property
    def bubble_span(self) -> float:
        """1 - ideal / span: Zero Bubble's figure."""
        return _ratio(self.span - self.ideal, self.span)

    @cached_property
    def peak_memory(self) -> list[int]:
        """The largest activation memory of each device over time, in grains.

        What is freed at a time counts before what is taken then.
        """
        devices = range(self.problem.devices)
        # Transfers take and free at any time, and slots of no length several times at one instant.
        if self.plan.lanes or 0 in self.graph.durations:
            return [max(level for _, level in self.memory_steps(device)) for device in devices]
        return [self._highest_at_starts(device) for device in devices]

    def _highest_at_starts(self, device: int) -> int:
        """The largest level as slots start, which is the peak where every slot takes time."""
        pick = self._pickers[device]
        takes, gives = pick(self.graph.takes), pick(self.graph.gives)
        return max(map(add, accumulate(map(sub, takes, gives)), gives), default=0)

    def memory_steps(self, device: int) -> Iterator[tuple[int, int]]:
        """The activation memory of a device over time as (time, level from then on), times rising."""
        level, now = 0, 0
        changes = []
        for task in chain(self.plan.orders[device], self._transfers[device]):
            changes += [(self.starts[task], self.graph.takes[task]), (self.ends[task], -self.graph.gives[task])]
        for time, change in sorted(changes):
            if time != now:
                yield now, level
            now, level = time, level + change
        yield now, level

    @cached_property
    def _transfers(self) -> list[list[int]]:
        """The offloads and loads of each device."""
        tasks: list[list[int]] = [[] for _ in range(self.problem.devices)]
        for task in chain.from_iterable(chain.from_iterable(self.plan.lanes)):
            tasks[self.graph.pools[task]].append(task)
        return tasks

    @property
    def fits(self) -> bool:
        """Whether every device's peak and static memory stay within its budget (true without one)."""
        return not self.over_budget

    @property
    def over_budget(self) -> list[int]:
        """The devices whose peak and static memory exceed their budget."""
        pairs = zip(self.peak_memory, self.problem.room(), strict=True)
        return [device for device, (peak, room) in enumerate(pairs) if room is not None and peak > room]


def schedule_plan(problem: Problem, plan: Plan) -> Schedule:
    """`plan` with every slot as early as its order and dependencies allow. Raises Deadlock with the cycle of
    operations.
    """
    graph = lower_plan(problem, plan)
    try:
        starts, ends = earliest_times(graph, plan.machines)
    except Deadlock as error:
        raise Deadlock(_explain(error, plan), error.cycle, error.awaited) from None
    for forward, backward in plan.pairs.items():
        starts[backward], ends[backward] = starts[forward], ends[forward]
    return Schedule(problem, plan, starts, ends, graph)


def assemble(problem: Problem, plan: Plan, starts: Sequence[int], ends: Sequence[int]) -> Schedule:
    """A schedule whose times came from elsewhere, by operation number. Whether they are legal is for the check to
    say.
    """
    return Schedule(problem, plan, starts, ends, lower_plan(problem, plan))


def _explain(error: Deadlock, plan: Plan) -> str:
    """The circle of a deadlock, in operations and devices (or lanes)."""
    index, devices = plan.index, len(plan.orders)
    stuck = [
        f"{index.op(task)} on " + (f"device {place}" if place < devices else f"lane {(place - devices) // 2}")
        for task, place in error.cycle
    ]
    links = [
        f"{here} waits for {index.op(before)}, which comes after {there}"
        for here, before, there in zip(stuck, error.awaited, [*stuck[1:], stuck[0]], strict=True)
    ]
    return "deadlock: " + "; ".join(links)


def picker(places: Sequence[int]) -> Callable[[Sequence[int]], tuple[int, ...]]:
    """A function that picks these places out of a sequence, at twice the speed of a loop."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple(values[place] for place in places)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

"""Many orders for one problem: time each, keep the best, and improve it by local search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple

from pipesched.core.tasks import TaskGraph
from pipesched.core.timing import earliest_times
from pipesched.lookup import find
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule
from pipesched.schedulers.critical_blocks import CriticalBlockSearch

OBJECTIVES = {"span": attrgetter("span", "makespan"), "makespan": attrgetter("makespan", "span")}
LEAST_ROUNDS = 40  # timings of the local search: with fewer it is not worth its time

Orders = Sequence[Sequence[int]]


class Effort(NamedTuple):
    """What the local search may cost: operations in all its timings, and timings; and how far it strays (its slack)."""

    operations: int
    rounds: int
    slack: Fraction


@dataclass(frozen=True)
class Trials:
    """A problem, the room that each device has (in grains), and what is to be least: span or makespan."""

    problem: Problem
    index: OpIndex
    graph: TaskGraph
    rooms: Sequence[int]
    objective: str

    def timed(self, orders: Orders) -> Schedule:
        """The schedule of these orders. Raises Deadlock."""
        times = earliest_times(self.graph, orders)
        return Schedule(self.problem, Plan(self.index, orders), *times, self.graph)

    def fits(self, schedule: Schedule) -> bool:
        """Whether no device ever holds more than its room."""
        return all(peak <= room for peak, room in zip(schedule.peak_memory, self.rooms, strict=True))

    def best(self, schedules: Iterable[Schedule]) -> Schedule:
        """The least by the objective, ties by the other one."""
        return min(schedules, key=OBJECTIVES[self.objective])

    def improved(self, schedule: Schedule, effort: Effort) -> Plan:
        """The plan after a local search, where there is anything to gain and the effort is enough to get anywhere."""
        rounds = min(effort.operations // self.index.size, effort.rounds)
        if rounds < LEAST_ROUNDS or getattr(schedule, self.objective) == schedule.ideal:
            return schedule.plan
        offsets = schedule.first_start if self.objective == "span" else [0] * self.problem.devices
        search = CriticalBlockSearch(self.graph, self.index, self.rooms, offsets, effort.slack)
        return Plan(self.index, search.improve(schedule.plan.orders, rounds))


def trials(problem: Problem, kinds: str, rooms: Sequence[int], objective: str) -> Trials:
    """Trials of plans with these kinds of operations. Raises ConfigError for an unknown objective."""
    find(OBJECTIVES, objective, "objective", "objective")
    index = OpIndex(kinds, problem.stages, problem.microbatches)
    return Trials(problem, index, lower(problem, index), rooms, objective)

"""A case: what one search decides. A problem with its placement settled, how the backward is split, the objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import NamedTuple

from pipesched.core.paths import heads, topological_order
from pipesched.core.tasks import TaskGraph
from pipesched.pipeline.capacity import capacity_edges, order_edges
from pipesched.pipeline.lowering import lower
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.plan import Plan
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import Schedule, schedule_plan

OBJECTIVES = ("makespan", "span")


class Origin(NamedTuple):
    """From when a device's time counts: the least start of `tasks`, which is `start` if that is known."""

    tasks: tuple[int, ...]
    start: int | None


@dataclass(frozen=True, eq=False)
class Case:
    """`problem.costs.split` says whether the backward is split. `objective` is one of OBJECTIVES."""

    problem: Problem
    objective: str = "makespan"

    @cached_property
    def index(self) -> OpIndex:
        """The operations: F and B, or F, I and W."""
        kinds = "FIW" if self.problem.costs.split else "FB"
        return OpIndex(kinds, self.problem.stages, self.problem.microbatches)

    @cached_property
    def graph(self) -> TaskGraph:
        """The rules of the problem alone, in ticks."""
        return lower(self.problem, self.index)

    @cached_property
    def ordered(self) -> TaskGraph:
        """The rules, microbatches in order, and what the budget says about the order."""
        extra = [*order_edges(self.problem, self.index), *capacity_edges(self.problem, self.index)]
        return replace(self.graph, edges=[*self.graph.edges, *extra])

    @cached_property
    def quantum(self) -> int:
        """The greatest common divisor of all times: every start of a schedule without pauses is a multiple of it."""
        return gcd(*self.graph.durations, *(edge.lag for edge in self.graph.edges)) or 1

    @cached_property
    def heads(self) -> list[int]:
        """The earliest start of each task in ticks, by its longest path in the ordered graph."""
        return heads(self.ordered)

    @cached_property
    def rank(self) -> list[int]:
        """A place of each task such that each comes after all that it waits for."""
        places = [0] * len(self.graph)
        for place, task in enumerate(topological_order(self.ordered)):
            places[task] = place
        return places

    @cached_property
    def origins(self) -> list[Origin]:
        """One a device. The makespan counts from time 0; the span from the device's first forward.

        In a schedule without needless pauses that start is known where the forwards before it are the first on their
        devices too: as early as possible.
        """
        if self.objective == "makespan":
            return [Origin((), 0)] * self.problem.devices
        firsts = [self._first_forwards(device) for device in range(self.problem.devices)]
        known: set[int] = set()
        alone = {tasks[0] for tasks in firsts if len(tasks) == 1}
        for task in sorted(alone, key=self.rank.__getitem__):
            if all(before in known for before, _ in self.graph.predecessors[task]):
                known.add(task)
        return [Origin(tasks, self.heads[tasks[0]] if tasks[0] in known else None) for tasks in firsts]

    @property
    def owners(self) -> list[int]:
        """The microbatch of each task."""
        return list(range(self.index.microbatches)) * (len(self.index.kinds) * self.index.stages)

    def _first_forwards(self, device: int) -> tuple[int, ...]:
        """The operations that a device may run first: the first microbatch (of each direction) on its first stage."""
        home, count = self.problem.home(), self.index.microbatches
        entering = {0, count // 2 if home.mirrored else 0}
        stages = [
            (
                microbatch,
                [stage for stage in range(self.problem.stages) if home.device(stage, microbatch, count) == device],
            )
            for microbatch in sorted(entering)
        ]
        return tuple(self.index.row("F", here[0])[microbatch] for microbatch, here in stages if here)

    def value(self, schedule: Schedule) -> int:
        """The objective of a schedule, in ticks."""
        return schedule.makespan if self.objective == "makespan" else schedule.span

    def replay(self, starts: Sequence[int]) -> Schedule:
        """The schedule of the order that `starts` has on each device, with its own times.

        Microbatches are renamed so that each row of equal operations runs them in order.
        """
        times, durations = self.sorted_rows(starts), self.graph.durations
        order = sorted(
            range(len(times)), key=lambda task: (times[task], times[task] + durations[task], self.rank[task])
        )
        orders: list[list[int]] = [[] for _ in range(self.problem.devices)]
        for task in order:
            orders[self.graph.resources[task]].append(task)
        return schedule_plan(self.problem, Plan(self.index, orders))

    def alike_weights(self) -> list[list[tuple[int, int]]]:
        """The (I, W) of stages that share a device and whose W last and free the same: groups of two or more rows."""
        problem, index = self.problem, self.index
        if "W" not in index.kinds or problem.home().mirrored:
            return []
        groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for stage, device in enumerate(problem.home().devices):
            same = device, problem.costs.backward_weight[stage], problem.memory.retained[stage]
            groups.setdefault(same, []).extend(zip(index.row("I", stage), index.row("W", stage), strict=True))
        return [group for group in groups.values() if len(group) > index.microbatches]

    def sorted_weights(self, starts: Sequence[int]) -> list[int]:
        """`starts` of sorted rows with each group of alike W in the order of their I."""
        times = list(starts)
        for group in self.alike_weights():
            by_input = sorted(group, key=lambda pair: (times[pair[0]], pair))
            for (_, weight), start in zip(by_input, sorted(times[weight] for _, weight in group), strict=True):
                times[weight] = start
        return times

    def sorted_rows(self, starts: Sequence[int]) -> list[int]:
        """`starts` with each row of equal operations in the order of microbatches."""
        times = list(starts)
        half = self.index.microbatches // 2 if self.problem.home().mirrored else 0
        for kind in self.index.kinds:
            for row in self.index.rows(kind):
                for part in (row[:half], row[half:]):
                    times[part.start : part.stop] = sorted(times[part.start : part.stop])
        return times

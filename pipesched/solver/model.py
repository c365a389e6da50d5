"""The exact model of a case in CP-SAT. One rule of DESIGN section 4 is one method; each may be left out or replaced.

Times are in quanta (`Case.quantum` ticks), so that domains are as small as they can be. Task numbers are the numbers of
the operations. `memory` knows how long an activation stays: with other ways to leave a device (transfers, recompute) it
is replaced, and `order` and `capacity`, which take microbatches to be alike, are left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
from math import gcd
from operator import add
from typing import Any

from pipesched.core.cpsat import Limits, Model
from pipesched.core.paths import topological_order
from pipesched.core.tasks import NOWHERE, Edge
from pipesched.pipeline.capacity import capacity_edges, order_edges, says_all
from pipesched.solver.case import Case
from pipesched.solver.residence import Residence, residences

SMALL = 300  # tasks
PROVING, REFUTING = "no_lp", "objective_lb_search"


def latest_starts(case: Case, most: int) -> list[int]:
    """The latest start of each task in ticks when the objective is at most `most`."""
    graph, count, origins = case.ordered, case.problem.devices, case.origins
    far = most * (count - 1) + sum(case.problem.costs.p2p)  # devices start one after another at the latest
    ends = [most + (far if one.start is None else one.start) for one in origins]
    latest = [ends[device] - time for device, time in zip(graph.pools, graph.durations, strict=True)]
    for task in reversed(topological_order(graph)):
        for after, lag in graph.successors[task]:
            latest[task] = min(latest[task], latest[after] - lag - graph.durations[task])
    for one in origins:
        if one.start is not None and one.tasks:
            latest[one.tasks[0]] = one.start
    return latest


class TunedModel(Model):
    """A model with the searches that measure best on pipelines.

    Of two workers CP-SAT gives one to a full search and one to neighbourhoods. On small models the full search is best
    without linear relaxations; on larger ones it does most for the gap by refuting ever larger objectives.
    """

    def tune(self, parameters: Any, limits: Limits) -> None:
        workers = limits.workers or os.cpu_count() or 1
        if len(self.starts) <= SMALL:
            parameters.linearization_level = 0
        if workers == 2:
            parameters.subsolvers.append(PROVING if len(self.starts) <= SMALL else REFUTING)


class PipelineModel(TunedModel):
    """A case whose objective lies in [least, most] ticks."""

    def __init__(self, case: Case, least: int, most: int) -> None:
        super().__init__()
        self.case, self.quantum = case, case.quantum
        self.least, self.most = -(-least // self.quantum), most // self.quantum
        latest = latest_starts(case, most)
        self.horizon = max(map(add, latest, case.graph.durations)) // self.quantum  # no task ends later
        for duration, first, last in zip(case.graph.durations, case.heads, latest, strict=True):
            self.task(duration // self.quantum, first // self.quantum, last // self.quantum)

    def edges(self, edges: Sequence[Edge]) -> None:
        """Every arrow of these bundles."""
        for edge in edges:
            for before, after in zip(edge.before, edge.after, strict=True):
                self.after(before, after, edge.lag // self.quantum)

    def dependencies(self) -> None:
        """F, B, I and W after what they wait for, with the latency between devices."""
        self.edges(self.case.graph.edges)

    def devices(self) -> None:
        """A device runs one operation at a time."""
        resources = self.case.graph.resources
        for device in range(self.case.problem.devices):
            self.one_at_a_time([task for task, there in enumerate(resources) if there == device != NOWHERE])

    def order(self) -> None:
        """Microbatches are alike: in order, for each stage and kind."""
        self.edges(list(order_edges(self.case.problem, self.case.index)))

    def capacity(self) -> None:
        """What the budget says as precedences."""
        self.edges(list(capacity_edges(self.case.problem, self.case.index)))

    def weights(self) -> None:
        """W of a device that are alike run in the order of their I: exchanging two that do not breaks no rule."""
        count = self.case.index.microbatches
        for group in self.case.alike_weights():
            for (one, its_weight), (other, others_weight) in combinations(group, 2):
                if one // count != other // count:  # those of one row are in order already
                    first = self.model.new_bool_var("")
                    for a, b in ((one, other), (its_weight, others_weight)):
                        self.model.add(self.end(a) <= self.starts[b]).only_enforce_if(first)
                        self.model.add(self.end(b) <= self.starts[a]).only_enforce_if(~first)

    def memory(self, *, beside_capacity: bool = True) -> None:
        """The activations that a device holds at any time fit its room. `beside_capacity`: only where the capacity
        edges do not say it all."""
        problem, kinds = self.case.problem, self.case.index.kinds
        for device, room in enumerate(problem.room()):
            if room is not None and not (beside_capacity and says_all(problem, device, kinds)):
                self.hold(residences(self.case, device), room)

    def hold(self, residences: Sequence[Residence], room: int) -> None:
        """At any time the residences sum up to `room` grains at most."""
        unit = gcd(*(one.size for one in residences)) or 1
        intervals = [self._stay(one) for one in residences]
        self.model.add_cumulative(intervals, [one.size // unit for one in residences], room // unit)

    def _stay(self, one: Residence) -> Any:
        start = self.end(one.first) if one.from_end else self.starts[one.first]
        length = self.model.new_int_var(0, self.horizon, "")
        return self.model.new_interval_var(start, length, self.end(one.last), "")

    def objective(self) -> None:
        """Minimize the makespan, or the span: the largest, over devices, of last end less first start."""
        goal = self.model.new_int_var(self.least, self.most, self.case.objective)
        for task, device in enumerate(self.case.graph.resources):
            firsts = self.case.origins[device].tasks
            if not self.case.graph.successors[task]:
                for first in firsts or [None]:
                    self.model.add(self.end(task) - (0 if first is None else self.starts[first]) <= goal)
        self.model.minimize(goal)


class PlainModel(PipelineModel):
    """The same with CP-SAT's own choice of searches."""

    def tune(self, parameters: Any, limits: Limits) -> None:
        """Nothing to set."""


def full_model(case: Case, least: int, most: int) -> PipelineModel:
    """Every rule of a case without transfers and recompute."""
    model = PipelineModel(case, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.capacity()
    model.memory()
    if len(model.starts) <= SMALL:
        model.weights()
    model.objective()
    return model


def plain_model(case: Case, least: int, most: int) -> PipelineModel:
    """The yardstick: starts, dependencies, NoOverlap, Cumulative, microbatches in order; nothing else that is known."""
    model = PlainModel(case, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.memory(beside_capacity=False)
    model.objective()
    return model

"""The exact model of a case in CP-SAT. One rule of DESIGN section 4 is one method; each may be left out or replaced.

Times are in quanta (`Case.quantum` ticks), so that domains are as small as they can be. Task numbers are the numbers of
the operations. `memory` and `residences` know how long an activation stays: with other ways to leave a device
(transfers, recompute) those are replaced, and `order` and `capacity`, which take microbatches to be alike, left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from operator import add
from typing import Any, NamedTuple

from pipesched.core.cpsat import Model
from pipesched.core.tasks import NOWHERE, Edge
from pipesched.pipeline.capacity import capacity_edges, order_edges, says_all
from pipesched.solver.case import Case
from pipesched.solver.windows import latest_starts, origins


class Residence(NamedTuple):
    """`size` grains on a device from the start of the task `first` (or its end) to the end of the task `last`."""

    first: int
    from_end: bool
    last: int
    size: int


class PipelineModel(Model):
    """A case whose objective lies in [least, most] ticks."""

    def __init__(self, case: Case, least: int, most: int) -> None:
        super().__init__()
        self.case, self.quantum = case, case.quantum
        self.least, self.most = -(-least // self.quantum), most // self.quantum
        self.origins = origins(case)
        latest = latest_starts(case, self.origins, most)
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

    def memory(self, *, beside_capacity: bool = True) -> None:
        """The activations that a device holds at any time fit its room. `beside_capacity`: only where the capacity
        edges do not say it all."""
        problem, kinds = self.case.problem, self.case.index.kinds
        for device, room in enumerate(problem.room()):
            if room is not None and not (beside_capacity and says_all(problem, device, kinds)):
                self.hold(self.residences(device), room)

    def residences(self, device: int) -> list[Residence]:
        """A microbatch resides from the start of F to the end of B, or of I; what is retained then, to the end of W."""
        index, memory, pools = self.case.index, self.case.problem.memory, self.case.graph.pools
        found = []
        for stage, (size, retained) in enumerate(zip(memory.activation, memory.retained, strict=True)):
            for microbatch in range(index.microbatches):
                first, freeing = index.row("F", stage)[microbatch], index.row(index.kinds[1], stage)[microbatch]
                if pools[first] != device:
                    continue
                weight = index.row("W", stage)[microbatch] if "W" in index.kinds else freeing
                if retained == size or weight == freeing:
                    found.append(Residence(first, False, weight, size))
                else:
                    found.append(Residence(first, False, freeing, size))
                    found.append(Residence(freeing, True, weight, retained))
        return [one for one in found if one.size]

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
            firsts = self.origins[device].tasks
            if not self.case.graph.successors[task]:
                for first in firsts or [None]:
                    self.model.add(self.end(task) - (0 if first is None else self.starts[first]) <= goal)
        self.model.minimize(goal)


def full_model(case: Case, least: int, most: int) -> PipelineModel:
    """Every rule of a case without transfers and recompute."""
    model = PipelineModel(case, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.capacity()
    model.memory()
    model.objective()
    return model


def plain_model(case: Case, least: int, most: int) -> PipelineModel:
    """The yardstick: starts, dependencies, NoOverlap, Cumulative, microbatches in order; nothing else that is known."""
    model = PipelineModel(case, least, most)
    model.dependencies()
    model.devices()
    model.order()
    model.memory(beside_capacity=False)
    model.objective()
    return model

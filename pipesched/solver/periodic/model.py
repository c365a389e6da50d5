"""The exact model of a period in CP-SAT: is there a block that repeats with it and fits memory?

Each operation has a phase on the circle, each hop its number of whole periods, each two operations of a device their
order on the circle. When a forward starts, the activations that a device holds follow from these alone: a residence
counts the periods from its first operation to its last, one more if the first comes before that forward on the circle,
one less if the last does.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

from pipesched.core.cpsat import TaskModel
from pipesched.core.integers import ceil_div
from pipesched.pipeline.residences import Residence
from pipesched.solver.periodic.operations import NO_HOP, BlockOperations


class PeriodModel(TaskModel):
    """The question whether a block can repeat with a period (in quanta). `starts` are phases."""

    def __init__(self, block: BlockOperations, period: int) -> None:
        super().__init__()
        self.block, self.period = block, period
        self.starts = [self.model.new_int_var(0, period - 1, "") for _ in block.durations]
        self.turns: dict[int, Any] = {}
        self.first: dict[tuple[int, int], Any] = {}
        self.hops()
        self.devices()
        self.memory()
        self.model.add(self.starts[block.order[0]] == 0)  # where the circle begins is free

    def hops(self) -> None:
        """Start each operation after what it waits for, so many whole periods later."""
        for number, (before, gap) in enumerate(zip(self.block.before, self.block.gaps, strict=True)):
            if before != NO_HOP:
                least, most = ceil_div(gap - self.period + 1, self.period), ceil_div(gap + self.period - 1, self.period)
                turns = self.turns[number] = self.model.new_int_var(least, most, "")
                self.model.add(self.starts[number] + self.period * turns >= self.starts[before] + gap)

    def devices(self) -> None:
        """Run one operation at a time on each device, around the circle."""
        for device in range(len(self.block.residences)):
            for one, other in combinations(self.block.on(device), 2):
                first = self.model.new_bool_var("")
                self.first[one, other], self.first[other, one] = first, first.Not()
                for before, after in ((one, other), (other, one)):
                    order = self.first[before, after]
                    ends = self.starts[before] + self.block.durations[before]
                    self.model.add(ends <= self.starts[after]).only_enforce_if(order)
                    around = self.starts[after] + self.block.durations[after]
                    self.model.add(around <= self.starts[before] + self.period).only_enforce_if(order)

    def memory(self) -> None:
        """Keep what a device holds within its capacity as each forward starts."""
        for stays, capacity in zip(self.block.residences, self.block.capacities, strict=True):
            if capacity is not None:
                counts = [sum(self.turns[number] for number in self.block.path(stay)) for stay in stays]
                for forward in (stay.first for stay in stays if not stay.from_end):
                    held = [
                        stay.size * (count + self._begun(stay, forward) - self.first[stay.last, forward])
                        for stay, count in zip(stays, counts, strict=True)
                    ]
                    self.model.add(sum(held) <= capacity)

    def _begun(self, stay: Residence, forward: int) -> Any:
        return 1 if stay.first == forward else self.first[stay.first, forward]

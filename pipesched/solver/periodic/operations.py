"""The operations of a block of microbatches that repeats, and what their phases say.

A periodic schedule starts every operation again after a period T. The start of an operation is its phase in [0, T) and
a number of whole periods. Given the phases, the least numbers of periods follow along the chain of a microbatch, and
with them how long each activation stays. So phases are all that there is to choose, and the problem does not grow with
the number of microbatches. Times are in quanta of the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesched.core.arrays import ceil_div
from pipesched.core.timing import topological_order
from pipesched.pipeline.ops import OpIndex
from pipesched.pipeline.residences import Residence, residences
from pipesched.solver.case import Case

NO_HOP = -1
Array = NDArray[Any]


class BlockOperations:
    """The operations of a block of so many microbatches of a case whose activations are kept.

    Operation i + k * (operations of a microbatch) is operation i of the microbatch k. `durations` and `devices` are
    theirs, `capacities` what each device may hold (grains; None: no limit). Operation i starts `gaps[i]` or more after
    the start of `before[i]`, the one that it waits for last: NO_HOP for the first of a microbatch. `order` has each
    behind what it waits for.
    """

    def __init__(self, case: Case, microbatches: int) -> None:
        self.case, self.microbatches = case, microbatches
        single = replace(case, problem=replace(case.problem, microbatches=1))
        self.single, self.quantum = single, case.quantum
        order, count, each = topological_order(single.graph), len(single.graph), range(microbatches)
        self.order = [number + copy * count for copy in each for number in order]
        before, gaps = [NO_HOP] * count, [0] * count
        rank = {number: place for place, number in enumerate(order)}
        for number in order:
            if waits := single.graph.predecessors[number]:  # all else that it waits for comes before its last wait
                last, lag = max(waits, key=lambda wait: rank[wait[0]])
                before[number], gaps[number] = last, (single.graph.durations[last] + lag) // self.quantum
        self.durations = [time // self.quantum for time in single.graph.durations] * microbatches
        self.devices = list(single.graph.pools) * microbatches
        self.before = [last + copy * count if last >= 0 else NO_HOP for copy in each for last in before]
        self.gaps = gaps * microbatches
        stays = (residences(single.problem, single.index, device) for device in range(case.problem.devices))
        self.residences = [
            [one._replace(first=one.first + copy * count, last=one.last + copy * count) for copy in each for one in own]
            for own in stays
        ]
        self.capacities = case.problem.capacity_grains
        self.cover = np.zeros((len(self), len(self.residences)))  # grains, by the operation whose hop keeps them there
        for device, own in enumerate(self.residences):
            for stay in own:
                for number in self.path(stay):
                    self.cover[number, device] += stay.size

    def __len__(self) -> int:
        return len(self.durations)

    def on(self, device: int) -> list[int]:
        """Return the operations of a device."""
        return [number for number, there in enumerate(self.devices) if there == device]

    def path(self, stay: Residence) -> list[int]:
        """Return the operations whose hops a residence lasts, the last one first."""
        numbers, number = [], stay.last
        while number != stay.first:
            numbers.append(number)
            number = self.before[number]
        return numbers

    def length(self, stay: Residence) -> int:
        """Return the shortest time that a residence lasts."""
        skipped = self.durations[stay.first] if stay.from_end else 0
        return sum(self.gaps[number] for number in self.path(stay)) + self.durations[stay.last] - skipped

    @property
    def least_period(self) -> int:
        """A bound on the period (at least 1): the work of a device, and its memory x time over its capacity."""
        least = 1
        for device, stays in enumerate(self.residences):
            least = max(least, sum(self.durations[number] for number in self.on(device)))
            capacity = self.capacities[device]
            if capacity:
                least = max(least, ceil_div(sum(stay.size * self.length(stay) for stay in stays), capacity))
        return least

    def starts(self, phases: Array, period: int) -> Array:
        """Return the earliest starts with these phases; both have a row for each choice of phases."""
        starts = np.zeros_like(phases, dtype=np.int64)
        for number in self.order:
            before = self.before[number]
            if before == NO_HOP:
                starts[:, number] = phases[:, number]
            else:
                ready = starts[:, before] + self.gaps[number]
                starts[:, number] = ready + (phases[:, number] - ready) % period
        return starts

    def unevenness(self, phases: Array, device: int, period: int) -> Array:
        """Return by how much (grains x quanta) the peak of a device x period exceeds its memory x time in a period.

        With b and e the phases of the ends of a residence of length L, at a moment m as many of it are there as
        (L + (m - e) mod T - (m - b) mod T) / T. So the excess follows from the phases on the device alone.
        """
        stays = self.residences[device]
        if not stays:
            return np.zeros(len(phases), dtype=np.int64)
        since_begins, since_ends, sizes = self._since(phases, stays)
        excess: Array = ((since_ends % period - since_begins % period) * sizes).sum(axis=2).max(axis=1)
        return excess

    def peaks(self, starts: Array, period: int) -> Array:
        """Return the most that each device ever holds (grains) when the block repeats, for each row of starts."""
        peaks = np.zeros((len(starts), len(self.residences)), dtype=np.int64)
        for device, stays in enumerate(self.residences):
            if stays:
                since_begins, since_ends, sizes = self._since(starts, stays)
                counts = since_begins // period - since_ends // period
                peaks[:, device] = (counts * sizes).sum(axis=2).max(axis=1)
        return peaks

    def _since(self, starts: Array, stays: Sequence[Residence]) -> tuple[Array, Array, Array]:
        """Return for each row and each begin of a residence the times since all begins and all ends, and the sizes."""
        waits = np.array([self.durations[stay.first] if stay.from_end else 0 for stay in stays])
        begins = starts[:, [stay.first for stay in stays]] + waits
        ends = starts[:, [stay.last for stay in stays]] + np.array([self.durations[stay.last] for stay in stays])
        moments = begins[:, :, None]
        return moments - begins[:, None, :], moments - ends[:, None, :], np.array([stay.size for stay in stays])

    def repeated(self, starts: Sequence[int], period: int) -> list[int]:
        """Return the start of each operation of the case, in ticks, when a block of these starts repeats."""
        index, count = self.case.index, len(self) // self.microbatches
        blocks = [starts[copy * count : (copy + 1) * count] for copy in range(self.microbatches)]
        blocks.sort(key=min)
        numbers = OpIndex(index.letters, index.stages, 1)

        def row(kind: str, stage: int) -> list[int]:
            number = numbers.row(kind, stage)[0]
            turns = (divmod(microbatch, self.microbatches) for microbatch in range(index.microbatches))
            return [(blocks[copy][number] + turn * period) * self.quantum for turn, copy in turns]

        return index.spread(row)

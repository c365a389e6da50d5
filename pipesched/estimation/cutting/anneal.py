"""A good cut of any items by simulated annealing: the ends of some neighbouring chunks move by one item.

It proves nothing; the search begins from it. The same question always has the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from random import Random

from pipesched.core.clock import Clock
from pipesched.estimation.cutting.costs import Chunk, Costs, Ends

STEPS, STEPS_PER_CHUNK = 40_000, 400  # at most
WIDEST = 8  # ends that move together
HOT, COLD = 0.03, 0.0005  # differences of work, relative to the mean work of a device
LATE = 0xFF  # a mask: the clock is read once in 256 steps


def annealed(costs: Costs, start: Ends, clock: Clock) -> Ends:
    """Return the best cut that was seen on a walk from `start`."""
    state, random = _State(costs, start), Random(0)
    best, best_judgement = start, costs.judge(start)
    mean = max(sum(state.loads) / len(state.loads), 1.0)
    steps = min(STEPS, STEPS_PER_CHUNK * (costs.stages - 1))
    for step in range(steps):
        if step & LATE == LATE and clock.is_over:
            break
        heat = (HOT * (COLD / HOT) ** (step / steps) * mean) ** 2
        first = random.randrange(costs.stages - 1)
        last = min(first + random.randrange(WIDEST), costs.stages - 2)
        undo = state.move(first, last, random.choice((1, -1)))
        if undo is None:
            continue
        if state.change > 0 and random.random() >= exp(-state.change / heat):
            state.restore(first, undo)
        elif state.change < 0 and state.may_be_better(best_judgement.device):
            judgement = costs.judge(state.ends)
            if judgement < best_judgement:
                best, best_judgement = tuple(state.ends), judgement
    return best


class _State:
    """A cut on its walk. Its energy: the squares of work, and of bytes above a capacity, which weigh more."""

    def __init__(self, costs: Costs, ends: Sequence[int]) -> None:
        self.costs, self.ends = costs, [*ends]
        self.chunks = costs.chunks(ends)
        self.loads = costs.loads(self.chunks)
        self.total = sum(self.loads)
        self.energies = [self._energy(device) for device in range(len(self.loads))]
        self.change = 0.0

    def move(self, first: int, last: int, by: int) -> tuple[list[int], list[Chunk]] | None:
        """Move the ends of the chunks first..last, and return what `restore` needs; None if a chunk has no item left.

        `change` is then by how much the energy grew.
        """
        before = self.ends[first - 1] if first else 0
        if not before < self.ends[first] + by or not self.ends[last] + by < self.ends[last + 1]:
            return None
        undo = self.ends[first : last + 1], self.chunks[first : last + 2]
        self._set(first, [end + by for end in undo[0]])
        return undo

    def restore(self, first: int, undo: tuple[list[int], list[Chunk]]) -> None:
        """Take a move back."""
        self._set(first, undo[0])

    def may_be_better(self, device: int) -> bool:
        """Return whether a full judgement may find less than this work of a device."""
        return self.costs.question.is_limited or max(self.loads) <= device

    def _set(self, first: int, ends: list[int]) -> None:
        self.ends[first : first + len(ends)] = ends
        begin = self.ends[first - 1] if first else 0
        devices = set()
        for stage in range(first, first + len(ends) + 1):
            chunk, device = self.costs.at(begin, self.ends[stage]), self.costs.question.devices[stage]
            self.loads[device] += chunk.work - self.chunks[stage].work
            self.chunks[stage], begin = chunk, self.ends[stage]
            devices.add(device)
        self.change = 0.0
        for device in sorted(devices):
            energy = self._energy(device)
            self.change += energy - self.energies[device]
            self.energies[device] = energy

    def _energy(self, device: int) -> float:
        capacity = self.costs.question.capacity[device]
        if capacity is None:
            return float(self.loads[device] ** 2)
        chunks = [self.chunks[stage] for stage in self.costs.question.stages_on[device]]
        above = float(self.costs.excess(device, chunks) / max(capacity, 1)) * self.total
        return float(self.loads[device] ** 2) + above**2 + above * self.total

"""The search for short periods: bisection for blocks of one, two and more microbatches, with rising effort.

If a period is possible, every longer one is too: keep the phases and the numbers of periods, and let the rest of the
circle idle. So each block has a least period, between one that was found and those that are too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipesched.core.integers import ceil_div
from pipesched.solver.case import Case
from pipesched.solver.periodic.beam import Beam
from pipesched.solver.periodic.operations import BlockOperations

NEVER_FULL = 2**62


class PeriodicSchedule(NamedTuple):
    """The starts of a block's operations, its period, both in quanta, and how many microbatches it has."""

    starts: list[int]
    period: int
    microbatches: int


class Seeker:
    """Looks for schedules of a block with a given period; what it learns about devices it keeps for other periods."""

    def __init__(self, case: Case, microbatches: int, random: np.random.Generator) -> None:
        self.block, self.random, self.runs = BlockOperations(case, microbatches), random, 0
        self.policy = case.policy.periods
        self.least = self.block.least_period
        self.least_refuted = self.least - 1  # no period up to this one is possible
        self.prices = np.ones(case.problem.devices)  # of memory

    def seek(self, period: int, runs: int) -> PeriodicSchedule | None:
        """Return a schedule with the period that fits memory, if one is found in so many beam searches."""
        if period <= self.least_refuted:
            return None
        beam, second = Beam(self.block, period, self.random), self.policy.second
        devices = range(len(self.prices))
        for _ in range(runs):
            order = devices if self.runs % 2 else devices[::-1]
            phases = beam.run(self.prices, order, second[self.runs % len(second)])
            self.runs += 1
            if not len(phases):
                continue
            starts = self.block.starts(phases, period)
            peaks = self.block.peaks(starts, period)
            found = self._fitting(starts, peaks)
            if found is not None:
                return PeriodicSchedule(found.tolist(), period, self.block.microbatches)
            self._raise_prices(peaks[0])
        return None

    def _fitting(self, starts: NDArray[Any], peaks: NDArray[Any]) -> NDArray[Any] | None:
        """Return the first starts that fit the capacities."""
        limits = np.array([NEVER_FULL if most is None else most for most in self.block.capacities])
        fits = np.flatnonzero((peaks <= limits).all(axis=1))
        return starts[int(fits[0])] if len(fits) else None

    def _raise_prices(self, peaks: NDArray[Any]) -> None:
        """Make the memory of devices that hold too much dearer, and that of others cheaper."""
        shares = [
            0.0 if most is None else (peak - most) / max(most, 1)
            for peak, most in zip(peaks.tolist(), self.block.capacities, strict=True)
        ]
        self.prices *= np.exp(self.policy.pressure * np.clip(shares, -1, 1))
        self.prices /= self.prices.mean()


class PeriodSearch:
    """A search for short periods that goes on from round to round. `best` is what it has found so far."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.policy, self.random = case, case.policy.periods, np.random.default_rng(seed)
        self.sizes = _block_sizes(case)
        self._seekers: dict[int, Seeker] = {}
        self.best: PeriodicSchedule | None = None
        self.shortest_of_one: int | None = None  # the shortest period of one microbatch that was found
        self.runs = self.policy.first_runs
        self.is_fruitless = False  # whether the last round came to its end and found nothing

    def take(self, found: PeriodicSchedule) -> None:
        """Take note of a schedule."""
        if self.best is None or found.period * self.best.microbatches < self.best.period * found.microbatches:
            self.best = found
        if found.microbatches == 1 and (self.shortest_of_one is None or found.period < self.shortest_of_one):
            self.shortest_of_one = found.period

    def seeker(self, microbatches: int) -> Seeker:
        """Return what looks for blocks of so many microbatches."""
        if microbatches not in self._seekers:
            self._seekers[microbatches] = Seeker(self.case, microbatches, self.random)
        return self._seekers[microbatches]

    @property
    def is_over(self) -> bool:
        """Whether another round is not worth it: the effort is spent, nothing was found, or no period is shorter."""
        if self.runs == self.policy.first_runs:
            return False
        if self.runs > self.policy.most_runs or self.best is None:
            return True
        return all(seeker.least_refuted >= self._most(seeker) for seeker in map(self.seeker, self.sizes))

    def round(self) -> Iterator[PeriodicSchedule]:
        """Yield ever fewer quanta for a microbatch, with twice the effort of the round before."""
        before = self.best
        if before is None:
            yield from self._first()
        for size in self.sizes:
            if self.best is not None:
                yield from self._bisected(self.seeker(size))
        self.runs *= 2
        self.is_fruitless = self.best is before

    def _most(self, seeker: Seeker) -> int:
        """Return the longest period of a block that is better than the best."""
        assert self.best is not None
        return ceil_div(self.best.period * seeker.block.microbatches, self.best.microbatches) - 1

    def _first(self) -> Iterator[PeriodicSchedule]:
        """Yield a schedule with the first period that is found, from the bound upwards."""
        seeker, longer = self.seeker(1), 0
        block = seeker.block
        most = 2 * (sum(block.gaps) + max(block.durations))  # of a microbatch alone, and once more
        while seeker.least + longer <= max(most, seeker.least):
            found = seeker.seek(seeker.least + longer, self.policy.first_runs)
            if found is not None:
                self.take(found)
                yield found
                return
            longer = 2 * longer + ceil_div(seeker.least, self.policy.steps)

    def _bisected(self, seeker: Seeker) -> Iterator[PeriodicSchedule]:
        """Yield shorter schedules of a block, by bisection between what is refuted and the best."""
        least, most = seeker.least_refuted + 1, self._most(seeker)
        while least <= most:
            middle = (least + most) // 2
            found = seeker.seek(middle, self.runs)
            if found is None:
                least = middle + 1
            else:
                self.take(found)
                yield found
                most = middle - 1


def _block_sizes(case: Case) -> list[int]:
    """Return how many microbatches the blocks have that are tried."""
    problem, policy = case.problem, case.policy.periods
    widest = max(len(problem.settled_placement.stages_on(device)) for device in range(problem.devices))
    fitting = policy.most_on_device // (widest * len(case.index.letters))
    most = min(policy.most_microbatches, fitting, problem.microbatches // 3)
    return [*range(1, max(most, 1) + 1)]

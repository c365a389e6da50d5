"""What ranks take, exactly: all of them at once where positions do not depend on costs, else each as it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import floor
from typing import NamedTuple

from pipesched.comparing.packing.positions import LoadTable, Positions
from pipesched.core.arrays import Ints, np
from pipesched.errors import Deadlock, NoSchedule, NotApplicable
from pipesched.pipeline.costs import in_one
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import schedule_plan
from pipesched.results.document_costs import MILLION, DocumentCosts, DocumentLoad
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.plan_of import plan_of
from pipesched.schedulers.registry import family

LARGEST = 1 << 62  # of sums in 64 bits
AT_ONCE = 4096  # ranks
Rank = tuple[DocumentLoad, ...]  # its microbatches, in the order they are fed


class Timed(NamedTuple):
    """The makespan of a rank in the user's time unit, and whether its schedule is within the budget."""

    makespan: Fraction
    fits: bool = True


class TickTable(NamedTuple):
    """What microbatches take, in ticks of which `per_unit` are a time unit.

    On a `mirrored` placement all columns stand there twice: for the first direction, then for the second.
    """

    times: LoadTable
    per_unit: int
    mirrored: bool


@lru_cache(maxsize=16)
def positions_of(problem: Problem, algorithm: str) -> Positions:
    """Return the positions of an algorithm's plan for a problem of microbatches alike.

    Raises NotApplicable, and NoSchedule where it finds no plan within the budget.
    """
    chosen = family(algorithm)
    fitted = prepare(problem, chosen)
    return Positions(fitted, plan_of(chosen, fitted))


class RankTimes:
    """The makespans of ranks under an algorithm, each of which is asked for once."""

    def __init__(self, base: Problem, algorithm: str, costs: DocumentCosts) -> None:
        self.base, self.algorithm, self.costs = base, algorithm, costs
        self._family: Family = family(algorithm)
        self._known: dict[Rank, Timed | None] = {}
        self._fitted: dict[int, Problem] = {}
        self._limits: dict[int, list[tuple[Ints, Fraction]]] = {}

    @property
    def at_once(self) -> bool:
        """Whether many orders are timed at once: positions are settled, and memory is told by the order of slots."""
        costs = self.base.costs
        some = (*costs.forward, *costs.backward_input, *costs.backward_weight)
        return self.is_settled and (self.base.memory.budget is None or min(in_one(some)) > 0)

    @property
    def is_settled(self) -> bool:
        """Whether positions do not depend on costs."""
        return self._family.settled_order

    def alike(self, microbatches: int) -> Problem:
        """Return the problem of so many microbatches alike."""
        return replace(self.base, microbatches=microbatches)

    def without_budget(self, microbatches: int) -> Problem:
        """Return that problem without a budget, which one document as long as the costs are for may exceed."""
        return replace(self.alike(microbatches), memory=replace(self.base.memory, budget=None))

    def positions(self, microbatches: int) -> Positions:
        """Return the positions of the algorithm's plan of so many microbatches alike. Raises NotApplicable."""
        return positions_of(self.without_budget(microbatches), self.algorithm)

    def fitted(self, microbatches: int) -> Problem:
        """Return the problem of so many microbatches alike as the algorithm runs it."""
        if microbatches not in self._fitted:
            self._fitted[microbatches] = prepare(self.alike(microbatches), self._family)
        return self._fitted[microbatches]

    def limits(self, positions: Positions) -> list[tuple[Ints, Fraction]]:
        """Return for each device with a budget what it holds as slots start, and its capacity, in grains of positions.

        It holds so much of each microbatch whose size is 1.
        """
        count = positions.microbatches
        if count not in self._limits:
            fitted = self.fitted(count)
            scale = Fraction(positions.grains_per_unit, fitted.grains.per_unit)
            capacities = [(n, c * scale) for n, c in enumerate(fitted.capacity_grains) if c is not None]
            self._limits[count] = [(positions.levels_of_memory(n), capacity) for n, capacity in capacities]
        return self._limits[count]

    def of(self, ranks: Sequence[Rank]) -> list[Timed | None]:
        """Return what each takes; None where the algorithm does not apply, or finds no schedule within the budget."""
        new = [*dict.fromkeys(rank for rank in ranks if rank not in self._known)]
        if self.at_once and new:
            self._time_at_once(new)
        else:
            self._known |= {rank: self._planned(rank) for rank in new}
        return [self._known[rank] for rank in ranks]

    def _time_at_once(self, ranks: Sequence[Rank]) -> None:
        """Time ranks of which those of equally many microbatches are columns of arrays."""
        numbers = {load: number for number, load in enumerate(dict.fromkeys(chain.from_iterable(ranks)))}
        table: TickTable | None = None
        for count in {len(rank): None for rank in ranks}:
            own = [rank for rank in ranks if len(rank) == count]
            try:
                positions = self.positions(count) if count else None
            except NotApplicable:
                self._known |= dict.fromkeys(own)
                continue
            if positions is None:
                self._known[()] = Timed(Fraction(0))
                continue
            table = table or self._table([*numbers], count, positions.letters)
            columns = np.array([[numbers[load] for load in rank] for rank in own]).T
            if table.mirrored:
                columns[count // 2 :] += len(numbers)
            for begin in range(0, len(own), AT_ONCE):
                part = own[begin : begin + AT_ONCE]
                makespans = positions.exact_makespans(table.times, columns[:, begin : begin + AT_ONCE]).tolist()
                for rank, makespan, fits in zip(part, makespans, self._fit(part, positions), strict=True):
                    self._known[rank] = Timed(Fraction(int(makespan), table.per_unit), fits)

    def _fit(self, ranks: Sequence[Rank], positions: Positions) -> list[bool]:
        """Return which ranks are within the budget, where every slot takes time."""
        fits: Ints = np.ones(len(ranks), dtype=bool)
        limits = self.limits(positions)
        if limits:
            sizes = [[int(self.costs.size(load) * MILLION) for load in rank] for rank in ranks]
            most = max(map(sum, sizes)) * max(int(abs(levels).max()) for levels, _ in limits)
            kind = np.int64 if most < LARGEST else object
            columns = np.array(sizes, dtype=kind).T
            for levels, capacity in limits:
                fits &= (levels.astype(kind) @ columns).max(axis=0) <= floor(capacity * MILLION)
        return [*map(bool, fits)]

    def _table(self, loads: Sequence[DocumentLoad], microbatches: int, letters: str) -> TickTable:
        """Return what microbatches of these loads take by these kinds of operations."""
        fitted = self.fitted(microbatches)
        mirrored = fitted.settled_placement.mirrored
        both = [*loads] * (1 + mirrored)
        ticks = self.costs.problem(fitted, both).unit_ticks
        lengths = [row for letter in letters for row in ticks.lasts[KINDS[letter].cost]]
        nothing = [0] * len(both)
        hops = [*ticks.hops, nothing, *ticks.hops_back, nothing]
        most = len(loads) * (sum(map(max, lengths)) + sum(map(max, hops)))
        kind = np.int64 if most < LARGEST else object
        return TickTable(LoadTable(np.array(lengths, dtype=kind), np.array(hops, dtype=kind)), ticks.per_unit, mirrored)

    def _planned(self, rank: Rank) -> Timed | None:
        if not rank:
            return Timed(Fraction(0))
        try:
            fitted = prepare(self.costs.problem(self.base, rank), self._family)
            schedule = schedule_plan(fitted, plan_of(self._family, fitted))
        except (NotApplicable, NoSchedule, Deadlock):
            return None
        return Timed(Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit), schedule.fits)

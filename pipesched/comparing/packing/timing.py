"""What ranks take, exactly: all of them at once where positions do not depend on costs, else each as it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipesched.comparing.packing.positions import Positions, Table, Whole
from pipesched.errors import Deadlock, NoSchedule, NotApplicable
from pipesched.pipeline.kinds import KINDS
from pipesched.pipeline.problem import Problem
from pipesched.pipeline.schedule import schedule_plan
from pipesched.results.document_costs import DocumentCosts, Load
from pipesched.schedulers.family import Family, prepare
from pipesched.schedulers.registry import family

LARGEST = 1 << 62  # of sums in 64 bits
AT_ONCE = 4096  # ranks
Rank = tuple[Load, ...]  # its microbatches, in the order they are fed


class Timed(NamedTuple):
    """The makespan of a rank in the user's time unit, and whether its schedule is within the budget."""

    makespan: Fraction
    fits: bool = True


@lru_cache(maxsize=16)
def positions_of(problem: Problem, algorithm: str) -> Positions:
    """Return the positions of an algorithm's plan for a problem of microbatches alike.

    Raises NotApplicable, and NoSchedule where it finds no plan within the budget.
    """
    chosen = family(algorithm)
    fitted = prepare(problem, chosen)
    return Positions(fitted, chosen.plan(fitted))


class RankTimes:
    """The makespans of ranks under an algorithm, each of which is asked for once."""

    def __init__(self, base: Problem, algorithm: str, costs: DocumentCosts) -> None:
        self.base, self.algorithm, self.costs = base, algorithm, costs
        self._family: Family = family(algorithm)
        self._known: dict[Rank, Timed | None] = {}
        self._limits: dict[int, list[tuple[Whole, int]]] = {}

    @property
    def at_once(self) -> bool:
        """Whether many orders are timed at once: positions are settled, and nothing has to fit."""
        return self._family.settled_order and self.base.memory.budget is None

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

    def fitted(self, microbatches: int) -> Problem:
        """Return the problem of so many microbatches alike as the algorithm runs it."""
        return prepare(self.alike(microbatches), self._family)

    def limits(self, microbatches: int, positions: Positions) -> list[tuple[Whole, int]]:
        """Return for each device with a budget what it holds as slots start, and its capacity, in grains.

        It holds so much of each microbatch whose size is 1.
        """
        if microbatches not in self._limits:
            capacities = enumerate(self.fitted(microbatches).capacity_grains)
            self._limits[microbatches] = [(positions.levels_of_memory(n), c) for n, c in capacities if c is not None]
        return self._limits[microbatches]

    def of(self, ranks: Sequence[Rank]) -> list[Timed | None]:
        """Return what each takes; None where the algorithm does not apply, or finds no schedule within the budget."""
        new = [*dict.fromkeys(rank for rank in ranks if rank not in self._known)]
        if self.at_once:
            for count in {len(rank): None for rank in new}:
                self._time_at_once([rank for rank in new if len(rank) == count], count)
        else:
            for rank in new:
                self._known[rank] = self._planned(rank)
        return [self._known[rank] for rank in ranks]

    def _time_at_once(self, ranks: Sequence[Rank], microbatches: int) -> None:
        if not microbatches:
            self._known[()] = Timed(Fraction(0))
            return
        try:
            positions = positions_of(self.without_budget(microbatches), self.algorithm)
        except NotApplicable:
            self._known |= dict.fromkeys(ranks)
            return
        number = {load: entry for entry, load in enumerate(dict.fromkeys(load for rank in ranks for load in rank))}
        table, per_unit = self.table([*number], positions)
        columns = np.array([[number[load] for load in rank] for rank in ranks]).T
        if self.fitted(microbatches).settled_placement.mirrored:
            columns[microbatches // 2 :] += len(number)
        for begin in range(0, len(ranks), AT_ONCE):
            makespans = positions.exact_makespans(table, columns[:, begin : begin + AT_ONCE]).tolist()
            for rank, makespan in zip(ranks[begin:], makespans, strict=False):
                self._known[rank] = Timed(Fraction(int(makespan), per_unit))

    def table(self, loads: Sequence[Load], positions: Positions) -> tuple[Table, int]:
        """Return what microbatches of these loads take, and the ticks in a time unit.

        On a mirrored placement all columns stand there twice: for the first direction, then for the second.
        """
        fitted = self.fitted(positions.microbatches)
        both = [*loads] * (1 + fitted.settled_placement.mirrored)
        ticks = self.costs.problem(fitted, both).unit_ticks
        lengths = [row for letter in positions.letters for row in ticks.lasts[KINDS[letter].cost]]
        nothing = [0] * len(both)
        hops = [*ticks.hops, nothing, *ticks.hops_back, nothing]
        most = positions.microbatches * (sum(map(max, lengths)) + sum(map(max, hops)))
        kind = np.int64 if most < LARGEST else object
        return Table(np.array(lengths, dtype=kind), np.array(hops, dtype=kind)), ticks.per_unit

    def _planned(self, rank: Rank) -> Timed | None:
        if not rank:
            return Timed(Fraction(0))
        try:
            fitted = prepare(self.costs.problem(self.base, rank), self._family)
            schedule = schedule_plan(fitted, self._family.plan(fitted))
        except (NotApplicable, NoSchedule, Deadlock):
            return None
        return Timed(Fraction(schedule.makespan_ticks, schedule.problem.ticks.per_unit), schedule.fits)

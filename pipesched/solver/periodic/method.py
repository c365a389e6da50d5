"""The periodic method of a solve: a search for short periods of a case, whose blocks become schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pipesched.core.clock import Clock
from pipesched.core.cpsat import Limits
from pipesched.core.insertion import insert_in_order
from pipesched.core.tasks import reversed_graph
from pipesched.pipeline.quantities import in_units
from pipesched.pipeline.schedule import Schedule
from pipesched.results.outcome import Repetition
from pipesched.solver.case import PERIODIC, Candidate, Case
from pipesched.solver.model import sorted_rows
from pipesched.solver.periodic.down_and_up import DownAndUp
from pipesched.solver.periodic.model import PeriodModel
from pipesched.solver.periodic.operations import BlockOperations
from pipesched.solver.periodic.search import PeriodicSchedule, PeriodSearch


class PeriodicMethod:
    """The search for periodic schedules of one case, which goes on where it stopped."""

    def __init__(self, case: Case, limits: Limits) -> None:
        self.case, self.limits, self.policy = case, limits, case.policy.periods
        self.search = PeriodSearch(case, limits.seed)

    def candidates(self, clock: Clock) -> Iterator[Candidate]:
        """Yield the schedules of the next round of the search, which has the time of `clock`."""
        if len(self.case.graph) <= self.policy.unrolled:
            for found in self.search.round():
                yield from self._unrolled(found)
            return
        before = self.search.best
        for _ in self.search.round():
            if clock.seconds > self.policy.search_part * clock.limit:
                break
        if self.search.best is not None and self.search.best is not before:
            yield from self._unrolled(self.search.best)

    def _unrolled(self, found: PeriodicSchedule) -> Iterator[Candidate]:
        block = self.search.seeker(found.microbatches).block
        words = "1 microbatch" if found.microbatches == 1 else f"{found.microbatches} microbatches"
        for schedule in unrolled(self.case, block, found):
            yield Candidate(f"{PERIODIC}, {words}", schedule, search=PERIODIC)

    def refute(self, clock: Clock) -> Iterator[Candidate]:
        """Refute periods of one microbatch, and yield the schedules of shorter ones that are found instead.

        On a V all phases are tried, from the shortest period on, as long as they are few; then CP-SAT is asked, from
        both ends. Raises KeyboardInterrupt.
        """
        yield from self._exhausted()
        seeker = self.search.seeker(1)
        shortest, part = self.search.shortest_of_one, self.policy.refuted_part
        most = seeker.least_refuted if shortest is None else shortest - 1
        while seeker.least_refuted < most and clock.left > self.policy.presolve * len(seeker.block):
            period = most if part < 1 else seeker.least_refuted + 1
            answer = PeriodModel(seeker.block, period).solve(self.limits._replace(seconds=part * clock.left, gap=0.0))
            if answer.interrupted and not clock.is_stopped:
                raise KeyboardInterrupt
            if answer.status == "infeasible":
                seeker.least_refuted = period
            elif answer.starts:
                found = self._found(answer.starts, period)
                yield from self._unrolled(found)
                most = period - 1
            elif part < 1:
                part = 1.0
            else:
                return

    def _exhausted(self) -> Iterator[Candidate]:
        """Refute the shortest periods on a V by trying all phases, until one is possible, or they are too many."""
        seeker = self.search.seeker(1)
        if not DownAndUp.applies(seeker.block):
            return
        decision = DownAndUp(seeker.block)
        while seeker.least_refuted < self._most_open():
            period = seeker.least_refuted + 1
            if decision.states(period) > self.policy.most_states:
                return
            phases = decision.phases(period)
            if phases is not None:
                yield from self._unrolled(self._found(phases, period))
                return
            seeker.least_refuted = period

    def _most_open(self) -> int:
        """Return the longest period of one microbatch worth a question: below any that was found, at most serial."""
        seeker, shortest = self.search.seeker(1), self.search.shortest_of_one
        return sum(seeker.block.gaps) + max(seeker.block.durations) if shortest is None else shortest - 1

    def _found(self, phases: list[int], period: int) -> PeriodicSchedule:
        starts = self.search.seeker(1).block.starts(np.array([phases]), period)[0]
        found = PeriodicSchedule(starts.tolist(), period, 1)
        self.search.take(found)
        return found

    @property
    def report(self) -> Repetition | None:
        """What was found and refuted; None if nothing was found."""
        best, seeker = self.search.best, self.search.seeker(1)
        if best is None:
            return None
        quantum, per_unit = self.case.quantum, self.case.problem.ticks.per_unit
        return Repetition(
            placement=self.case.name,
            period=in_units(best.period * quantum, per_unit),
            microbatches=best.microbatches,
            refuted=in_units(seeker.least_refuted * quantum, per_unit),
        )


def unrolled(case: Case, block: BlockOperations, found: PeriodicSchedule) -> Iterator[Schedule]:
    """Yield schedules of all microbatches: the block as it repeats, then ever shorter ones.

    What waits only for its period moves into gaps, in the order of the repeated block. Then all operations move as far
    back as they can, the last one first, and forwards again (justification, by insertion in place of list scheduling).
    That shortens the ramps at the beginning and at the end, where the block leaves devices idle.
    """
    starts = sorted_rows(case, block.repeated(found.starts, found.period))
    yield case.replay(starts)
    moved = _moved_up(case, starts)
    if moved is None:
        return
    schedule = case.replay(moved)
    yield schedule
    for _ in range(case.policy.periods.rounds):
        again = _moved_back(case, schedule.start_ticks)
        moved = None if again is None else _moved_up(case, again)
        if moved is None:
            return
        shorter = case.replay(moved)
        gain = case.value(schedule) - case.value(shorter)
        schedule = shorter
        yield schedule
        if gain <= case.policy.periods.least_gain * case.value(schedule):
            return


def _moved_up(case: Case, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, in the order of `starts`, as early as there is a place."""
    order = sorted(range(len(starts)), key=lambda task: (starts[task], case.rank[task]))
    inserted = insert_in_order(case.graph, order, case.problem.capacity_grains)
    return None if inserted is None else inserted.starts


def _moved_back(case: Case, starts: Sequence[int]) -> list[int] | None:
    """Return starts with each operation, the last end first, as late as there is a place."""
    durations, last = case.graph.durations, len(starts) - 1
    keys = [-start - time for start, time in zip(starts, durations, strict=True)]
    order = [last - task for task in sorted(range(len(keys)), key=lambda task: (keys[task], -case.rank[task]))]
    inserted = insert_in_order(reversed_graph(case.graph), order, case.problem.capacity_grains)
    if inserted is None:
        return None
    back = [-inserted.starts[last - task] - durations[task] for task in range(len(starts))]
    least = min(back)
    return [start - least for start in back]

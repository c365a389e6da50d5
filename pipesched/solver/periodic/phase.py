"""The periodic part of a solve over several cases: a first round for each, then more for the best one.

Where the first round gains nothing over what is known of a case, that is all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipesched.core.clock import Clock
from pipesched.results.outcome import Repetition
from pipesched.solver.case import PERIODIC, Case
from pipesched.solver.search import Search

if TYPE_CHECKING:
    from pipesched.solver.periodic.method import PeriodicMethod


def can_repeat(case: Case) -> bool:
    """Return whether blocks of the case can be repeated: in one direction, of whole microbatches that are alike, with
    activations that are kept, and with no step beside them."""
    problem = case.problem
    is_plain = not (problem.settled_placement.mirrored or problem.has_units or problem.has_step)
    return case.keeps_activations and is_plain


def pays(case: Case) -> bool:
    """Return whether a periodic schedule may be better than list schedules: under a budget, with a steady state."""
    problem = case.problem
    limits = [most for most in problem.capacity_grains if most is not None]
    return (
        can_repeat(case)
        and bool(limits)
        and problem.devices > 1
        and problem.microbatches >= 2 * problem.devices
        and len(case.graph) > case.policy.periods.least
    )


class PeriodicPhase:
    """Searches periodic schedules in those cases of a search where the method of the solve has them."""

    def __init__(self, search: Search, method: str) -> None:
        suits = {"auto": pays, "periodic": can_repeat}.get(method)
        self.search, self.policy, self.alone = search, search.policy.periods, method == "periodic"
        self.numbers = [number for number, case in enumerate(search.cases) if suits and suits(case)]
        self.methods: dict[int, PeriodicMethod] = {}

    def begin(self) -> None:
        """Let every case have a round, on large cases before algorithms that take long there."""
        self.first_rounds(self.search.clock.part(self.policy.large_part * self.search.limits.seconds))

    def go_on(self) -> None:
        """Let every case have a round, then the best more; as the only method, also refute periods."""
        part = self.policy.part_alone if self.alone else self.policy.part
        clock = self.search.clock.part(part * self.search.clock.left)
        self.first_rounds(clock.part(self.policy.first_part * self.search.limits.seconds))
        self.more_rounds(clock)
        if self.alone:
            self.refute(self.search.clock)

    def first_rounds(self, clock: Clock) -> None:
        """Let every open case that had none have a round, the most promising first, with half of the time left each."""
        waiting = [number for number in self.search.open if number in self.numbers and number not in self.methods]
        for done, number in enumerate(waiting):
            if clock.is_over:
                return
            from pipesched.solver.periodic.method import PeriodicMethod  # loads numpy, which most solves do without

            self.methods[number] = PeriodicMethod(self.search.cases[number], self.search.limits)
            self._round(number, clock.part(clock.left / min(len(waiting) - done, 2)))

    def more_rounds(self, clock: Clock) -> None:
        """Go on with the best case while that is worth it; beside other methods only where a block is the best."""
        while not clock.is_over:
            numbers = [number for number in self.search.open if self._goes_on(number)]
            if not numbers:
                return
            self._round(numbers[0], clock)

    def refute(self, clock: Clock) -> None:
        """Refute periods of the best case by CP-SAT."""
        number = next((number for number in self.search.open if number in self.methods), None)
        if number is not None and not clock.is_over:
            case = self.search.cases[number]
            self.search.at(f"{PERIODIC}, shorter periods, {case.name}")
            self.search.try_all(number, self.methods[number].refute(clock), clock, to_the_end=True)

    def _goes_on(self, number: int) -> bool:
        best, method = self.search.candidates[number], self.methods.get(number)
        if method is None or method.search.is_over:
            return False
        wins = best is not None and best is self.search.best and best.search == PERIODIC
        return self.alone or (wins and not method.search.is_fruitless)

    def _round(self, number: int, clock: Clock) -> None:
        self.search.at(f"{PERIODIC}, {self.search.cases[number].name}")
        self.search.try_all(number, self.methods[number].candidates(clock), clock)

    def report(self, number: int) -> Repetition | None:
        """Return what is known about periodic schedules of a case."""
        return self.methods[number].report if number in self.methods else None

"""Advice after a solve: every change is tried with heuristics alone, and those that help are listed, best first.

A solve with a change tries all schedules that are tried here, and improves on them; so it does no worse, if its time is
enough for them. That is why each is tried in the order of what a solve tries first, and what a solve may not come to
within its time limit is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil

from pipesched.core.clock import Clock
from pipesched.errors import PipeschedError
from pipesched.outcome import Advice, Outcome
from pipesched.pipeline.quantities import in_units, plain
from pipesched.schedulers.registry import family
from pipesched.solver.advice.asked import Asked
from pipesched.solver.advice.changes import Change, changes
from pipesched.solver.candidate import Candidate
from pipesched.solver.case import Case
from pipesched.solver.cases import cases_of
from pipesched.solver.portfolio import COMPARING
from pipesched.solver.search import Search

BRIEF = 20_000  # operations in all schedules of the advice after a quick solve
FAMILIES = 20  # named candidates of a case, at most
A_SECOND = 50_000  # operations that are scheduled in a second, at least
COMPARED = 1.5  # seconds that a family takes that times many plans, at most
REACHED = 0.5  # of the time limit, at most, is what a solve needs for its named candidates if they are tried here
SHARE = 0.5  # of the time that is left, for the named candidates of the next change


def advised(outcome: Outcome, asked: Asked, tell: Callable[[str], None]) -> Outcome:
    """Return the outcome of a solve with advice in its report, where there is any. `tell` is told of each step."""
    report = outcome.report
    seconds = None if report is None else asked.seconds_after(report)
    if report is None or seconds is None:
        return outcome
    clock = Clock(seconds, asked.limits.stop)
    trials: list[_Trial] = []
    makespan = Fraction(report.value_ticks, report.bound.per_unit)
    with suppress(KeyboardInterrupt):  # then what is known counts
        _try_all(trials, asked, clock, tell, is_brief=asked.is_brief(report))
    found = [advice for trial in trials if (advice := trial.advice(makespan)) is not None]
    found.sort(key=lambda advice: advice.makespan_at_most)
    return replace(outcome, report=replace(report, advice=tuple(found), seconds=report.seconds + clock.seconds))


def _try_all(trials: list[_Trial], asked: Asked, clock: Clock, tell: Callable[[str], None], *, is_brief: bool) -> None:
    """Try what is made quickly for every change, then, unless it is to be brief, the named schedules of each."""
    effort = _Effort(BRIEF if is_brief else None)
    for change in changes(asked):
        if clock.is_over or effort.is_over:
            return
        tell(f"advice, {change.name}")
        try:
            trial = _Trial(change, asked, clock)
        except PipeschedError:  # nothing fits, or no placement suits
            continue
        trials.append(trial)
        trial.try_quick(effort)
    for trial in trials if not is_brief else ():
        if clock.is_over:
            return
        tell(f"advice, {trial.change.name}")
        trial.try_named(clock.part(SHARE * clock.left))


class _Effort:
    """The operations that may still be scheduled; None: any number."""

    def __init__(self, most: int | None) -> None:
        self.left = most

    @property
    def is_over(self) -> bool:
        return self.left is not None and self.left <= 0

    def spent_on(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates until their operations are more than are left."""
        for candidate in candidates:
            yield candidate
            if self.left is not None:
                self.left -= candidate.schedule.plan.index.size
            if self.is_over:
                return


class _Trial:
    """A change under trial: a search of its own, which heuristics alone feed. Raises PipeschedError."""

    def __init__(self, change: Change, asked: Asked, clock: Clock) -> None:
        self.change, self.asked, self.clock = change, asked, clock
        costs = replace(change.problem.costs, split=change.split)
        problem = replace(change.problem, costs=costs)
        self.search = Search(cases_of(problem, asked.placement, "makespan", change.allowed), asked.limits, clock)

    def try_quick(self, effort: _Effort) -> None:
        """Try what a solve tries first on every placement."""
        for number, case in enumerate(self.search.cases):
            if self.clock.is_over or effort.is_over:
                return
            self.search.try_all(number, effort.spent_on(case.quick_candidates()), self.clock, heuristic=True)

    def try_named(self, clock: Clock) -> None:
        """Try the named schedules, the placement with the best so far first, if a solve has time for all of them."""
        if sum(map(_seconds_named, self.search.cases)) > REACHED * self.asked.limits.seconds:
            return
        for number in self.search.open:
            self.search.try_all(number, self.search.cases[number].named_candidates(), clock, heuristic=True)

    def advice(self, makespan: Fraction) -> Advice | None:
        """Return what the change is worth, where it helps. A solve may stop at its gap above what was found."""
        if self.search.best is None:
            return None
        ticks = ceil(self.search.value * (1 + Fraction(self.asked.limits.gap)))
        value = Fraction(ticks, self.search.per_unit)
        if value >= makespan:
            return None
        least, change = in_units(ticks, self.search.per_unit), self.change
        return Advice(change.name, least, plain(value - makespan), change.solve, change.arguments)


def _seconds_named(case: Case) -> float:
    """Return the seconds that all named candidates of a case take, at most."""
    comparing = sum(family(name).placement == case.name for name in COMPARING)
    return FAMILIES * len(case.graph) / A_SECOND + COMPARED * comparing

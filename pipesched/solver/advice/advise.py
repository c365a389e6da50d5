"""Advice after a solve: every change is tried with heuristics alone, and those that help are listed, best first.

A solve with a change tries all schedules that are tried here, and improves on them, so it does no worse if its time is
enough for them. What is tried here comes first there; the rest of the portfolio is tried only where a solve has time
for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.errors import PipeschedError
from pipesched.pipeline.quantities import in_units, plain
from pipesched.results.outcome import Advice, Outcome, SolveReport
from pipesched.results.status import Status, StoppedBy
from pipesched.solver.advice.changes import AdvisedChange, changes, count_operations
from pipesched.solver.case import Candidate
from pipesched.solver.feasible import cases_of
from pipesched.solver.first import quick_rounds
from pipesched.solver.request import SolveRequest
from pipesched.solver.search import Search

Tell = Callable[[str], None]


def advised(outcome: Outcome, request: SolveRequest, tell: Tell) -> Outcome:
    """Return the outcome of a solve with advice in its report, where there is any. `tell` is told of each step."""
    report = outcome.report
    allowed = None if report is None else _allowance(request, report)
    if report is None or allowed is None:
        return outcome
    clock, effort = Clock(allowed[0], request.stop), _Effort(allowed[1])
    makespan = Fraction(report.value_ticks, report.bound.per_unit)
    trials: list[_Trial] = []
    with suppress(KeyboardInterrupt):  # what is known by then counts
        for change in changes(request):
            if change.operations > min(effort.left, _schedulable(request, clock.left)):
                break
            if not (change.tightens and report.status == Status.OPTIMAL):
                tell(f"advice, {change.name}")
                trials += _quick_trial(change, request, clock, effort, makespan)
        if effort.left == inf:
            _try_whole(trials, request, clock, tell)
    found = [advice for trial in trials if (advice := trial.advice(makespan)) is not None]
    found.sort(key=lambda advice: advice.makespan_at_most)
    made = tuple(found) if trials else None
    return replace(outcome, report=replace(report, advice=made, seconds=report.seconds + clock.seconds))


def _quick_trial(
    change: AdvisedChange, request: SolveRequest, clock: Clock, effort: _Effort, makespan: Fraction
) -> Iterator[_Trial]:
    """Yield the trial of a change, with what is made quickly; none where no microbatch fits, or no placement suits."""
    with suppress(PipeschedError):
        trial = _Trial(change, request, clock)
        if change.operations <= request.policy.advice.bounded or effort.left == inf:
            trial.raise_bounds(effort)
        if Fraction(trial.search.bound.ticks, trial.search.per_unit) < makespan:
            trial.try_quickly(effort)
        yield trial


def _try_whole(trials: list[_Trial], request: SolveRequest, clock: Clock, tell: Tell) -> None:
    """Try the whole portfolio for every change for which a solve has time for it."""
    policy = request.policy.advice
    for trial in trials:
        sizes = (len(case.graph) / policy.whole for case in trial.search.cases)
        seconds = sum(policy.whole_seconds * size**2 for size in sizes)  # that it takes, at most
        if not clock.is_over and seconds <= policy.reached * request.limits.seconds:
            tell(f"advice, {trial.change.name}")
            trial.try_whole(clock.part(policy.share * clock.left))


class _Effort:
    """The operations that may still be scheduled, maybe infinitely many."""

    def __init__(self, most: float) -> None:
        self.left = most

    def spent_on(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield candidates until their operations are more than are left."""
        for candidate in candidates:
            yield candidate
            self.left -= candidate.schedule.plan.index.size
            if self.left <= 0:
                return


class _Trial:
    """A change under trial: a search of its own, which heuristics alone feed. Raises PipeschedError."""

    def __init__(self, change: AdvisedChange, request: SolveRequest, clock: Clock) -> None:
        self.change, self.request, self.clock = change, request, clock
        costs = replace(change.problem.costs, split=change.split)
        problem = replace(change.problem, costs=costs)
        cases = cases_of(problem, request.placement, "makespan", change.allowed, request.policy)
        self.search = Search(cases, request.limits, clock)

    def raise_bounds(self, effort: _Effort) -> None:
        """Bound every placement."""
        with suppress(TimeIsUp), under(self.clock):
            for number, case in enumerate(self.search.cases):
                self.search.raise_bound(number, case.bound())
                effort.left -= len(case.graph)

    def try_quickly(self, effort: _Effort) -> None:
        """Try what a solve tries first on every placement."""
        cases = self.search.cases
        for number, candidates in quick_rounds(cases, range(len(cases))):
            if self.clock.is_over or effort.left <= 0:
                return
            if self.search.best is None or number in self.search.open:
                self.search.try_all(number, effort.spent_on(candidates), self.clock, heuristic=True)

    def try_whole(self, clock: Clock) -> None:
        """Try all heuristics, on the placement with the best so far first."""
        for number in self.search.open:
            case = self.search.cases[number]
            self.search.try_all(number, case.named_candidates(), clock, heuristic=True)
            self.search.try_all(number, case.ruled_candidates(), clock, heuristic=True)

    def advice(self, makespan: Fraction) -> Advice | None:
        """Return what the change is worth, where it helps. A solve may stop at its gap above what was found."""
        if self.search.best is None:
            return None
        ticks = ceil(self.search.value * (1 + Fraction(self.request.limits.gap)))
        value = Fraction(ticks, self.search.per_unit)
        if value >= makespan:
            return None
        least, change = in_units(ticks, self.search.per_unit), self.change
        return Advice(change.name, least, plain(value - makespan), change.solve, change.arguments)


def kept_seconds(request: SolveRequest) -> float:
    """Return the seconds that are kept for advice: 0 where there is none, and where they are too few for one schedule.

    It compares makespans. Where a command has kept some of its limit for itself, that limit says whether it is short.
    """
    policy, whole = request.policy.advice, request.whole_limit
    is_short = (request.time_limit if whole is None else whole) < policy.shortest
    if request.advice is False or request.objective != "makespan" or is_short:
        return 0.0
    problem, seconds = request.split_problem, min(policy.part * request.limits.seconds, policy.most)
    operations = count_operations(problem, split=problem.costs.split)
    return 0.0 if operations > _schedulable(request, seconds) and not request.advice else seconds


def _schedulable(request: SolveRequest, seconds: float) -> float:
    """Return how many operations one schedule may have, of all that can be made in so many seconds."""
    return request.policy.advice.room * request.policy.advice.a_second * seconds


def _allowance(request: SolveRequest, report: SolveReport) -> tuple[float, float] | None:
    """Return the seconds that advice may take after a solve, and the operations of all its schedules, maybe any number.

    None where there is none.
    """
    policy, kept = request.policy.advice, kept_seconds(request)
    if not kept or report.stopped_by == StoppedBy.INTERRUPT:
        return None
    left = max(request.limits.seconds - report.seconds, 0.0)
    if report.seconds >= policy.long:
        most = kept if request.advice else policy.part * report.seconds
        return min(most, kept, left), inf
    operations = kept * policy.a_second
    is_brief = not request.advice and report.stopped_by != StoppedBy.TIME_LIMIT
    return left, min(operations, policy.brief) if is_brief else operations

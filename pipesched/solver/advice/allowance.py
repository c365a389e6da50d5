"""How much of its time a solve leaves to its advice: seconds, or operations that may be scheduled."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from pipesched.pipeline.kinds import count_computations
from pipesched.results.outcome import SolveReport
from pipesched.results.status import StoppedBy
from pipesched.solver.request import SolveRequest


class Allowance(NamedTuple):
    """What advice may take: so many seconds, and so many operations in all its schedules, maybe any number."""

    seconds: float
    operations: float


def kept_seconds(request: SolveRequest) -> float:
    """Return the seconds that are kept for advice: 0 where there is none, and where they are too few for one schedule.

    It compares makespans. Where a command has kept some of its limit for itself, that limit says whether it is short.
    """
    policy, whole = request.policy.advice, request.whole_limit
    is_short = (request.time_limit if whole is None else whole) < policy.shortest
    if request.advice is False or request.objective != "makespan" or is_short:
        return 0.0
    problem, seconds = request.split_problem, min(policy.part * request.limits.seconds, policy.most)
    operations = count_computations(problem.costs.split, problem.stages, problem.microbatches)
    return 0.0 if operations > schedulable(request, seconds) and not request.advice else seconds


def schedulable(request: SolveRequest, seconds: float) -> float:
    """Return how many operations one schedule may have, of all that can be made in so many seconds."""
    return request.policy.advice.room * request.policy.advice.a_second * seconds


def allowance(request: SolveRequest, report: SolveReport) -> Allowance | None:
    """Return what advice may take after a solve; None where there is none."""
    policy, kept = request.policy.advice, kept_seconds(request)
    if not kept or report.stopped_by == StoppedBy.INTERRUPT:
        return None
    is_settled = report.stopped_by in (StoppedBy.PROOF, StoppedBy.GAP)
    if request.advice is None and is_settled and report.seconds <= policy.at_once:
        return None
    left = max(request.limits.seconds - report.seconds, 0.0)
    if report.seconds >= policy.long:
        most = kept if request.advice else policy.part * report.seconds
        return Allowance(min(most, kept, left), inf)
    operations = kept * policy.a_second
    is_brief = not request.advice and report.stopped_by != StoppedBy.TIME_LIMIT
    return Allowance(left, min(operations, policy.brief) if is_brief else operations)

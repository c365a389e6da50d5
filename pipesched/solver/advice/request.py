"""What a solve was asked, as far as its advice goes by it, and how much of its time that may take."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from pipesched.checks import require_flag
from pipesched.core.cpsat import Limits
from pipesched.errors import ConfigError
from pipesched.pipeline.kinds import Allowed, count_computations
from pipesched.pipeline.problem import Problem
from pipesched.results.outcome import SolveReport
from pipesched.results.status import StoppedBy
from pipesched.solver.policy import DEFAULT, SolvePolicy


class Allowance(NamedTuple):
    """What advice may take: so many seconds, and so many operations in all its schedules, maybe any number."""

    seconds: float
    operations: float


class AdviceRequest(NamedTuple):
    """What a solve was asked. `split` says whether its backward runs as I and W, whatever `problem` says.

    `limits` are of the solve, advice included; `time_limit` is the user's, in seconds, of which a caller may have kept
    some for itself. `wanted` is whether there is advice: None means unless a bound settles the answer at once.
    """

    problem: Problem
    split: bool
    placement: str | Sequence[str] | None
    allowed: Allowed
    method: str
    has_hint: bool
    limits: Limits
    time_limit: float
    wanted: bool | None
    policy: SolvePolicy = DEFAULT

    @property
    def seconds(self) -> float:
        """The seconds that are kept for advice: 0 where there is none, and where they are too few for one schedule."""
        policy = self.policy.advice
        if self.wanted is False or self.time_limit < policy.shortest:
            return 0.0
        seconds = min(policy.part * self.limits.seconds, policy.most)
        is_large = self.operations > self.schedulable(seconds)
        return 0.0 if is_large and not self.wanted else seconds

    def schedulable(self, seconds: float) -> float:
        """Return how many operations a schedule may have that is made in so many seconds, with room for others."""
        return self.policy.advice.room * self.policy.advice.a_second * seconds

    @property
    def operations(self) -> int:
        """The operations of a step, as many as are computed."""
        return count_computations(self.split, self.problem.stages, self.problem.microbatches)

    def allowance(self, report: SolveReport) -> Allowance | None:
        """Return what advice may take after a solve; None where there is none."""
        if not self.seconds or report.stopped_by == StoppedBy.INTERRUPT:
            return None
        policy = self.policy.advice
        is_settled = report.stopped_by in (StoppedBy.PROOF, StoppedBy.GAP)
        if self.wanted is None and is_settled and report.seconds <= policy.at_once:
            return None
        left = max(self.limits.seconds - report.seconds, 0.0)
        if report.seconds >= policy.long:
            most = self.seconds if self.wanted else policy.part * report.seconds
            return Allowance(min(most, self.seconds, left), inf)
        operations = self.seconds * policy.a_second
        is_brief = not self.wanted and report.stopped_by != StoppedBy.TIME_LIMIT
        return Allowance(left, min(operations, policy.brief) if is_brief else operations)


def require_advice(wanted: object, objective: str) -> bool | None:
    """Return whether advice is wanted; none where the objective is no makespan. Raises ConfigError."""
    if wanted is not None and require_flag(wanted, "advice") and objective != "makespan":
        raise ConfigError(f"compares makespans, and `objective` is {objective}", "advice")
    return False if objective != "makespan" else None if wanted is None else bool(wanted)

"""What a solve was asked, as far as its advice goes by it, and how much of its time that may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipesched.checks import require_flag
from pipesched.core.cpsat import Limits
from pipesched.errors import ConfigError
from pipesched.outcome import SolveReport
from pipesched.pipeline.kinds import Allowed
from pipesched.pipeline.problem import Problem
from pipesched.words import StoppedBy

SHORTEST = 1.0  # seconds: with a time limit below there is no advice
AT_ONCE = 0.1  # seconds: where a bound settles the answer in that time, there is none unless asked for
PART = 0.1  # of the time limit, and from LONG on also of the time that was used, at most
LONG = 10.0  # seconds: a search of less time has advice of the same few schedules on every machine
MOST = 60.0  # seconds of advice, at most


class Asked(NamedTuple):
    """What a solve was asked. `split` says whether its backward runs as I and W, whatever `problem` says.

    `limits` are the user's; `wanted` is whether there is advice: None means unless a bound settles the answer at once.
    """

    problem: Problem
    split: bool
    placement: str | Sequence[str] | None
    allowed: Allowed
    method: str
    has_hint: bool
    limits: Limits
    wanted: bool | None

    @property
    def seconds(self) -> float:
        """The seconds that are kept for advice: 0 where there is none."""
        if self.wanted is False or self.limits.seconds < SHORTEST:
            return 0.0
        return min(PART * self.limits.seconds, MOST)

    def seconds_after(self, report: SolveReport) -> float | None:
        """Return the seconds that advice may take after a solve; None where there is none."""
        if not self.seconds or report.stopped_by == StoppedBy.INTERRUPT:
            return None
        is_settled = report.stopped_by in (StoppedBy.PROOF, StoppedBy.GAP)
        if self.wanted is None and is_settled and report.seconds <= AT_ONCE:
            return None
        seconds = self.seconds if self.is_brief(report) or self.wanted else PART * report.seconds
        return max(min(seconds, self.seconds, self.limits.seconds - report.seconds), 0.0)

    def is_brief(self, report: SolveReport) -> bool:
        """Return whether a solve was so quick that its advice is of few schedules."""
        return not self.wanted and report.seconds < LONG


def require_advice(wanted: object, objective: str) -> bool | None:
    """Return whether advice is wanted; none where the objective is no makespan. Raises ConfigError."""
    if wanted is not None and require_flag(wanted, "advice") and objective != "makespan":
        raise ConfigError(f"compares makespans, and `objective` is {objective}", "advice")
    return False if objective != "makespan" else None if wanted is None else bool(wanted)

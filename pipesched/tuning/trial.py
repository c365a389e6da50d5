"""Simulating a point: the estimate of its setup under its algorithm, as plain numbers that another process can send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from time import time
from typing import Any, NamedTuple

from pipesched.core.clock import Clock, TimeIsUp, under
from pipesched.errors import NoSchedule, NotApplicable, PipeschedError
from pipesched.estimation.derived import outline
from pipesched.estimation.items import GB
from pipesched.estimation.result import Estimate, TrainingStep
from pipesched.estimation.setup import Setup
from pipesched.estimation.trust.answers import Trust
from pipesched.estimation.trust.speed import SpeedRatio
from pipesched.results.outcome import run
from pipesched.results.trainers import Verdict, verdicts
from pipesched.tuning.space import SpacePoint


class TrialTask(NamedTuple):
    """What simulates a point: parameters of make_problem, `until` a time of day, and `bar`, the best rate known."""

    point: SpacePoint
    setup: Setup
    given: Mapping[str, Any]
    until: float = inf
    bar: float = 0.0


@dataclass(frozen=True)
class Trial:
    """A point that was simulated. `memory` is GB of the fullest device, `spare` the GB that the tightest one has left.

    `layout` is what each stage holds, as Megatron-LM writes it. `reason` says why the algorithm does not apply; then
    there is no step. So it is where an algorithm that obeys the memory finds no schedule: then it `is_short`.
    `verdicts` are what each trainer says of the schedule. Rows of an answer have `trust`, which says how sure the
    estimate is, and all but the first row `behind`: the time of the first row's step over that of this one.
    """

    point: SpacePoint
    step: TrainingStep | None = None
    memory: float = 0.0
    spare: float = 0.0
    bubble: float = 0.0
    layout: str = ""
    reason: str = ""
    is_short: bool = False
    verdicts: tuple[Verdict, ...] = ()
    trust: Trust | None = None
    behind: SpeedRatio | None = None

    @property
    def runs_in(self) -> list[str]:
        """The trainers that take the schedule."""
        return [verdict.trainer for verdict in self.verdicts if verdict.takes]

    def suits(self, trainer: str | None) -> bool:
        """Return whether a trainer takes the schedule; without one it does."""
        return trainer is None or trainer in self.runs_in

    @property
    def fits(self) -> bool:
        """Whether every device has the memory."""
        return self.step is not None and self.spare >= 0

    @property
    def sure(self) -> bool:
        """Whether it fits also where it holds more than estimated; False where nobody knows."""
        return self.trust is not None and self.trust.sure

    @property
    def may_not_fit(self) -> bool:
        """Whether it fits by the estimate, and not surely."""
        return self.fits and self.trust is not None and not self.trust.sure

    @property
    def rate(self) -> float:
        """The tokens a second of a GPU; 0 where the algorithm does not apply."""
        return 0.0 if self.step is None else self.step.tokens_per_second_per_gpu

    @property
    def rank(self) -> tuple[bool, float, float, str]:
        """The sort key: what fits first, then the higher rate, of equal ones what holds less."""
        return not self.fits, -self.rate, self.memory, self.point.key


class Simulated(NamedTuple):
    """The trial of a point, and its estimate where it fits and reaches the bar."""

    trial: Trial
    estimate: Estimate | None = None


def simulate(task: TrialTask) -> Simulated | None:
    """Return the trial of a point, None once it is `until`. It is what `estimate` says of its setup and algorithm."""
    try:
        with under(Clock(max(task.until - time(), 0.0))):
            found = estimate_of_point(task)
            trial = trial_of(task.point, found)
    except TimeIsUp:
        return None
    except NotApplicable as error:
        return Simulated(Trial(task.point, reason=error.message))
    except PipeschedError as error:
        return Simulated(Trial(task.point, reason=str(error), is_short=isinstance(error, NoSchedule)))
    return Simulated(trial, found if trial.fits and trial.rate >= task.bar else None)


def estimate_of_point(task: TrialTask) -> Estimate:
    """Return the estimate of a point. Raises PipeschedError where its algorithm does not apply."""
    return Estimate(run(outline(task.setup, task.given), task.point.algorithm))


def trial_of(point: SpacePoint, found: Estimate) -> Trial:
    """Return an estimate as a trial."""
    totals = [float(device.total) / GB for device in found.devices]
    spare = min(float(device.budget - device.total) / GB for device in found.devices)
    outcome = found.outcome
    said = verdicts(outcome, point.algorithm)
    return Trial(point, found.step, max(totals), spare, outcome.schedule.bubble, found.layout, verdicts=said)

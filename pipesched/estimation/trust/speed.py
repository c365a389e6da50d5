"""How long a step takes, as an interval, and how likely it is shorter than another: what residuals say of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import erf, exp, log, sqrt
from typing import NamedTuple

from pipesched.errors import ConfigError
from pipesched.estimation.trust.facts import ComparedRun
from pipesched.estimation.trust.residuals import ResidualModel

LEVEL = 0.8  # of every interval: eight of ten are expected to hold what is measured
HALF_WIDTH = 1.2816  # standard deviations
DECIDED = 0.9


class Interval(NamedTuple):
    """What is expected, and the ends between which 80 % of such runs lie."""

    low: float
    expected: float
    high: float


class SpeedRatio(NamedTuple):
    """The time of a step over that of another: an interval of it, and how likely the first one is `faster`."""

    low: float
    expected: float
    high: float
    faster: float

    @property
    def is_decided(self) -> bool:
        """Whether one of the two is faster with 90 %."""
        return not 1 - DECIDED < self.faster < DECIDED


class Standing(NamedTuple):
    """What two estimates are compared by: their runs, the milliseconds of their steps, and what is known beside."""

    run: ComparedRun
    time: float
    model: ResidualModel

    def against(self, other: Standing) -> SpeedRatio:
        """Return the time of this step over that of another of the same source, whose effect cancels.

        Raises ConfigError where they are no steps of one model on as many GPUs.
        """
        mine, theirs = self.run.facts, other.run.facts
        if (mine.model, mine.gpus) != (theirs.model, theirs.gpus):
            raise ConfigError("ratios are of one model on as many GPUs", "against")
        run = replace(other.run, source=self.run.source, version=self.run.version)
        return ratios(self.model, [self.run, run], [self.time, other.time])[1]


def interval(time: float, mean: float, spread: float) -> Interval:
    """Return the interval of a step that is estimated to take `time`, by mean and spread of its residual."""
    return Interval(*(time * exp(mean + HALF_WIDTH * side * spread) for side in (-1, 0, 1)))


def ratios(model: ResidualModel, runs: Sequence[ComparedRun], times: Sequence[float]) -> list[SpeedRatio]:
    """Return the time of the first run over that of each one."""
    found = model.posterior(runs)
    cov = found.covariance
    answers = []
    for number, time in enumerate(times):
        middle = log(times[0] / time) + found.means[0] - found.means[number]
        width = sqrt(max(0.0, cov[0][0] + cov[number][number] - 2 * cov[0][number]))
        ends = interval(1.0, middle, width)
        faster = 0.5 * (1 - erf(middle / width / sqrt(2))) if width else 0.5
        answers.append(SpeedRatio(*ends, faster))
    return answers
